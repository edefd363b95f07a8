/** Leader: starts one injector for each kind that can carry a CA bundle. */
import { messageOf } from '../../json/error-message.ts';
import { sleep, systemClock } from '../../kube/clock.ts';
import type { Resource } from '../../kube/object.ts';
import { TRUST_BUNDLE, CABUNDLE_CONFIGMAP } from '../../pki/annotations.ts';
import type { Authority } from '../../pki/authority/authority.ts';
import { rootOf } from '../../pki/authority/generation.ts';
import type { LaggingTargets, UnreadableKind } from '../../pki/authority/lagging-targets.ts';
import {
  sourcesOf,
  type BundleSource,
  type SourceRef,
  type TargetKindName,
} from '../../pki/injection/request.ts';
import { TARGET_KINDS, type InjectionTarget, type TargetKind } from '../../pki/injection/target.ts';
import type { CertificatePem } from '../../pki/x509/pem.ts';
import { startController, type LeaderContext } from '../controller.ts';
import { CLUSTER_TRUST_BUNDLES, INJECTION_TARGETS, OWN_TARGETS } from '../resources.ts';
import { startDistribution } from './distribute.ts';
import type { CopyTrust } from './distributed-copy.ts';
import { createBundleSources } from './bundle-sources.ts';
import { createRootEvidence, type TargetTrust } from './root-evidence.ts';
import { createTargetStates, type TargetStates } from './target-states.ts';
import { findTrustBundles } from './find-trust-bundles.ts';
import { certificatesIn, watchTargets, type Listing } from './target-store.ts';
import { WEBHOOK_CONFIGURATION_NAME } from '../../admission/webhooks/webhook-configurations.ts';
import { keyOf } from '../../json/kube-object.ts';
import type { SourceDemand } from '../../pki/injection/source-quota.ts';
import { createInjector, type InjectorContext } from './injector.ts';

/** ConfigMaps may ask for a bundle in each of a thousand namespaces. */
const WORKERS = 4;

interface Told {
  readonly sources: Pick<ReturnType<typeof createBundleSources>, 'bundle' | 'keepOnly'>;
  readonly evidence: Pick<ReturnType<typeof createRootEvidence>, 'set' | 'contend'>;
  readonly states: Pick<TargetStates, 'report'>;
}

type Injector = ReturnType<typeof startInjector>;

type Injectors = ReturnType<typeof createInjectors>;

function createInjectors(context: LeaderContext, { sources, evidence, states }: Told) {
  const running: Injector[] = [];
  const keepSources = oncePerTick(() =>
    sources.keepOnly(running.flatMap(({ targets }) => targets.asking().flatMap(demandsOf))),
  );
  const hooks = {
    onTarget: (changed: readonly InjectionTarget[]) => {
      if (changed.some((target) => refsOf(target).length > 0)) keepSources();
    },
    onTrust: evidence.set,
  };
  const report: TargetStates['report'] = (kind, key, state) => {
    states.report(kind, key, state);
    evidence.contend(targetName(kind, key), state === 'contended');
  };
  const injection = { bundle: sources.bundle, record: context.record, states: { report } };
  return {
    running: (): readonly Injector[] => running,
    /** @param onListing the state of the list of targets has changed */
    start: (kind: TargetKind, resource: Resource, onListing: () => void, signal: AbortSignal): Injector => {
      const injector = startInjector(context, kind, resource, injection, { ...hooks, onListing }, signal);
      running.push(injector);
      return injector;
    },
    /** The injector has stopped, because the API server no longer serves its kind. Its only target was `name`. */
    drop: (injector: Injector, kind: TargetKindName, name: string): void => {
      running.splice(running.indexOf(injector), 1);
      evidence.set(targetName(kind, name), undefined);
      report(kind, name, undefined);
    },
    resync: (isAffected: (target: InjectionTarget) => boolean): void => {
      for (const { targets, add } of running)
        for (const target of targets.asking().filter(isAffected)) add(keyOf(target));
    },
  };
}

