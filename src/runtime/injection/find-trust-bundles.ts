/** On the leader: finds out in which version the API server serves ClusterTrustBundles. */
import { sleep, systemClock } from '../../kube/clock.ts';
import type { Resource } from '../../kube/object.ts';
import type { Context } from '../context.ts';
import { CLUSTER_TRUST_BUNDLES } from '../resources.ts';
import type { Listing } from './target-store.ts';

/** An upgrade of the API server may add the kind. */
const ABSENT_RECHECK_MS = 10 * 60_000;
const RETRY_MS = 10_000;
/** From then on, the failure is reported, and delays rotations instead of blocking them. The search goes on. */
const MAX_FAILURES = 6;

/**
 * Waits until the API server serves the kind, perhaps forever.
 * @param onSearch called when the search has its first answer, and when it fails lastingly
 * @throws the reason of `signal` on abort
 */
export async function findTrustBundles(
  { discovery, log }: Pick<Context, 'discovery' | 'log'>,
  onSearch: (state: Listing) => void,
  signal: AbortSignal,
  clock = systemClock,
): Promise<Resource> {
  let isAbsent = false;
  let failures = 0;
  for (;;) {
    let waitMs = ABSENT_RECHECK_MS;
    try {
      const found = await resolve(discovery, signal);
      if (found !== undefined) return found;
      if (!isAbsent) {
        log.info({}, 'the API server serves no ClusterTrustBundles: the CA bundle is not published as one');
        onSearch({ kind: 'not-served' });
      }
      isAbsent = true;
      failures = 0;
    } catch (err) {
      signal.throwIfAborted();
      log.warn({ err }, 'could not find out whether the API server serves ClusterTrustBundles');
      waitMs = RETRY_MS;
      failures += 1;
      if (failures === MAX_FAILURES) {
        isAbsent = false;
        onSearch({ kind: 'failed', error: err, isLasting: true });
      }
    }
    await sleep(clock, waitMs, signal);
  }
}

async function resolve(
  discovery: Pick<Context['discovery'], 'resolveKind'>,
  signal: AbortSignal,
): Promise<Resource | undefined> {
  for (const wanted of CLUSTER_TRUST_BUNDLES) {
    const served = await discovery.resolveKind(wanted, signal);
    if (served?.version === wanted.version) return served;
  }
  return undefined;
}
