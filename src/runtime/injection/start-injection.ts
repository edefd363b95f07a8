/** Leader: starts one injector for each kind that can carry a CA bundle. */
import { messageOf } from '../../json/error-message.ts';
import { sleep, systemClock } from '../../kube/clock.ts';
import type { Resource } from '../../kube/object.ts';
import { TRUST_BUNDLE } from '../../pki/annotations.ts';
import type { Authority } from '../../pki/authority/authority.ts';
import { rootOf } from '../../pki/authority/generation.ts';
import type { LaggingTargets, UnreadableKind } from '../../pki/authority/lagging-targets.ts';
import type { BundleSource } from '../../pki/injection/request.ts';
import { TARGET_KINDS } from '../../pki/injection/target.ts';
import type { CertificatePem } from '../../pki/x509/pem.ts';
import type { LeaderContext } from '../controller.ts';
import { CLUSTER_TRUST_BUNDLES, INJECTION_TARGETS, OWN_TARGETS } from '../resources.ts';
import { startDistribution } from './distribute.ts';
import type { CopyTrust } from './distributed-copy.ts';
import { createBundleSources } from './bundle-sources.ts';
import { createRootEvidence, type TargetTrust } from './root-evidence.ts';
import { createTargetStates } from './target-states.ts';
import { findTrustBundles } from './find-trust-bundles.ts';
import { createInjectors, type Injectors } from './start-injector.ts';
import { certificatesIn, type Listing } from './target-store.ts';

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
  return { search: () => search, stopped: follow().catch(() => undefined) };
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
