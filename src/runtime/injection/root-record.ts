/** On the leader: which roots the sources of bundles have held, as an annotation of the ConfigMap with the CA bundle. */
import { isDeepStrictEqual } from 'node:util';

import { atMostEvery, systemClock } from '../../kube/clock.ts';
import { type ConfigMap, ownConfigMap } from '../certificates/ca-bundle.ts';
import type { ControllersConfig } from '../../config/config.ts';
import { configMaps } from '../../kube/well-known.ts';
import { CABUNDLE_CONFIGMAP, SOURCE_ROOTS } from '../../pki/annotations.ts';
import {
  dropFormer,
  formatRecord,
  type KnownRoot,
  parseRecord,
  withFormerRoots,
} from '../../pki/injection/former-roots.ts';
import type { BundleState } from '../../pki/injection/source.ts';
import { type Context, untilAnswered } from '../context.ts';

const SAVE_EVERY_MS = 10_000;

/** @param onLoaded from now on, bundles are known, or those of many sources have changed */
export function createRootRecord(
  { client, config, log }: Pick<Context<ControllersConfig>, 'client' | 'config' | 'log'>,
  isNeeded: (source: string) => boolean,
  onLoaded: () => void,
  signal: AbortSignal,
) {
  const ref = { namespace: config.namespace, name: CABUNDLE_CONFIGMAP };
  let record: Map<string, readonly KnownRoot[]> | undefined;
  let uidWithRecord: string | undefined;
  const read = () => client.get<ConfigMap>(configMaps, ref, { signal });
  const warn = (err: unknown) =>
    log.warn({ err }, 'could not read or record the roots of the sources of CA bundles');
  const load = async () => {
    const { uid, annotations = {} } = (await read())?.metadata ?? {};
    record = new Map(parseRecord(annotations[SOURCE_ROOTS]));
    if (SOURCE_ROOTS in annotations) uidWithRecord = uid;
    onLoaded();
  };
  const save = async (known = record ?? new Map<string, readonly KnownRoot[]>()) => {
    const live = await read();
    if (live === undefined) throw new Error(`the authority has not published ${CABUNDLE_CONFIGMAP} yet`);
    const { uid, annotations = {} } = live.metadata ?? {};
    // An administrator has removed a leaked root. A ConfigMap that was created again has another uid.
    if (uidWithRecord !== undefined && uidWithRecord === uid && !(SOURCE_ROOTS in annotations)) {
      dropFormer(known);
      onLoaded();
    }
    const { text, lost } = formatRecord(known, isNeeded);
    if (lost.length > 0)
      log.warn({ sources: lost }, 'no room: a new leader will not know which roots these sources dropped');
    const metadata = { ...live.metadata, annotations: { ...annotations, [SOURCE_ROOTS]: text } };
    const next = ownConfigMap({ ...live, metadata }, ref, live.data ?? {});
    if (!isDeepStrictEqual(live, next)) await client.replace(configMaps, next, { signal });
    uidWithRecord = uid;
  };
  untilAnswered(load, warn, signal).catch(() => undefined); // the signal is aborted
  const onError = (err: unknown): void => {
    if (!signal.aborted) warn(err);
    saveSoon();
  };
  const saveSoon = atMostEvery(SAVE_EVERY_MS, () => void save().catch(onError), systemClock, signal);
  /** The bundle of a source, with the roots that it has dropped. */
  return (source: string, state: BundleState, ours?: string): BundleState => {
    if (record === undefined) return { kind: 'unknown' };
    const before = record.get(source);
    const found = withFormerRoots(state, before, new Date(), ours);
    if (!isDeepStrictEqual(found.roots, before ?? [])) {
      record.set(source, found.roots);
      saveSoon();
    }
    return found.state;
  };
}
