/** The intents of references with `guarantee: Serializable`, in the API server. */
import { setTimeout as sleep } from 'node:timers/promises';

import { isDeletionIntent } from '../../admission/policy/references/intents.ts';
import { hasDeletionTimestamp } from '../../admission/policy/object-metadata.ts';
import { busyMs, holderRef, settlesInMs } from '../../admission/policy/unique/claim-state.ts';
import type { ClaimStore, Intents, ObjectReads } from '../../admission/policy/world.ts';
import type { UniqueClaim } from '../../api/unique-claim.ts';
import { isJsonObject } from '../../json/json.ts';
import { objectKey, refOf } from '../../json/kube-object.ts';
import type { KubeClient } from '../../kube/client.ts';
import { placesOf, type Namespaces } from '../namespaces.ts';
import type { Governed } from '../policies/governed.ts';
import { UNIQUE_CLAIMS } from '../resources.ts';

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

/**
 * Deletes an intent if its write is over: from then on, the object itself shows the result.
 *
 * @param wasStored whether an object with this uid is known to have been stored
 * @returns whether the intent is gone
 */
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

/** Whether the write or the deletion of an intent is over. */
export async function isOver(
  intent: UniqueClaim,
  {
    confirm,
    settleMs,
    wasStored,
  }: Pick<ObjectReads, 'confirm'> &
    Pick<ClaimStore, 'settleMs'> & { readonly wasStored: (uid: string) => boolean },
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
