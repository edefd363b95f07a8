/** Links restored objects to their former owners and targets, once for each governed object. */
import type { Owners } from '../../admission/policy/world.ts';
import type { GroupResource, KubeObject } from '../../json/kube-object.ts';
import type { RelinkItem } from '../../api/restore-findings.ts';
import { OWNERS_MANAGER } from '../../restore/owner-links.ts';
import { restoringWindows, sweepMode, type SweepMode } from '../../restore/restored-by.ts';
import { type StoredObjects, storedObjects, eachPage } from '../policies/stored-objects.ts';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { namesUids } from '../../admission/policy/references/target-uids.ts';
import { isInScope } from '../../admission/policy/match/object-scope.ts';
import { mapConcurrent } from '../../json/map-concurrent.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import { createAttribution } from '../../restore/attribution.ts';
import { relinkMode } from '../../restore/window.ts';
import type { ControllersConfig } from '../../config/config.ts';
import type { Context } from '../context.ts';
import type { RestoreKinds } from './restore-kinds.ts';
import type { PolicyRegistry } from '../policies/policy-registry.ts';
import { type RelinkOptions, type Relink, createRelinker } from './relink-owners.ts';
import { type RelinkUids, createUidRelinker } from './relink-uids.ts';
import { createPatch } from './guarded-patch.ts';

export interface RelinkedStored {
  readonly items: readonly RelinkItem[];
  readonly unreadable: readonly string[];
}

/** Limit for objects that are linked concurrently. Each takes three consecutive requests. */
const AT_ONCE = 16;

interface Relinkers {
  readonly owners: Relink;
  readonly uids: RelinkUids;
}

type RelinkTask = Pick<RelinkOptions, 'isRestored'> & {
  readonly modeOf: (resource: GroupResource, object: KubeObject) => SweepMode;
};

/** @throws the reason of `signal` on abort, and when the namespaces cannot be read */
export async function relinkStored(
  stored: Pick<StoredObjects, 'pages' | 'namespaceLabels'>,
  policies: readonly CompiledPolicy[],
  relink: Relinkers,
  { modeOf, isRestored }: RelinkTask,
  signal: AbortSignal,
): Promise<RelinkedStored> {
  const preserving = policies.filter((policy) => policy.preservesOwners || namesUids(policy));
  const items: RelinkItem[] = [];
  if (preserving.length === 0) return { items, unreadable: [] };
  const namespaces = await stored.namespaceLabels(signal);
  const unreadable = await eachPage(
    stored,
    preserving,
    async (page, resource, governing) => {
      const results = await mapConcurrent(page, AT_ONCE, async (object) => {
        const policiesOf = governing.filter((policy) => isInScope(policy, object, namespaces));
        const { mode, heldBy } = modeOf(resource, object);
        if (policiesOf.length === 0 || mode === 'Off') return [];
        const options = { mode, heldBy, isRestored };
        // Uids first: a link changes the object.
        const uids = await relink.uids(resource, object, policiesOf, options, signal);
        const preserves = policiesOf.some(({ preservesOwners }) => preservesOwners);
        return preserves ? [...uids, ...(await relink.owners(resource, object, options, signal))] : uids;
      });
      items.push(...results.flat());
    },
    signal,
  );
  return { items, unreadable };
}

export type RelinkOwners = ReturnType<typeof createRelinkOwners>;

export interface RelinkSources extends RestoreKinds {
  readonly registry: Pick<PolicyRegistry, 'inForce'>;
  readonly world: { readonly owners: Owners };
}

export function createRelinkOwners(
  { client, discovery, config, namespaces }: Context<ControllersConfig>,
  { windows, detectors, registry, world }: RelinkSources,
) {
  const stored = storedObjects(client, discovery, undefined, namespaces);
  const patch = createPatch(client, discovery, OWNERS_MANAGER);
  const relink: Relinkers = {
    owners: createRelinker(world.owners, stored, patch),
    uids: createUidRelinker(stored, patch),
  };
  return async (window: RestoreWindow, signal: AbortSignal): Promise<RelinkedStored | undefined> => {
    if (relinkMode(window.spec) === 'Off') return undefined;
    const others = windows.store.list().filter(({ metadata }) => metadata.name !== window.metadata.name);
    const known = [[window, ...others], detectors.store.list(), config.restoreSettleMs] as const;
    const restoring = restoringWindows(...known);
    const { writer } = createAttribution(...known);
    const task: RelinkTask = {
      modeOf: (resource, { metadata = {} }) => {
        const belongsTo = restoring(metadata, resource);
        const owner = writer({ resource, written: { ...metadata, changedAt: [] } });
        // Each object is in the report of one window, whose sweep links its owners.
        const isLeft = owner !== undefined && owner !== window && belongsTo.includes(owner);
        return isLeft ? { mode: 'Off' } : sweepMode(window, belongsTo);
      },
      isRestored: (made) => restoring(made).length > 0,
    };
    return await relinkStored(stored, registry.inForce(), relink, task, signal);
  };
}
