/** On the leader: which roots the sources of bundles have held, as an annotation of the ConfigMap with the CA bundle. */
import { isDeepStrictEqual } from 'node:util';
import { atMostEvery } from '../at-most-every.ts';
import { type ConfigMap, ownConfigMap } from '../certificates/ca-bundle.ts';
import type { ControllersConfig } from '../../config/config.ts';
import { sleep, systemClock } from '../../kube/clock.ts';
import { configMaps } from '../../kube/well-known.ts';
import { CABUNDLE_CONFIGMAP, SOURCE_ROOTS } from '../../pki/annotations.ts';
import {
  formatRecord,
  type KnownRoot,
  parseRecord,
  withFormerRoots,
} from '../../pki/injection/former-roots.ts';
import type { BundleState } from '../../pki/injection/source.ts';
import type { Context } from '../context.ts';

const RETRY_MS = 2_000;

/** Tries again until `work` is done, or the signal is aborted. */
async function persist(
  work: () => Promise<boolean>,
  onError: (err: unknown) => boolean,
  signal: AbortSignal,
) {
  while (!signal.aborted) {
    if (await work().catch(onError)) return;
    await sleep(systemClock, RETRY_MS, signal).catch(() => undefined);
  }
}

/** @param onLoaded from now on, bundles are known */
export function createRootRecord(
  { client, config, log }: Pick<Context<ControllersConfig>, 'client' | 'config' | 'log'>,
  isNeeded: (source: string) => boolean,
  onLoaded: () => void,
  signal: AbortSignal,
) {
  const ref = { namespace: config.namespace, name: CABUNDLE_CONFIGMAP };
  let record: Map<string, readonly KnownRoot[]> | undefined;
  const onError = (err: unknown): boolean => {
    if (!signal.aborted) log.warn({ err }, 'could not read or record the roots of the sources of CA bundles');
    return false;
  };
  const load = async () => {
    const live = await client.get<ConfigMap>(configMaps, ref, { signal });
    record = new Map(parseRecord(live?.metadata?.annotations?.[SOURCE_ROOTS]));
    onLoaded();
    return true;
  };
  const save = async () => {
    const live = await client.get<ConfigMap>(configMaps, ref, { signal });
    if (live === undefined) return false; // the authority publishes it soon
    const text = formatRecord(record ?? new Map(), isNeeded);
    const annotations = { ...live.metadata?.annotations, [SOURCE_ROOTS]: text };
    const next = { ...live, metadata: { ...live.metadata, annotations } };
    if (!isDeepStrictEqual(live, next))
      await client.replace(configMaps, ownConfigMap(next, ref, live.data ?? {}), { signal });
    return true;
  };
  void persist(load, onError, signal);
  const saveSoon = atMostEvery(RETRY_MS, () => void persist(save, onError, signal), systemClock, signal);
  /** The bundle of a source, with the roots that it has dropped. */
  return (source: string, state: BundleState): BundleState => {
    if (record === undefined) return { kind: 'unknown' };
    const before = record.get(source);
    const found = withFormerRoots(state, before, new Date());
    if (!isDeepStrictEqual(found.roots, before ?? [])) {
      record.set(source, found.roots);
      saveSoon();
    }
    return found.state;
  };
}
