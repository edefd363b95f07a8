/**
 * Stores UniqueClaims in the API server, which decides between concurrent writers: by the name on create, by the
 * resourceVersion on replace and delete. And what every controller of claims needs.
 */
import { setTimeout as sleep } from 'node:timers/promises';

import type { Claims, ClaimStore, ObjectReads } from '../../admission/policy/world.ts';
import type { UniqueClaim } from '../../api/unique-claim.ts';
import { isAlreadyExists, isConflict, isNotFound } from '../../kube/api-error.ts';
import { type KubeClient, createClient } from '../../kube/client.ts';
import { namespaces } from '../../kube/well-known.ts';
import { UNIQUE_CLAIMS } from '../resources.ts';
import { createRecent } from './recent.ts';
import type { Context } from '../context.ts';
import type { Governed } from '../policies/governed.ts';
import type { PolicyRegistry } from '../policies/policy-registry.ts';
import type { Targets } from '../policies/targets.ts';
import { createWorld } from '../policies/world.ts';

export function createClaims(
  client: Pick<KubeClient, 'get' | 'create' | 'replace' | 'delete'>,
  settleMs: number,
): ClaimStore {
  return {
    settleMs,
    read: (name, signal) => client.get<UniqueClaim>(UNIQUE_CLAIMS, { name }, { signal }),
    create: async (claim, signal) => {
      try {
        return await client.create(UNIQUE_CLAIMS, claim, { signal });
      } catch (error) {
        if (isAlreadyExists(error)) return 'taken';
        throw error;
      }
    },
    replace: async (claim, signal) => {
      try {
        return await client.replace(UNIQUE_CLAIMS, claim, { signal });
      } catch (error) {
        if (isConflict(error) || isNotFound(error)) return 'changed';
        throw error;
      }
    },
    remove: async ({ metadata: { name = '', uid, resourceVersion } }, signal) => {
      try {
        const preconditions = { uid, resourceVersion };
        const outcome = await client.delete(UNIQUE_CLAIMS, { name }, { preconditions, signal });
        return outcome === 'deleted' ? 'removed' : 'changed';
      } catch (error) {
        if (isConflict(error)) return 'changed';
        throw error;
      }
    },
  };
}

/** A namespace still counts as existing this long after a read has found it, in milliseconds. */
const NAMESPACE_MS = 60_000;
const MOST_NAMESPACES = 10_000;

export function createNamespaceCheck(client: Pick<KubeClient, 'getMetadata'>): Claims['hasNamespace'] {
  const recent = createRecent(MOST_NAMESPACES, NAMESPACE_MS);
  return async (name, signal) => {
    if (recent.has(name)) return true;
    const found = await client.getMetadata(namespaces, { name }, { signal });
    if (found !== undefined) recent.add(name);
    return found !== undefined;
  };
}

export interface ClaimSources {
  readonly registry: PolicyRegistry;
  readonly governed: Governed;
  readonly targets: Targets;
  readonly world: ObjectReads;
}

/** The claims for 100,000 objects take about a quarter of an hour, at little load for the API server. */
const WRITES_PER_SECOND = 100;

/** The options that the leader and the other replicas share. */
export function repairOptions(
  { client, config, discovery, exact, serverClock, log }: Context,
  { registry, governed, targets, world }: ClaimSources,
) {
  return {
    policies: registry.inForce,
    client,
    claims: createClaims(client, config.uniqueSettleMs),
    governed,
    // Uses the connections of controllers, so that admission reviews keep theirs.
    world: createWorld(client, createClient(exact.rest), discovery, targets, world),
    pace: createPace(WRITES_PER_SECOND),
    now: serverClock.now,
    random: Math.random,
    log,
  };
}

/** Limits the rate of calls to `perSecond`. */
function createPace(perSecond: number): (signal: AbortSignal) => Promise<void> {
  let free = 0;
  return async (signal) => {
    const now = performance.now();
    const turn = Math.max(now, free);
    free = turn + 1_000 / perSecond;
    if (turn > now) await sleep(turn - now, undefined, { signal });
  };
}
