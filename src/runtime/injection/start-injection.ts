/** Leader: starts one injector for each kind that can carry a CA bundle. */
import { WEBHOOK_CONFIGURATION_NAME } from '../../admission/webhooks/webhook-configurations.ts';
import { keyOf } from '../../json/kube-object.ts';
import type { Resource } from '../../kube/object.ts';
import { configMaps, secrets } from '../../kube/well-known.ts';
import { CABUNDLE_CONFIGMAP } from '../../pki/annotations.ts';
import type { Authority } from '../../pki/authority/authority.ts';
import { rootOf } from '../../pki/authority/generation.ts';
import { sourceName, sourcesOf, type BundleSource, type SourceRef } from '../../pki/injection/request.ts';
import {
  bundleOfSource,
  toSourceObject,
  type BundleState,
  type SourceObject,
} from '../../pki/injection/source.ts';
import type { InjectionTarget, TargetKind } from '../../pki/injection/target.ts';
import type { CertificatePem } from '../../pki/x509/pem.ts';
import type { Context } from '../context.ts';
import { startController, type LeaderContext } from '../controller.ts';
import { createInjector, type InjectorContext } from './injector.ts';
import { createTargetStates } from './target-states.ts';
import { targetsWithoutRoot, watchTargets } from './target-store.ts';
import { dropManagedFields } from '../../kube/watch/change.ts';
import { INJECTION_TARGETS } from '../resources.ts';
import { watch } from '../watch.ts';

/** ConfigMaps may ask for a bundle in each of a thousand namespaces. */
const WORKERS = 4;

/** `onEvidence`: the result of `targetsWithout` may have changed. */
export function startInjection(
  context: LeaderContext,
  authority: () => Authority | undefined,
  bundle: () => CertificatePem | undefined,
  onEvidence: () => void,
  signal: AbortSignal,
) {
  const resync = (isAffected: (target: InjectionTarget) => boolean = () => true) => {
    for (const { targets, add } of injectors)
      for (const target of targets.asking().filter(isAffected)) add(keyOf(target));
  };
  const onSource = (changed: SourceRef) => {
    resync((target) => refsOf(target).some((ref) => sourceName(ref) === sourceName(changed)));
  };
  const sources = createBundleSources(context, onSource, signal);
  const states = createTargetStates(
    INJECTION_TARGETS.map(([{ kind }]) => kind),
    () => performance.now(),
  );
  context.metrics.scrape({ caBundles: states }, signal);
  const injection = {
    bundle: (source: BundleSource) =>
      source.kind === 'object' ? sources.bundle(source.ref, source.consent) : stateOf(bundle()),
    record: context.record,
    states,
  };
  const onChange = (changed: readonly InjectionTarget[]) => {
    if (changed.some((target) => refsOf(target).length > 0))
      sources.keepOnly(injectors.flatMap(({ targets }) => targets.list().flatMap(refsOf)));
    onEvidence();
  };
  const injectors = INJECTION_TARGETS.map(([kind, resource]) =>
    startInjector(context, kind, resource, injection, onChange, signal),
  );
  const stores = injectors.map(({ targets }) => targets);
  return {
    resync: () => resync(),
    targetsWithout: (id: string) => {
      const generation = authority()?.generations.find((one) => one.id === id);
      if (generation === undefined || !stores.every(({ hasSynced }) => hasSynced())) return undefined;
      return targetsWithoutRoot(stores, rootOf(generation).fingerprint256);
    },
    stopped: Promise.all(injectors.map(({ stopped }) => stopped)),
  };
}

/** `onChange`: relevant objects have changed. Empty: the content of an unchanged one was read. */
function startInjector(
  context: Context,
  kind: TargetKind,
  resource: Resource,
  injection: Pick<InjectorContext, 'bundle' | 'record' | 'states'>,
  onChange: (changed: readonly InjectionTarget[]) => void,
  signal: AbortSignal,
) {
  const { client, config, log } = context;
  const own =
    kind.kind === 'ConfigMap'
      ? { namespace: config.namespace, name: CABUNDLE_CONFIGMAP }
      : { name: WEBHOOK_CONFIGURATION_NAME };
  const onTarget = (key: string, changed: readonly InjectionTarget[]) => {
    controller.add(key);
    onChange(changed);
  };
  const onContent = () => onChange([]);
  const targets = watchTargets(context, kind, resource, own, { onTarget, onContent }, signal);
  const now = () => new Date();
  const reconcile = createInjector({ ...injection, client, kind, resource, targets, now, log });
  const controller = startController(
    context,
    { name: `injector-${resource.resource}`, concurrency: WORKERS, reconcile },
    signal,
  );
  return { ...controller, targets };
}

const stateOf = (pem: CertificatePem | undefined): BundleState =>
  pem === undefined ? { kind: 'unknown' } : { kind: 'bundle', pem };

const refsOf = ({ request }: InjectionTarget): readonly SourceRef[] => sourcesOf(request);

/** Each source costs a watch, and every user who may write a ConfigMap can request one. */
const MAX_SOURCES = 200;

/** Watches only named sources, so the other Secrets of the cluster cost no memory. */
function createBundleSources(context: Context, onChange: (ref: SourceRef) => void, signal: AbortSignal) {
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
