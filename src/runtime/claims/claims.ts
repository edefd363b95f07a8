/** UniqueClaims in the API server, which decides between concurrent writers: by name, and by resourceVersion. */
import { setTimeout as sleep } from 'node:timers/promises';

import type { Claims, ClaimStore, Intents, ObjectReads } from '../../admission/policy/world.ts';
import type { UniqueClaim } from '../../api/unique-claim.ts';
import { insteadOf, isAlreadyExists, isConflict, isNotFound } from '../../kube/api-error.ts';
import { type KubeClient, createClient } from '../../kube/client.ts';
import { namespaces } from '../../kube/well-known.ts';
import { UNIQUE_CLAIMS } from '../resources.ts';
import { createRecent } from './recent.ts';
import type { Context } from '../context.ts';
import type { Governed } from '../policies/governed.ts';
import type { PolicyRegistry } from '../policies/policy-registry.ts';
import { createWorld, type Targets } from '../policies/world.ts';
import { isDeletionIntent } from '../../admission/policy/references/check-references.ts';
import { hasDeletionTimestamp } from '../../admission/policy/object-metadata.ts';
import { busyMs, holderRef, settlesInMs } from '../../admission/policy/unique/claim-state.ts';
import { isJsonObject } from '../../json/json.ts';
import { objectKey, refOf } from '../../json/kube-object.ts';
import { placesOf, type Namespaces } from '../namespaces.ts';

export function createClaims(
  client: Pick<KubeClient, 'get' | 'create' | 'replace' | 'delete'>,
  settleMs: number,
): ClaimStore {
  return {
    settleMs,
    read: (name, signal) => client.get<UniqueClaim>(UNIQUE_CLAIMS, { name }, { signal }),
    create: (claim, signal) =>
      client.create(UNIQUE_CLAIMS, claim, { signal }).catch(insteadOf(isAlreadyExists, 'taken')),
    replace: (claim, signal) =>
      client.replace(UNIQUE_CLAIMS, claim, { signal }).catch(insteadOf(isOutdated, 'changed')),
    remove: async ({ metadata: { name = '', uid, resourceVersion } }, signal) => {
      const preconditions = { uid, resourceVersion };
      const deleting = client.delete(UNIQUE_CLAIMS, { name }, { preconditions, signal });
      const outcome = await deleting.catch(insteadOf(isConflict, 'changed'));
      return outcome === 'deleted' ? 'removed' : 'changed';
    },
  };
}

const isOutdated = (error: unknown): boolean => isConflict(error) || isNotFound(error);

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

export function createPace(perSecond: number): (signal: AbortSignal) => Promise<void> {
  let free = 0;
  return async (signal) => {
    const now = performance.now();
    const turn = Math.max(now, free);
    free = turn + 1_000 / perSecond;
    if (turn > now) await sleep(turn - now, undefined, { signal });
  };
}

const PAUSE_MS = 50;

export function createIntents(
  client: Pick<KubeClient, 'listAll' | 'pages'>,
  { stores }: Pick<Governed, 'stores'>,
  namespaces: Namespaces,
): Omit<Intents, 'hold'> {
  return {
    list: async (labelSelector, signal) =>
      (await client.listAll<UniqueClaim>(UNIQUE_CLAIMS, { labelSelector, signal })).items,
    unseen: async (policy, signal) => {
      const watched = stores(policy);
      if (watched === undefined)
        throw new Error('the objects that the policy governs have not been listed yet');
      const unseen = [];
      for (const { resource, store } of watched) {
        for (const namespace of placesOf(resource, namespaces)) {
          const options = { namespace, metadataOnly: true, signal };
          for await (const { items } of client.pages(resource, options)) {
            for (const object of items) {
              const ref = refOf(resource, object);
              const known = store.get(objectKey(ref))?.metadata;
              if (known?.resourceVersion !== object.metadata?.resourceVersion) unseen.push(ref);
            }
          }
        }
      }
      return unseen;
    },
    pause: async (signal) => {
      await sleep(PAUSE_MS, undefined, { signal });
    },
  };
}

/** From the end of its write on, the object itself shows the result. @returns whether the intent is gone */
export async function finishIntent(
  name: string,
  { read, remove, settleMs }: Pick<ClaimStore, 'read' | 'remove' | 'settleMs'>,
  { confirm }: Pick<ObjectReads, 'confirm'>,
  now: number,
  signal: AbortSignal,
  wasStored: (uid: string) => boolean = () => false,
): Promise<boolean> {
  const intent = await read(name, signal);
  if (intent === undefined) return true;
  if (!(await isOver(intent, { confirm, settleMs, wasStored }, now, signal))) return false;
  // Changed: another request of the object has the intent now.
  return (await remove(intent, signal)) === 'removed';
}

interface IntentFacts extends Pick<ObjectReads, 'confirm'>, Pick<ClaimStore, 'settleMs'> {
  readonly wasStored: (uid: string) => boolean;
}

export async function isOver(
  intent: UniqueClaim,
  { confirm, settleMs, wasStored }: IntentFacts,
  now: number,
  signal: AbortSignal,
): Promise<boolean> {
  // Without a read, which may fail for ever: the kind of the object may be gone.
  if (settlesInMs(intent, now, settleMs) === 0) return true;
  const isDeletion = isDeletionIntent(intent.metadata.name ?? '');
  // Saves a read after each create, the most frequent write.
  if (!isDeletion && areKnownCreates(intent, wasStored)) return true;
  const live = await confirm(holderRef(intent), signal);
  // A write that names targets is not over: the object may be gone before the API server stores a new one.
  if (isDeletion && isJsonObject(live) && hasDeletionTimestamp(live)) return true;
  return busyMs(intent, live, now, settleMs, wasStored) === 0;
}

/** Whether no read can show more: an update is over only if the object has changed. */
const areKnownCreates = (
  { spec: { requests = [] } }: UniqueClaim,
  wasStored: (uid: string) => boolean,
): boolean =>
  requests.every(
    ({ uid, resourceVersion }) => uid !== undefined && resourceVersion === undefined && wasStored(uid),
  );
