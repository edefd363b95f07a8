/** On every replica: holds intents for the targets that writes name, and removes them when a deletion waits. */
import { randomUUID } from 'node:crypto';

import { DELETION_INTENT_LABEL, serializableReferences } from '../../admission/policy/references/intents.ts';
import { holderRef } from '../../admission/policy/unique/claim-state.ts';
import type { ClaimStore } from '../../admission/policy/world.ts';
import type { UniqueClaim } from '../../api/unique-claim.ts';
import { createClient } from '../../kube/client.ts';
import type { Context } from '../context.ts';
import type { PolicyRegistry } from '../policies/policy-registry.ts';
import { UNIQUE_CLAIMS } from '../resources.ts';
import { watch, type Watched } from '../watch.ts';
import { createClaims } from './claims.ts';
import { createHeldIntents, type HeldIntents } from './held-intents.ts';

/** Interval of the search for idle intents, in milliseconds. */
const CLEAN_MS = 250;
/** Timeout of the creation of an intent, in milliseconds. Then the writes that wait for it are retried. */
const STORE_MS = 5_000;

export function startHeldIntents(
  context: Context,
  registry: Pick<PolicyRegistry, 'inForce' | 'subscribe'>,
  claims: Pick<ClaimStore, 'create' | 'read' | 'settleMs'>,
  signal: AbortSignal,
): HeldIntents {
  const { config, serverClock, rest, rollbacks } = context;
  let deletions: Watched<UniqueClaim> | undefined;
  const held = createHeldIntents({
    claims,
    identity: randomUUID(),
    now: () => serverClock.now().getTime(),
    monotonic: () => performance.now(),
    seesDeletions: () => deletions?.hasSynced() === true && deletions.failure() === undefined,
    timeout: () => AbortSignal.any([signal, AbortSignal.timeout(STORE_MS)]),
    // Uses the connections of controllers, so that admission reviews keep theirs.
    cleanup: createClaims(createClient(rest), config.uniqueSettleMs),
    signal,
  });
  const watchDeletions = (): void => {
    const isNeeded = registry.inForce().some((policy) => serializableReferences(policy).length > 0);
    if (!isNeeded || deletions !== undefined) return;
    const options = { resource: UNIQUE_CLAIMS, labelSelector: DELETION_INTENT_LABEL };
    const watched = watch<UniqueClaim>(context, options, signal);
    deletions = watched;
    watched.onChange((key) => {
      const deletion = watched.store.get(key);
      if (deletion !== undefined) held.release(holderRef(deletion));
    }, signal);
  };
  registry.subscribe(() => {
    watchDeletions();
    // While no policy guarded a target, its deletion did not wait.
    held.releaseAll();
  }, signal);
  watchDeletions();
  // Held intents may be lost.
  rollbacks.add(held.releaseAll, signal);
  const cleaning = setInterval(held.clean, CLEAN_MS);
  signal.addEventListener('abort', () => clearInterval(cleaning));
  return held;
}
