import { messageOf } from '../../json/abort.ts';
import { sleep, systemClock } from '../../kube/clock.ts';
import type { Resource } from '../../kube/object.ts';
import { annotationProblem, CABUNDLE_CONFIGMAP, TRUST_BUNDLE } from '../../pki/annotations.ts';
import type { Authority, LaggingTargets, UnreadableKind } from '../../pki/authority/authority.ts';
import { rootOf } from '../../pki/authority/generation.ts';
import { type BundleSource, sourcesOf, type TargetKindName } from '../../pki/injection/request.ts';
import { type InjectionTarget, TARGET_KINDS, type TargetKind } from '../../pki/injection/target.ts';
import type { CertificatePem } from '../../pki/x509/pem.ts';
import { type LeaderContext, regarding, REPEAT_MS, startController } from '../controller.ts';
import { CLUSTER_TRUST_BUNDLES, INJECTION_TARGETS, OWN_TARGETS } from '../resources.ts';
import { type CopyTrust, startDistribution } from './distribute.ts';
import { createBundleSources } from './bundle-sources.ts';
import {
  certificatesIn,
  createTargetRecords,
  type Listing,
  targetName,
  type TargetRecords,
  type TargetStore,
  type TargetTrust,
  watchTargets,
} from './target-store.ts';
import { WEBHOOK_CONFIGURATION_NAME } from '../../admission/webhooks/webhook-configurations.ts';
import { keyOf, type ObjectMeta } from '../../json/kube-object.ts';
import type { SourceDemand } from '../../pki/injection/source.ts';
import { createInjector } from './injector.ts';
import type { Context } from '../context.ts';
import { secrets } from '../../kube/well-known.ts';
import { placesOf } from '../namespaces.ts';

const WORKERS = 4;

interface Injector extends ReturnType<typeof startController> {
  readonly targets: TargetStore;
  readonly resource: Resource;
}

type Injectors = ReturnType<typeof createInjectors>;

function createInjectors(
  context: LeaderContext,
  sources: Pick<ReturnType<typeof createBundleSources>, 'bundle' | 'keepOnly'>,
  records: TargetRecords,
) {
  const { client, config, record, log } = context;
  const { bundle } = sources;
  const running: Injector[] = [];
  const keepSources = oncePerTick(() =>
    sources.keepOnly(running.flatMap(({ targets }) => targets.asking().flatMap(demandsOf))),
  );
  return {
    running: (): readonly Injector[] => running,
    start: (kind: TargetKind, resource: Resource, onListing: () => void, signal: AbortSignal): Injector => {
      const onTarget = (key: string, changed: readonly InjectionTarget[]) => {
        controller.add(key);
        if (changed.some((target) => refsOf(target).length > 0)) keepSources();
      };
      const onTrust = (key: string, trust: TargetTrust | undefined) =>
        records.trust(targetName(kind.kind, key), trust);
      const hooks = { onTarget, onTrust, onListing };
      const own = ownTarget(kind, config.namespace);
      const targets = watchTargets(context, kind, resource, own, hooks, signal);
      const reconcile = createInjector({
        client,
        kind,
        resource,
        targets,
        bundle,
        records,
        record,
        log,
        now: () => new Date(),
      });
      const options = { name: `injector-${resource.resource}`, concurrency: WORKERS, reconcile };
      const controller = startController(context, options, signal);
      const injector = { ...controller, targets, resource };
      running.push(injector);
      return injector;
    },
    /** The injector has stopped, because the API server stopped serving its kind. Its only target was `name`. */
    drop: (injector: Injector, kind: TargetKindName, name: string): void => {
      running.splice(running.indexOf(injector), 1);
      records.trust(targetName(kind, name), undefined);
      records.report(kind, name, undefined);
    },
    resync: (isAffected: (target: InjectionTarget) => boolean): void => {
      for (const { targets, add } of running)
        for (const target of targets.asking().filter(isAffected)) add(keyOf(target));
    },
  };
}

const ownTarget = ({ kind }: TargetKind, namespace: string): ObjectMeta =>
  kind === 'ConfigMap'
    ? { namespace, name: CABUNDLE_CONFIGMAP }
    : { name: kind === 'ClusterTrustBundle' ? TRUST_BUNDLE : WEBHOOK_CONFIGURATION_NAME };

/** One list reports thousands of targets, and each pass reads all of them. */
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

const refsOf = ({ request }: InjectionTarget) => sourcesOf(request);

const demandsOf = (target: InjectionTarget): readonly SourceDemand[] =>
  refsOf(target).map((ref) => ({ namespace: target.metadata?.namespace, ref }));

/** During an upgrade, API servers may disagree about a version. */
const SEARCH_AGAIN_MS = 2_000;
const KINDS = [...INJECTION_TARGETS.map(([{ kind }]) => kind), TARGET_KINDS.clusterTrustBundle.kind];

