/** On the leader: which roots the sources of bundles have held, as an annotation of the ConfigMap with the CA bundle. */
import { isDeepStrictEqual } from 'node:util';

import { atMostEvery, systemClock } from '../../kube/clock.ts';
import { type ConfigMap, ownConfigMap } from '../certificates/ca-bundle.ts';
import type { ControllersConfig } from '../../config/config.ts';
import { configMaps } from '../../kube/well-known.ts';
import { CABUNDLE_CONFIGMAP, SOURCE_ROOTS } from '../../pki/annotations.ts';
import {
  formatRecord,
  type KnownRoot,
  parseRecord,
  withFormerRoots,
} from '../../pki/injection/former-roots.ts';
import type { BundleState } from '../../pki/injection/source.ts';
import { type Context, untilAnswered } from '../context.ts';

const SAVE_EVERY_MS = 2_000;

/** @param onLoaded from now on, bundles are known */
export function createRootRecord(
  { client, config, log }: Pick<Context<ControllersConfig>, 'client' | 'config' | 'log'>,
  isNeeded: (source: string) => boolean,
  onLoaded: () => void,
  signal: AbortSignal,
) {
  const ref = { namespace: config.namespace, name: CABUNDLE_CONFIGMAP };
  let record: Map<string, readonly KnownRoot[]> | undefined;
  const persist = (work: () => Promise<void>): void => {
    const onError = (err: unknown) =>
      log.warn({ err }, 'could not read or record the roots of the sources of CA bundles');
    untilAnswered(work, onError, signal).catch(() => undefined); // the signal is aborted
  };
  const load = async () => {
    const live = await client.get<ConfigMap>(configMaps, ref, { signal });
    record = new Map(parseRecord(live?.metadata?.annotations?.[SOURCE_ROOTS]));
    onLoaded();
  };
  const save = async () => {
    const live = await client.get<ConfigMap>(configMaps, ref, { signal });
    if (live === undefined) throw new Error(`the authority has not published ${CABUNDLE_CONFIGMAP} yet`);
    const text = formatRecord(record ?? new Map(), isNeeded);
    const annotations = { ...live.metadata?.annotations, [SOURCE_ROOTS]: text };
    const next = { ...live, metadata: { ...live.metadata, annotations } };
    if (!isDeepStrictEqual(live, next))
      await client.replace(configMaps, ownConfigMap(next, ref, live.data ?? {}), { signal });
  };
  persist(load);
  const saveSoon = atMostEvery(SAVE_EVERY_MS, () => persist(save), systemClock, signal);
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
