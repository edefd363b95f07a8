/** Leader: starts one injector for each kind that can carry a CA bundle. */
import { WEBHOOK_CONFIGURATION_NAME } from '../../admission/webhooks/webhook-configurations.ts';
import { keyOf } from '../../json/kube-object.ts';
import { messageOf } from '../../json/error-message.ts';
import { sleep, systemClock } from '../../kube/clock.ts';
import type { Resource } from '../../kube/object.ts';
import { CABUNDLE_CONFIGMAP, TRUST_BUNDLE } from '../../pki/annotations.ts';
import type { Authority } from '../../pki/authority/authority.ts';
import { rootOf } from '../../pki/authority/generation.ts';
import type { LaggingTargets, UnreadableKind } from '../../pki/authority/lagging-targets.ts';
import {
  sourcesOf,
  type BundleSource,
  type SourceRef,
  type TargetKindName,
} from '../../pki/injection/request.ts';
import type { SourceDemand } from '../../pki/injection/source-quota.ts';
import { TARGET_KINDS, type InjectionTarget, type TargetKind } from '../../pki/injection/target.ts';
import type { CertificatePem } from '../../pki/x509/pem.ts';
import type { Context } from '../context.ts';
import { startController, type LeaderContext } from '../controller.ts';
import { CLUSTER_TRUST_BUNDLES, INJECTION_TARGETS } from '../resources.ts';
import { startDistribution } from './distribute.ts';
import type { CopyTrust } from './distributed-copy.ts';
import { createBundleSources } from './bundle-sources.ts';
import { createInjector, type InjectorContext } from './injector.ts';
import { createRootEvidence, type TargetTrust } from './root-evidence.ts';
import { createTargetStates, type TargetState } from './target-states.ts';
import { findTrustBundles } from './find-trust-bundles.ts';
import { certificatesIn, watchTargets, type Listing } from './target-store.ts';

/** ConfigMaps may ask for a bundle in each of a thousand namespaces. */
const WORKERS = 4;
/** During an upgrade, API servers may disagree about a version. */
const SEARCH_AGAIN_MS = 2_000;

export interface EvidenceHooks {
  /** The result of `targetsWithout` may have changed. */
  readonly onEvidence: () => void;
  /** The result of `unreadable` may have changed. */
  readonly onUnreadable: () => void;
}

export function startInjection(
  context: LeaderContext,
  authority: () => Authority | undefined,
  bundle: () => CertificatePem | undefined,
  { onEvidence, onUnreadable }: EvidenceHooks,
  signal: AbortSignal,
) {
  const resync = (isAffected: (target: InjectionTarget) => boolean = () => true) => {
    for (const { targets, add } of injectors)
      for (const target of targets.asking().filter(isAffected)) add(keyOf(target));
  };
  const onBundle = (isAffected: (source: BundleSource) => boolean) =>
    resync(({ request }) => request.kind === 'wanted' && isAffected(request.source));
  const sources = createBundleSources(context, bundle, onBundle, signal);
  const evidence = createRootEvidence(onEvidence);
  const states = createTargetStates(
    [...INJECTION_TARGETS.map(([{ kind }]) => kind), TARGET_KINDS.clusterTrustBundle.kind],
    () => performance.now(),
  );
  const keepSources = oncePerTick(() =>
    sources.keepOnly(injectors.flatMap(({ targets }) => targets.asking().flatMap(demandsOf))),
  );
  const hooks = {
    onTarget: (changed: readonly InjectionTarget[]) => {
      if (changed.some((target) => refsOf(target).length > 0)) keepSources();
    },
    onTrust: evidence.set,
    onListing: () => {
      onEvidence();
      onUnreadable();
    },
  };
  const injection = {
    bundle: sources.bundle,
    record: context.record,
    states: {
      report: (kind: TargetKindName, key: string, state: TargetState | undefined) => {
        states.report(kind, key, state);
        evidence.contend(targetName(kind, key), state === 'contended');
      },
    },
  };
  const injectors = INJECTION_TARGETS.map(([kind, resource]) =>
    startInjector(context, kind, resource, injection, hooks, signal),
  );
  let search: Listing = { kind: 'pending' };
  const onSearch = (state: Listing) => {
    search = state;
    hooks.onListing();
  };
  const followTrustBundles = async (): Promise<void> => {
    const kind = TARGET_KINDS.clusterTrustBundle;
    for (;;) {
      const resource = await findTrustBundles(context, onSearch, signal);
      const served = new AbortController();
      const onListing = () => {
        if (injector.targets.listing().kind === 'not-served') served.abort();
        hooks.onListing();
      };
      const either = AbortSignal.any([signal, served.signal]);
      const injector = startInjector(context, kind, resource, injection, { ...hooks, onListing }, either);
      injectors.push(injector);
      onSearch({ kind: 'complete' });
      await injector.stopped;
      signal.throwIfAborted();
      // An upgrade of the API server has removed this version, and perhaps serves another one.
      injectors.splice(injectors.indexOf(injector), 1);
      evidence.set(targetName(kind.kind, TRUST_BUNDLE), undefined);
      injection.states.report(kind.kind, TRUST_BUNDLE, undefined);
      context.discovery.forget(resource);
      onSearch({ kind: 'not-served' });
      await sleep(systemClock, SEARCH_AGAIN_MS, signal);
    }
  };
  const trustBundles = followTrustBundles();
  const onCopy = (key: string, trust: CopyTrust | undefined) =>
    evidence.set(`ConfigMap ${key}, a distributed bundle`, trust && trustOfCopy(trust, bundle()));
  const distribution = startDistribution(context, bundle, onCopy, signal);
  const listings = () => [
    ...injectors.map(({ targets, resource }) => ({ resource, listing: targets.listing() })),
    ...CLUSTER_TRUST_BUNDLES.slice(0, 1).map((resource) => ({ resource, listing: search })),
  ];
  const unreadable = () => unreadableIn(listings());
  context.metrics.scrape({ caBundles: { ...states, unreadable } }, signal);
  return {
    resync: () => {
      resync();
      distribution.resync();
    },
    targetsWithout: (id: string): LaggingTargets | undefined => {
      const generation = authority()?.generations.find((one) => one.id === id);
      if (generation === undefined || listings().some(({ listing }) => listing.kind === 'pending'))
        return undefined;
      return withUnlisted(evidence.without(rootOf(generation).fingerprint256), listings());
    },
    unreadable,
    stopped: Promise.all([
      ...injectors.map(({ stopped }) => stopped),
      distribution.stopped,
      trustBundles.catch(() => undefined),
    ]),
  };
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

const targetName = (kind: TargetKindName, key: string): string => `${kind} ${key}`;

function startInjector(
  context: Context,
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

const refsOf = ({ request }: InjectionTarget): readonly SourceRef[] => sourcesOf(request);

const demandsOf = (target: InjectionTarget): readonly SourceDemand[] =>
  refsOf(target).map((ref) => ({ namespace: target.metadata?.namespace, ref }));
