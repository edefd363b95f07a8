/** Secrets and ConfigMaps of users that hold a CA bundle. Watches each one by name while an object refers to it. */
import { dropManagedFields } from '../../kube/watch/change.ts';
import { configMaps, secrets } from '../../kube/well-known.ts';
import { sourceName, type SourceRef } from '../../pki/injection/request.ts';
import {
  bundleOfSource,
  toSourceObject,
  type BundleState,
  type SourceObject,
} from '../../pki/injection/source.ts';
import type { Context } from '../context.ts';
import { watch } from '../watch.ts';

/** Each source costs a watch, and every user who may write a ConfigMap can request one. */
const MAX_SOURCES = 200;

/** Watches only named sources, so the other Secrets of the cluster cost no memory. */
export function createBundleSources(
  context: Context,
  onChange: (ref: SourceRef) => void,
  signal: AbortSignal,
) {
  const sources = new Map<string, ReturnType<typeof start>>();

  return {
    /** Watches these sources, and stops watching all others. */
    keepOnly: (refs: readonly SourceRef[]): void => {
      const needed = new Map(refs.map((ref) => [sourceName(ref), ref]));
      for (const [name, { stop }] of sources) {
        if (needed.has(name)) continue;
        stop.abort();
        sources.delete(name);
      }
      for (const [name, ref] of needed)
        if (!sources.has(name) && sources.size < MAX_SOURCES)
          sources.set(name, start(context, ref, onChange, signal));
    },
    bundle: (ref: SourceRef, consent: string): BundleState => {
      const watched = sources.get(sourceName(ref))?.watched;
      if (watched === undefined && sources.size >= MAX_SOURCES)
        return {
          kind: 'unusable',
          message: `${sourceName(ref)} is not read: the limit is ${MAX_SOURCES} sources; let targets share one`,
        };
      if (watched?.hasSynced() !== true) return { kind: 'unknown' };
      return bundleOfSource(ref, consent, watched.store.get(`${ref.namespace}/${ref.name}`), new Date());
    },
  };
}

function start(context: Context, ref: SourceRef, onChange: (ref: SourceRef) => void, signal: AbortSignal) {
  const stop = new AbortController();
  const either = AbortSignal.any([signal, stop.signal]);
  const tell = () => onChange(ref);
  const watched = watch<SourceObject>(
    context,
    {
      resource: ref.kind === 'Secret' ? secrets : configMaps,
      namespace: ref.namespace,
      fieldSelector: `metadata.name=${ref.name}`,
      transform: (object) => toSourceObject(dropManagedFields(object)),
      onChange: tell,
    },
    either,
  );
  // The watch reports no change for a source that does not exist.
  watched.whenSynced(either).then(tell, () => undefined);
  return { watched, stop };
}