/** @param onUnreadable the result of `unreadable` may have changed */
export function startInjection(
  context: LeaderContext,
  authority: () => Authority | undefined,
  bundle: () => CertificatePem | undefined,
  { onEvidence, onUnreadable }: Record<'onEvidence' | 'onUnreadable', () => void>,
  signal: AbortSignal,
) {
  const onBundle = (isAffected: (source: BundleSource) => boolean) =>
    injectors.resync(({ request }) => request.kind === 'wanted' && isAffected(request.source));
  const sources = createBundleSources(context, bundle, onBundle, signal);
  const records = createTargetRecords(KINDS, onEvidence);
  const injectors = createInjectors(context, sources, records);
  const onListing = () => {
    onEvidence();
    onUnreadable();
  };
  const isOff = context.config.without.includes('injection');
  const kinds = INJECTION_TARGETS.filter(([{ kind }]) => !isOff || OWN_TARGETS.has(kind));
  for (const [kind, resource] of kinds) injectors.start(kind, resource, onListing, signal);
  const stopped = injectors.running().map((one) => one.stopped);
  const trustBundles = isOff ? undefined : followTrustBundles(context, injectors, onListing, signal);
  if (!isOff) reportIgnoredAnnotations(context, signal).catch(() => undefined); // has stopped leading
  const onCopy = (key: string, trust: CopyTrust | undefined) =>
    records.trust(`ConfigMap ${key}, a distributed bundle`, trust && trustOfCopy(trust, bundle()));
  const distribution = isOff ? undefined : startDistribution(context, bundle, onCopy, signal);
  const listings = () => [
    ...injectors.running().map(({ targets, resource }) => ({ resource, listing: targets.listing() })),
    ...(trustBundles?.listed() ?? []),
  ];
  const unreadable = () => unreadableIn(listings());
  context.metrics.scrape({ caBundles: { ...records, unreadable } }, signal);
  return {
    resync: () => {
      injectors.resync(() => true);
      distribution?.resync();
    },
    targetsWithout: (id: string): LaggingTargets | undefined => {
      const generation = authority()?.generations.find((one) => one.id === id);
      if (generation === undefined || listings().some(({ listing }) => listing.kind === 'pending'))
        return undefined;
      return withUnlisted(records.without(rootOf(generation).fingerprint256), listings());
    },
    unreadable,
    stopped: Promise.all([...stopped, distribution?.stopped, trustBundles?.stopped]),
  };
}

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
  const listed = (): readonly ListedKind[] =>
    CLUSTER_TRUST_BUNDLES.slice(0, 1).map((resource) => ({ resource, listing: search }));
  return { listed, stopped };
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

const unreadableIn = (kinds: readonly ListedKind[]): readonly UnreadableKind[] =>
  kinds.flatMap(({ resource, listing }) =>
    listing.kind === 'failed' && listing.isLasting
      ? [{ kind: resource.kind, canVeto: canVeto(resource), problem: messageOf(listing.error) }]
      : [],
  );

const ABSENT_RECHECK_MS = 10 * 60_000;
const RETRY_MS = 10_000;
/** From then on, the failure is reported, and delays rotations instead of blocking them. The search goes on. */
const MAX_FAILURES = 6;

/** Waits until the API server serves ClusterTrustBundles, perhaps forever. `onSearch`: the first answer, or a lasting failure. */
export async function findTrustBundles(
  { discovery, log }: Pick<Context, 'discovery' | 'log'>,
  onSearch: (state: Listing) => void,
  signal: AbortSignal,
  clock = systemClock,
): Promise<Resource> {
  let isAbsent = false;
  let failures = 0;
  for (;;) {
    let waitMs = ABSENT_RECHECK_MS;
    try {
      const found = await resolve(discovery, signal);
      if (found !== undefined) return found;
      if (!isAbsent) {
        log.info({}, 'the API server serves no ClusterTrustBundles: the CA bundle is not published as one');
        onSearch({ kind: 'not-served' });
      }
      isAbsent = true;
      failures = 0;
    } catch (err) {
      signal.throwIfAborted();
      log.warn({ err }, 'could not find out whether the API server serves ClusterTrustBundles');
      waitMs = RETRY_MS;
      failures += 1;
      if (failures === MAX_FAILURES) {
        isAbsent = false;
        onSearch({ kind: 'failed', error: err, isLasting: true });
      }
    }
    await sleep(clock, waitMs, signal);
  }
}

async function resolve(
  discovery: Pick<Context['discovery'], 'resolveKind'>,
  signal: AbortSignal,
): Promise<Resource | undefined> {
  for (const wanted of CLUSTER_TRUST_BUNDLES) {
    const served = await discovery.resolveKind(wanted, signal);
    if (served?.version === wanted.version) return served;
  }
  return undefined;
}

const MAX_REPORTED = 100;

export async function reportIgnoredAnnotations(context: LeaderContext, signal: AbortSignal): Promise<void> {
  const { client, config, record, log } = context;
  while (!signal.aborted && !config.without.includes('certificates')) {
    try {
      let left = MAX_REPORTED;
      // Page by page: a cluster may have 100,000 Secrets, and an annotation of each may hold all its data.
      for (const namespace of placesOf(secrets, config.namespaces))
        for await (const { items } of client.pages(secrets, { namespace, metadataOnly: true, signal }))
          for (const secret of items) {
            const message = annotationProblem('Secret', secret.metadata?.annotations);
            if (message === undefined || left-- <= 0) continue;
            record({ regarding: regarding(secret), message, type: 'Warning', reason: 'AnnotationIgnored' });
          }
    } catch (err) {
      signal.throwIfAborted();
      log.warn({ err }, 'could not look for ignored annotations of Secrets');
    }
    await sleep(systemClock, REPEAT_MS, signal);
  }
}
