/** On the leader: links stored objects to their owners again, if a policy preserves owners that a restore dropped. */
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { isInScope } from '../../admission/policy/match/object-scope.ts';
import { groupResourceName, type GroupResource, type KubeObject } from '../../json/kube-object.ts';
import { mapConcurrent } from '../../json/map-concurrent.ts';
import type { RelinkItem } from '../../api/restore-findings.ts';
import { governed } from '../policies/policies.ts';
import {
  type Relink,
  type RelinkOptions,
  createRelinker,
  type PatchOutcome,
  type PatchGuarded,
} from './relink.ts';
import type { World } from '../../admission/policy/world.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import type { RestoreDetector } from '../../api/restore-detector.ts';
import { ApiError } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Discovery } from '../../kube/discovery.ts';
import { restoredBy } from '../../restore/restored-by.ts';
import { sha256 } from './restore-evidence.ts';
import { messageOf } from '../../json/error-message.ts';
import type { Store } from '../../kube/store.ts';
import { storedObjects, type StoredObjects } from '../policies/stored-objects.ts';
import { served } from '../policies/world.ts';

export interface RelinkedStored {
  readonly items: readonly RelinkItem[];
  /** Kinds that could not be read, with the reason. */
  readonly unreadable: readonly string[];
}

/** Limit for objects that are linked at the same time. Each takes three consecutive requests. */
const AT_ONCE = 16;

/** @throws the reason of `signal` on abort, and when the namespaces cannot be read */
export async function relinkStored(
  { pages, namespaceLabels }: Pick<StoredObjects, 'pages' | 'namespaceLabels'>,
  policies: readonly CompiledPolicy[],
  relink: Relink,
  options: RelinkOptions,
  signal: AbortSignal,
): Promise<RelinkedStored> {
  const kinds = kindsOf(policies);
  const items: RelinkItem[] = [];
  const unreadable: string[] = [];
  if (kinds.length === 0) return { items, unreadable };
  const namespaces = await namespaceLabels(signal);
  for (const { resource, policies: preserving } of kinds) {
    try {
      for await (const page of pages(resource, signal)) {
        const inScope = page.filter((object) =>
          preserving.some((policy) => isInScope(policy, object, namespaces)),
        );
        const results = await mapConcurrent(inScope, AT_ONCE, (object) =>
          relink(resource, object, options, signal),
        );
        for (const result of results) items.push(...result);
      }
    } catch (error) {
      signal.throwIfAborted();
      unreadable.push(`${groupResourceName(resource)}: ${messageOf(error)}`);
    }
  }
  return { items, unreadable };
}

interface PreservedKind {
  readonly resource: GroupResource;
  readonly policies: readonly CompiledPolicy[];
}

function kindsOf(policies: readonly CompiledPolicy[]): readonly PreservedKind[] {
  const pairs = policies
    .filter(({ preservesOwners }) => preservesOwners)
    .flatMap((policy) => governed(policy).map((resource) => ({ resource, policy })));
  const byKind = Map.groupBy(pairs, ({ resource }) => groupResourceName(resource));
  return [...byKind.values()].flatMap((same) => {
    const [first] = same;
    return first === undefined
      ? []
      : [{ resource: first.resource, policies: same.map(({ policy }) => policy) }];
  });
}

export interface RelinkOwnersOptions {
  readonly client: Pick<KubeClient, 'get' | 'list' | 'pages' | 'listAll' | 'patchJson'>;
  readonly discovery: Pick<Discovery, 'resolve'>;
  /** Undefined: owners are not relinked. */
  readonly owners: World['owners'];
  readonly policies: () => readonly CompiledPolicy[];
  readonly windows: Pick<Store<RestoreWindow>, 'list'>;
  readonly detectors: Pick<Store<RestoreDetector>, 'list'>;
  /** How long after its admission a write may still be stored, in milliseconds. */
  readonly settleMs: number;
}

/** Relinks owners as part of the sweep of a window. Undefined when the window turns it off. */
export type RelinkOwners = (
  window: RestoreWindow,
  signal: AbortSignal,
) => Promise<RelinkedStored | undefined>;

export function createRelinkOwners(options: RelinkOwnersOptions): RelinkOwners {
  const { client, discovery, owners, policies, windows, detectors, settleMs } = options;
  if (owners === undefined) return () => Promise.resolve(undefined);
  const stored = storedObjects({ client, discovery });
  const relink = createRelinker(owners, stored, createPatch(client, discovery));
  return async (window, signal) => {
    const mode = relinkMode(window);
    if (mode === 'Off') return undefined;
    const isRestored = restoredBy(windows.list(), detectors.list(), settleMs, sha256);
    return await relinkStored(stored, policies(), relink, { mode, isRestored }, signal);
  };
}

/** The mode of the window. Links that need approval are only reported until a person approves them. */
export function relinkMode({ spec: { sweep = {} } }: RestoreWindow): 'Link' | 'Report' | 'Off' {
  const { relinkOwners = 'Link', requireApprovalToLink = false, approved = false } = sweep;
  return relinkOwners === 'Link' && requireApprovalToLink && !approved ? 'Report' : relinkOwners;
}

function createPatch(
  client: Pick<KubeClient, 'patchJson'>,
  discovery: Pick<Discovery, 'resolve'>,
): PatchGuarded {
  return async (ref, operations, signal): Promise<PatchOutcome> => {
    const resource = await served(discovery, ref, signal);
    try {
      const object = await client.patchJson<KubeObject>(resource, ref, operations, { signal });
      return { kind: 'patched', object };
    } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      // 422 is a failed `test`, or an owner that the API server rejects.
      if ([404, 409, 422].includes(error.code)) return { kind: 'changed', message: error.message };
      if (error.code === 403) return { kind: 'forbidden', message: error.message };
      throw error;
    }
  };
}
