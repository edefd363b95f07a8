/** On the leader: the CA bundles for targets, and the watches of the Secrets, ConfigMaps and Certificates that hold some. */
import { messageOf } from '../../json/abort.ts';
import { groupResourceName, isDnsSubdomain, type KubeObject } from '../../json/kube-object.ts';
import { objectIn, pick, textIn } from '../../json/json.ts';
import { isForbidden, isNotFound } from '../../kube/api-error.ts';
import { certificates, configMaps, secrets } from '../../kube/well-known.ts';
import { atMostEvery, type Clock, sleep, systemClock } from '../../kube/clock.ts';
import type { Resource } from '../../kube/object.ts';
import { dropManagedFields } from '../../kube/watch.ts';
import {
  type BundleSource,
  type Consent,
  originName,
  sourceName,
  type SourceRef,
} from '../../pki/injection/request.ts';
import {
  admitSources,
  bundleOfApiServer,
  bundleOfSource,
  type BundleState,
  OVER_QUOTA,
  type SourceDemand,
  type SourceObject,
  toSourceObject,
} from '../../pki/injection/source.ts';
import type { CertificatePem } from '../../pki/x509/pem.ts';
import type { ControllersConfig } from '../../config/config.ts';
import type { Context } from '../context.ts';
import { isCovered } from '../namespaces.ts';
import { keepOnly, STARTING_MS, watch, type WatchContext } from '../watch.ts';
import { adviceOn } from '../../kube/refusal-advice.ts';
import { createRootRecord } from './root-record.ts';

/** Watches only named sources, so the other Secrets of the cluster cost no memory. */
export function createBundleSources(
  context: Context<ControllersConfig>,
  ofAuthority: () => CertificatePem | undefined,
  onChange: (isAffected: (source: BundleSource) => boolean) => void,
  signal: AbortSignal,
) {
  const sources = new Map<string, Source>();
  let refused: ReadonlySet<string> = new Set();
  const onSource = (ref: SourceRef) =>
    onChange((source) => source.kind === 'object' && sourceName(source.ref) === sourceName(ref));
  const withFormer = createRootRecord(
    context,
    (name) => sources.has(name) || name === originName({ kind: 'api-server' }),
    () => onChange(({ kind }) => kind !== 'authority'),
    signal,
  );
  const ofApiServer = context.config.compat.includes('cert-manager')
    ? followApiServerCa(context, () => onChange(({ kind }) => kind === 'api-server'), signal)
    : () => UNKNOWN; // no annotation asks for it
  const ofObject = (ref: SourceRef, consent: Consent): BundleState => {
    const name = sourceName(ref);
    if (!isCovered(context.config.namespaces, ref.namespace))
      return { kind: 'unusable', message: `${name} is not read: its namespace is not among --namespaces` };
    if (refused.has(name)) return { kind: 'unusable', message: `${name} ${OVER_QUOTA}` };
    const reading = sources.get(name)?.read() ?? { kind: 'pending' };
    switch (reading.kind) {
      case 'pending':
        return UNKNOWN;
      case 'unreadable':
        return { kind: 'unusable', message: `${name} ${reading.problem}` };
      case 'read':
        return withFormer(name, bundleOfSource(ref, consent, reading.object, new Date()), ofAuthority());
    }
  };

  return {
    keepOnly: (all: readonly SourceDemand[]): void => {
      const demands = all.filter(({ ref }) => isCovered(context.config.namespaces, ref.namespace));
      const admitted = admitSources(demands, (name) => sources.has(name));
      keepOnly(sources, (name) => admitted.has(name));
      for (const [name, ref] of admitted)
        if (!sources.has(name)) {
          const tell = () => onSource(ref);
          sources.set(name, start(context, ref, tell, signal));
        }
      const before = refused;
      const over = demands.filter(({ ref }) => !admitted.has(sourceName(ref)));
      refused = new Set(over.map(({ ref }) => sourceName(ref)));
      // Targets of a source that is not watched anymore need an Event, because they become stale.
      for (const { ref } of over) if (!before.has(sourceName(ref))) onSource(ref);
    },
    bundle: (source: BundleSource): BundleState => {
      switch (source.kind) {
        case 'authority': {
          const pem = ofAuthority();
          return pem === undefined ? UNKNOWN : { kind: 'bundle', pem };
        }
        case 'api-server':
          return withFormer(originName(source), ofApiServer());
        case 'object':
          return ofObject(source.ref, source.consent);
      }
    },
  };
}

const UNKNOWN: BundleState = { kind: 'unknown' };

type SourceReading<T> =
  | { readonly kind: 'pending' }
  | { readonly kind: 'unreadable'; readonly problem: string }
  | { readonly kind: 'read'; readonly object: T | undefined };

interface Source {
  readonly read: () => SourceReading<SourceObject>;
  readonly stop: () => void;
}

function start(context: WatchContext, ref: SourceRef, tell: () => void, signal: AbortSignal): Source {
  const own = new AbortController();
  const either = AbortSignal.any([signal, own.signal]);
  const stop = () => own.abort();
  if (ref.kind === 'Certificate') return { read: startCertificate(context, ref, tell, either), stop };
  const resource = ref.kind === 'Secret' ? secrets : configMaps;
  const transform = (object: SourceObject) => toSourceObject(dropManagedFields(object), ref.key);
  return { read: watchOne(context, resource, ref, transform, tell, either), stop };
}

