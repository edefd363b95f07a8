/** Every stored object whose owners are preserved, and that a restore has made without them. */
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { isInScope, type NamespaceLabels } from '../../admission/policy/match/object-scope.ts';
import { groupResourceName, type GroupResource, type KubeObject } from '../../json/kube-object.ts';
import type { RelinkItem } from '../../api/restore-findings.ts';
import { governed } from '../policies/policies.ts';
import {
  type Relink,
  type RelinkOptions,
  createRelinker,
  type PatchOutcome,
  type RelinkDeps,
} from './relink.ts';
import type { World } from '../../admission/policy/world.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import type { RestoreDetector } from '../../api/restore-detector.ts';
import { ApiError } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Discovery } from '../../kube/discovery.ts';
import { restoredBy } from '../../restore/restored-by.ts';
import { sha256 } from './restore-evidence.ts';
import { storedObjects } from '../policies/stored-objects.ts';
import { served } from '../policies/world.ts';

export interface RelinkStoredDeps {
  readonly policies: () => readonly CompiledPolicy[];
  /** Every object of a kind, page by page, straight from storage. Throws when the kind cannot be read. */
  readonly pages: (resource: GroupResource, signal: AbortSignal) => AsyncIterable<readonly KubeObject[]>;
  readonly namespaceLabels: (signal: AbortSignal) => Promise<NamespaceLabels>;
  readonly relink: Relink;
}

export interface RelinkedStored {
  readonly items: readonly RelinkItem[];
  /** Kinds that could not be read, each with the reason. */
  readonly unreadable: readonly string[];
}

/** Objects that are linked at a time: each is three requests, one after the other. */
const AT_ONCE = 16;

/** @throws the reason of `signal` on abort, and when the namespaces cannot be read */
export async function relinkStored(
  deps: RelinkStoredDeps,
  options: RelinkOptions,
  signal: AbortSignal,
): Promise<RelinkedStored> {
  const kinds = kindsOf(deps.policies());
  const items: RelinkItem[] = [];
  const unreadable: string[] = [];
  if (kinds.length === 0) return { items, unreadable };
  const namespaces = await deps.namespaceLabels(signal);
  for (const { resource, policies } of kinds) {
    try {
      for await (const page of deps.pages(resource, signal)) {
        const inScope = page.filter((object) =>
          policies.some((policy) => isInScope(policy, object, namespaces)),
        );
        for (let start = 0; start < inScope.length; start += AT_ONCE) {
          const batch = inScope.slice(start, start + AT_ONCE);
          const results = await Promise.all(
            batch.map((object) => deps.relink(resource, object, options, signal)),
          );
          for (const result of results) items.push(...result);
        }
      }
    } catch (error) {
      signal.throwIfAborted();
      unreadable.push(
        `${groupResourceName(resource)}: ${error instanceof Error ? error.message : String(error)}`,
      );
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

/** Leader: restored objects get their owners back. */
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
