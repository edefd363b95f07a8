/** Leader: restored objects get their owners back. */
import type { World } from '../../admission/policy/world.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import type { RestoreDetector } from '../../api/restore-detector.ts';
import { relinkStored, type RelinkedStored, type RelinkStoredDeps } from './relink-stored.ts';
import { createRelinker, type PatchOutcome, type RelinkDeps } from './relink.ts';
import { ApiError } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Discovery } from '../../kube/discovery.ts';
import type { KubeObject } from '../../kube/object.ts';
import { restoredBy } from '../../restore/restored-by.ts';
import { sha256 } from './restore-evidence.ts';
import { storedObjects } from '../policies/stored-objects.ts';
import { served } from '../policies/world.ts';

export interface RelinkParts {
  /** Writes only while this replica leads. */
  readonly client: KubeClient;
  readonly discovery: Pick<Discovery, 'resolve'>;
  readonly world: Pick<World, 'owners'>;
  readonly policies: RelinkStoredDeps['policies'];
  readonly windows: () => readonly RestoreWindow[];
  readonly detectors: () => readonly RestoreDetector[];
  /** How long after it was let in a write may still be stored, in milliseconds. */
  readonly settleMs: number;
}

/** What the sweep of a window does about owners; undefined where it leaves them alone. */
export type RelinkOwners = (
  window: RestoreWindow,
  signal: AbortSignal,
) => Promise<RelinkedStored | undefined>;

export function createRelinkOwners(parts: RelinkParts): RelinkOwners {
  const { client, discovery, world, policies, windows, detectors, settleMs } = parts;
  const { owners } = world;
  if (owners === undefined) return () => Promise.resolve(undefined);
  const stored = storedObjects({ client, discovery });
  const relink = createRelinker({
    readOwner: owners.read,
    read: stored.read,
    patch: createPatch(client, discovery),
  });
  return async (window, signal) => {
    const mode = relinkMode(window);
    if (mode === 'Off') return undefined;
    const isRestored = restoredBy(windows(), detectors(), settleMs, sha256);
    return await relinkStored({ ...stored, policies, relink }, { mode, isRestored }, signal);
  };
}

/** As the window says; until a person has approved the links, where one has to, they are only listed. */
export function relinkMode({ spec: { sweep = {} } }: RestoreWindow): 'Link' | 'Report' | 'Off' {
  const { relinkOwners = 'Link', requireApprovalToLink = false, approved = false } = sweep;
  return relinkOwners === 'Link' && requireApprovalToLink && !approved ? 'Report' : relinkOwners;
}

function createPatch(
  client: Pick<KubeClient, 'patchJson'>,
  discovery: Pick<Discovery, 'resolve'>,
): RelinkDeps['patch'] {
  return async (ref, operations, signal): Promise<PatchOutcome> => {
    const resource = await served(discovery, ref, signal);
    try {
      const object = await client.patchJson<KubeObject>(resource, ref, operations, { signal });
      return { kind: 'patched', object };
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      // A `test` that fails is 422, as are owners that the API server does not take.
      if ([404, 409, 422].includes(error.code)) return { kind: 'changed', message: error.message };
      if (error.code === 403) return { kind: 'forbidden', message: error.message };
      throw error;
    }
  };
}