function startInjector(
  context: LeaderContext,
  kind: TargetKind,
  resource: Resource,
  injection: Pick<InjectorContext, 'bundle' | 'record' | 'states'>,
  hooks: {
    readonly onTarget: (changed: readonly InjectionTarget[]) => void;
    readonly onTrust: (name: string, trust: TargetTrust | undefined) => void;
    readonly onListing: () => void;
  },
  signal: AbortSignal,
) {
  const { client, config, log } = context;
  const own =
    kind.kind === 'ConfigMap'
      ? { namespace: config.namespace, name: CABUNDLE_CONFIGMAP }
      : { name: kind.kind === 'ClusterTrustBundle' ? TRUST_BUNDLE : WEBHOOK_CONFIGURATION_NAME };
  const onTarget = (key: string, changed: readonly InjectionTarget[]) => {
    controller.add(key);
    hooks.onTarget(changed);
  };
  const onTrust = (key: string, trust: TargetTrust | undefined) =>
    hooks.onTrust(targetName(kind.kind, key), trust);
  const { onListing } = hooks;
  const targets = watchTargets(context, kind, resource, own, { onTarget, onTrust, onListing }, signal);
  const now = () => new Date();
  const reconcile = createInjector({ ...injection, client, kind, resource, targets, now, log });
  const controller = startController(
    context,
    { name: `injector-${resource.resource}`, concurrency: WORKERS, reconcile },
    signal,
  );
  return { ...controller, targets, resource };
}

/** A list reports thousands of targets at once, and each pass reads all of them. */
function oncePerTick(pass: () => void): () => void {
  let isDue = false;
  return () => {
    if (isDue) return;
    isDue = true;
    setImmediate(() => {
      isDue = false;
      pass();
    });
  };
}

const targetName = (kind: TargetKindName, key: string): string => `${kind} ${key}`;

const refsOf = ({ request }: InjectionTarget): readonly SourceRef[] => sourcesOf(request);

const demandsOf = (target: InjectionTarget): readonly SourceDemand[] =>
  refsOf(target).map((ref) => ({ namespace: target.metadata?.namespace, ref }));

/** During an upgrade, API servers may disagree about a version. */
const SEARCH_AGAIN_MS = 2_000;

export interface EvidenceHooks {
  /** The result of `targetsWithout` may have changed. */
  readonly onEvidence: () => void;
  /** The result of `unreadable` may have changed. */
  readonly onUnreadable: () => void;
}

const KINDS = [...INJECTION_TARGETS.map(([{ kind }]) => kind), TARGET_KINDS.clusterTrustBundle.kind];

export function startInjection(
  context: LeaderContext,
  authority: () => Authority | undefined,
  bundle: () => CertificatePem | undefined,
  { onEvidence, onUnreadable }: EvidenceHooks,
  signal: AbortSignal,
) {
  const onBundle = (isAffected: (source: BundleSource) => boolean) =>
    injectors.resync(({ request }) => request.kind === 'wanted' && isAffected(request.source));
  const sources = createBundleSources(context, bundle, onBundle, signal);
  const evidence = createRootEvidence(onEvidence);
  const states = createTargetStates(KINDS, () => performance.now());
  const injectors = createInjectors(context, { sources, evidence, states });
  const onListing = () => {
    onEvidence();
    onUnreadable();
  };
  const isOff = context.config.without.includes('injection');
  const kinds = INJECTION_TARGETS.filter(([{ kind }]) => !isOff || OWN_TARGETS.has(kind));
  for (const [kind, resource] of kinds) injectors.start(kind, resource, onListing, signal);
  const stopped = injectors.running().map((one) => one.stopped);
  const trustBundles = isOff ? NO_TRUST_BUNDLES : followTrustBundles(context, injectors, onListing, signal);
  const onCopy = (key: string, trust: CopyTrust | undefined) =>
    evidence.set(`ConfigMap ${key}, a distributed bundle`, trust && trustOfCopy(trust, bundle()));
  const distribution = isOff ? NO_DISTRIBUTION : startDistribution(context, bundle, onCopy, signal);
  const listings = () => [
    ...injectors.running().map(({ targets, resource }) => ({ resource, listing: targets.listing() })),
    ...CLUSTER_TRUST_BUNDLES.slice(0, 1).map((resource) => ({ resource, listing: trustBundles.search() })),
  ];
  const unreadable = () => unreadableIn(listings());
  context.metrics.scrape({ caBundles: { ...states, unreadable } }, signal);
  return {
    resync: () => {
      injectors.resync(() => true);
      distribution.resync();
    },
    targetsWithout: (id: string): LaggingTargets | undefined => {
      const generation = authority()?.generations.find((one) => one.id === id);
      if (generation === undefined || listings().some(({ listing }) => listing.kind === 'pending'))
        return undefined;
      return withUnlisted(evidence.without(rootOf(generation).fingerprint256), listings());
    },
    unreadable,
    stopped: Promise.all([...stopped, distribution.stopped, trustBundles.stopped]),
  };
}