function startCertificate(
  context: WatchContext,
  { namespace, name }: SourceRef,
  tell: () => void,
  signal: AbortSignal,
): Source['read'] {
  const watchSecret = (of: string) => start(context, { kind: 'Secret', namespace, name: of }, tell, signal);
  const followed = followSecret(watchSecret, tell, systemClock, signal);
  const onCertificate = () => {
    const reading = certificate();
    // A Certificate that cannot be read for a moment still has its Secret.
    if (reading.kind === 'read') followed.want(secretOf(reading.object));
    tell();
  };
  const transform = (object: KubeObject) => ({
    ...pick(object, 'apiVersion', 'kind'),
    metadata: pick(object.metadata ?? {}, 'name', 'namespace', 'uid', 'resourceVersion'),
    spec: pick(objectIn(object, 'spec'), 'secretName'),
  });
  const ref = { namespace, name };
  const certificate = watchOne(context, certificates, ref, transform, onCertificate, signal);
  return () => {
    const reading = certificate();
    if (reading.kind !== 'read') return reading;
    return followed.source()?.read() ?? { kind: 'read', object: undefined };
  };
}

function secretOf(certificate: KubeObject | undefined): string | undefined {
  const name = textIn(certificate, 'spec', 'secretName');
  return isDnsSubdomain(name) ? name : undefined;
}

function watchOne<T extends KubeObject>(
  context: WatchContext,
  resource: Resource,
  { namespace, name }: Pick<SourceRef, 'namespace' | 'name'>,
  transform: (object: T) => T,
  tell: () => void,
  signal: AbortSignal,
): () => SourceReading<T> {
  const watched = watch<T>(
    context,
    { resource, namespace, name, transform, onChange: tell, onFailure: tell },
    signal,
  );
  // The watch reports no change for a source that does not exist.
  watched.whenSynced(signal).then(tell, () => undefined);
  return () => {
    const error = watched.failure();
    if (isForbidden(error) && watched.failingMs() >= STARTING_MS) {
      const problem = `is not read: the API server forbids it. ${adviceOn(error.message)} It says: ${error.message}`;
      return { kind: 'unreadable', problem };
    }
    if (isNotFound(error))
      return {
        kind: 'unreadable',
        problem: `is not read: the API server does not serve ${groupResourceName(resource)}`,
      };
    if (!watched.hasSynced() && error !== undefined && watched.failingMs() >= STARTING_MS)
      return { kind: 'unreadable', problem: `cannot be read: ${messageOf(error)}` };
    if (!watched.hasSynced()) return { kind: 'pending' };
    return { kind: 'read', object: watched.store.get(`${namespace}/${name}`) };
  };
}

/** The kubelet replaces the file of the service account when the CA changes; no watch reports that. */
const CHECK_EVERY_MS = 60_000;

function followApiServerCa(
  { apiServerCa, log }: Pick<Context, 'apiServerCa' | 'log'>,
  onChange: () => void,
  signal: AbortSignal,
): () => BundleState {
  let known: { readonly pem: string | undefined } | undefined;
  let problem: string | undefined;
  const follow = async (): Promise<void> => {
    while (!signal.aborted) {
      try {
        const pem = await apiServerCa();
        const isNew = known === undefined || known.pem !== pem;
        known = { pem };
        if (isNew) onChange();
      } catch (err) {
        log.warn({ err }, 'could not read the CA of the API server');
        problem = `the CA of the API server cannot be read: ${messageOf(err)}`;
        if (known === undefined) onChange();
      }
      await sleep(systemClock, CHECK_EVERY_MS, signal);
    }
  };
  follow().catch(() => undefined); // has stopped leading
  return () => {
    if (known !== undefined) return bundleOfApiServer(known.pem, new Date());
    return problem === undefined ? UNKNOWN : { kind: 'unusable', message: problem };
  };
}

/** A tenant may edit the name many times per second, and each new watch costs the API server a list. */
export const FOLLOW_EVERY_MS = 10_000;

/** Follows the Secret that another object names. Limits how often it starts a new watch. */
export function followSecret<Source extends { readonly stop: () => void }>(
  start: (name: string) => Source,
  onSwitch: () => void,
  clock: Pick<Clock, 'monotonic' | 'after'>,
  signal: AbortSignal,
) {
  let wanted: string | undefined;
  let followed: { readonly name: string; readonly source: Source } | undefined;
  const apply = (): void => {
    if (wanted === followed?.name) return;
    followed?.source.stop();
    followed = wanted === undefined ? undefined : { name: wanted, source: start(wanted) };
    onSwitch();
  };
  const soon = atMostEvery(FOLLOW_EVERY_MS, apply, clock, signal);
  return {
    /** Undefined: none. The last name counts; until its turn, the previous Secret is followed. */
    want: (name: string | undefined): void => {
      wanted = name;
      if (name !== followed?.name) soon();
    },
    source: (): Source | undefined => followed?.source,
  };
}
