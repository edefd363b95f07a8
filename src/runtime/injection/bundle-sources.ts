/** On the leader: watches the Secrets and ConfigMaps from which targets take their bundle. */
import { isForbidden } from '../../kube/api-error.ts';
import { configMaps, secrets } from '../../kube/well-known.ts';
import { dropManagedFields } from '../../kube/watch/change.ts';
import { sourceName, type SourceRef } from '../../pki/injection/request.ts';
import { admitSources, OVER_QUOTA, type SourceDemand } from '../../pki/injection/source-quota.ts';
import {
  bundleOfSource,
  toSourceObject,
  type BundleState,
  type SourceObject,
} from '../../pki/injection/source.ts';
import { watch, type WatchContext } from '../watch.ts';
import { CLUSTER_ROLE } from '../write-refused.ts';

/** Watches only named sources, so the other Secrets of the cluster cost no memory. */
export function createBundleSources(
  context: WatchContext,
  onChange: (ref: SourceRef) => void,
  signal: AbortSignal,
) {
  const sources = new Map<string, ReturnType<typeof start>>();
  let refused: ReadonlySet<string> = new Set();

  return {
    /** Watches the sources that targets name, within their quotas, and stops watching all others. */
    keepOnly: (demands: readonly SourceDemand[]): void => {
      const admitted = admitSources(demands, (name) => sources.has(name));
      for (const [name, { stop }] of sources) {
        if (admitted.has(name)) continue;
        stop.abort();
        sources.delete(name);
      }
      for (const [name, ref] of admitted)
        if (!sources.has(name)) sources.set(name, start(context, ref, onChange, signal));
      const before = refused;
      const over = demands.filter(({ ref }) => !admitted.has(sourceName(ref)));
      refused = new Set(over.map(({ ref }) => sourceName(ref)));
      // Targets of a source that is no longer watched must say so: they would become stale without an Event.
      for (const { ref } of over) if (!before.has(sourceName(ref))) onChange(ref);
    },
    bundle: (ref: SourceRef, consent: string): BundleState => {
      const name = sourceName(ref);
      if (refused.has(name)) return { kind: 'unusable', message: `${name} ${OVER_QUOTA}` };
      const watched = sources.get(name)?.watched;
      const error = watched?.failure();
      if (isForbidden(error))
        return {
          kind: 'unusable',
          message: `${name} is not read: the API server forbids it. Permit it (${CLUSTER_ROLE}). It says: ${error.message}`,
        };
      if (watched?.hasSynced() !== true) return { kind: 'unknown' };
      return bundleOfSource(ref, consent, watched.store.get(`${ref.namespace}/${ref.name}`), new Date());
    },
  };
}

function start(
  context: WatchContext,
  ref: SourceRef,
  onChange: (ref: SourceRef) => void,
  signal: AbortSignal,
) {
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
      onFailure: tell,
    },
    either,
  );
  // The watch reports no change for a source that does not exist.
  watched.whenSynced(either).then(tell, () => undefined);
  return { watched, stop };
}