const NO_DISTRIBUTION: ReturnType<typeof startDistribution> = {
  resync: () => undefined,
  stopped: Promise.resolve(),
};

const NO_TRUST_BUNDLES: ReturnType<typeof followTrustBundles> = {
  search: () => ({ kind: 'not-served' }),
  stopped: Promise.resolve(),
};

/** Runs an injector for ClusterTrustBundles while the API server serves them. */
function followTrustBundles(
  context: LeaderContext,
  { start, drop }: Pick<Injectors, 'start' | 'drop'>,
  onListing: () => void,
  signal: AbortSignal,
) {
  const kind = TARGET_KINDS.clusterTrustBundle;
  let search: Listing = { kind: 'pending' };
  const onSearch = (state: Listing) => {
    search = state;
    onListing();
  };
  const follow = async (): Promise<void> => {
    for (;;) {
      const resource = await findTrustBundles(context, onSearch, signal);
      const served = new AbortController();
      const onList = () => {
        if (injector.targets.listing().kind === 'not-served') served.abort();
        onListing();
      };
      const injector = start(kind, resource, onList, AbortSignal.any([signal, served.signal]));
      onSearch({ kind: 'complete' });
      await injector.stopped;
      signal.throwIfAborted();
      // An upgrade of the API server has removed this version, and perhaps serves another one.
      drop(injector, kind.kind, TRUST_BUNDLE);
      context.discovery.forget(resource);
      onSearch({ kind: 'not-served' });
      await sleep(systemClock, SEARCH_AGAIN_MS, signal);
    }
  };
  const stopped = follow().catch((error: unknown) => {
    if (!signal.aborted) context.log.error({ err: error }, 'ClusterTrustBundles are not written any more');
  });
  return { search: () => search, stopped };
}

/** Copies are in namespaces, so they cannot hold up a rotation for long. */
const trustOfCopy = (trust: CopyTrust, bundle = ''): TargetTrust => ({
  roots: trust === 'current' ? certificatesIn(bundle) : new Set(),
  canVeto: false,
});

interface ListedKind {
  readonly resource: Resource;
  readonly listing: Listing;
}

/** ClusterTrustBundles are optional: an old ClusterRole must not hold up rotations until the CA is about to expire. */
const canVeto = ({ namespaced, kind }: Resource): boolean =>
  !namespaced && kind !== TARGET_KINDS.clusterTrustBundle.kind;

/** A kind that cannot be listed counts as one target without any root. */
function withUnlisted({ vetoing, delaying }: LaggingTargets, kinds: readonly ListedKind[]): LaggingTargets {
  const unlisted = (vetoes: boolean) =>
    kinds
      .filter(({ resource, listing }) => listing.kind === 'failed' && canVeto(resource) === vetoes)
      .map(({ resource }) => `all ${resource.resource}, which cannot be listed`);
  return {
    vetoing: [...unlisted(true), ...vetoing],
    delaying: [...unlisted(false), ...delaying],
  };
}

/** The kinds that Gatehouse may not list, or cannot discover. */
const unreadableIn = (kinds: readonly ListedKind[]): readonly UnreadableKind[] =>
  kinds.flatMap(({ resource, listing }) =>
    listing.kind === 'failed' && listing.isLasting
      ? [{ kind: resource.kind, canVeto: canVeto(resource), problem: messageOf(listing.error) }]
      : [],
  );
