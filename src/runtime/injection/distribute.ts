/** On the leader: writes CA bundles of several sources into the namespaces that they select, as ConfigMaps. */
import type { X509Certificate } from 'node:crypto';
import { rootCertificates } from 'node:tls';
import { setTimeout as sleep } from 'node:timers/promises';
import { quote } from '../../json/printable.ts';
import { keyOf, type KubeObject } from '../../json/kube-object.ts';
import { pick } from '../../json/json.ts';
import { adviceOn } from '../../kube/refusal-advice.ts';
import { isForbidden } from '../../kube/api-error.ts';
import { systemClock } from '../../kube/clock.ts';
import { dropManagedFields } from '../../kube/watch.ts';
import { withKind } from '../../kube/object.ts';
import { configMaps, namespaces } from '../../kube/well-known.ts';
import { BUNDLE_EXCLUDES, DISTRIBUTED, DISTRIBUTE_TO, CA_BUNDLE_KEY } from '../../pki/annotations.ts';
import {
  composeBundle,
  distributionOf,
  type Distribution,
  type DistributionSource,
} from '../../pki/injection/distribution.ts';
import { splitCertificates, type CertificatePem } from '../../pki/x509/pem.ts';
import {
  AWAIT_CHANGE,
  createReminders,
  regarding,
  startController,
  type LeaderContext,
  type Reconcile,
  GONE,
  requeueIn,
} from '../controller.ts';
import { BUNDLE_REPAIRED, isDamaged } from '../certificates/ca-bundle.ts';
import { isCovered } from '../namespaces.ts';
import { watch, type Watching } from '../watch.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Config } from '../../config/config.ts';
import { nextAttempt, type RevertHistory } from '../../pki/revert-backoff.ts';
import type { Log } from '../../log.ts';
import { createRefusedWrites, refusable, REFUSED_RECHECK_MS, WriteRefused } from '../write-refused.ts';
import { someOf } from '../../json/counted.ts';

export function startDistribution(
  context: LeaderContext,
  authority: () => CertificatePem | undefined,
  onTrust: (key: string, trust: CopyTrust | undefined) => void,
  signal: AbortSignal,
) {
  const { namespaces: covered } = context.config;
  const report = createReports(context);
  const add = (key: string) => {
    if (isCovered(covered, key.split('/', 1)[0])) controller.add(key);
  };
  const labelSelector = `${DISTRIBUTED}=true`;
  const copies = watch<KubeObject>(
    context,
    { resource: configMaps, metadataOnly: true, labelSelector, onChange: add },
    signal,
  );
  const resync = (bundle: string) => {
    const known = copies.store.list().filter(({ metadata }) => metadata?.name === bundle);
    const selected = orders.get(bundle)?.selected?.store.list() ?? [];
    const keys = selected.map(({ metadata }) => `${metadata?.name ?? ''}/${bundle}`);
    for (const key of new Set([...known.map(keyOf), ...keys])) add(key);
  };
  const { orders, sources } = followOrders(context, { report, resync, add }, signal);
  const order = (name: string) => orders.get(name);
  const bundle = createComposer(authority, resync, signal);
  const reconcile = createCopyReconciler({ ...context, order, bundle, report, onTrust });
  // Until the sources are known, every copy would look as if it had none.
  const onSources = () => copies.store.list().forEach((copy) => add(keyOf(copy)));
  sources.whenSynced(signal).then(onSources, () => undefined);
  const reconcileKnown: Reconcile = (key, reconciling) =>
    sources.hasSynced() ? reconcile(key, reconciling) : Promise.resolve(AWAIT_CHANGE);
  // One worker: 1,000 copies of 250 KB must not fill the store of the API server in seconds.
  const controller = startController(
    context,
    { name: 'distribute-bundles', reconcile: reconcileKnown },
    signal,
  );
  return {
    resync: () => {
      for (const name of orders.keys()) resync(name);
    },
    stopped: controller.stopped,
  };
}

interface OrderListeners extends Pick<CopyContext, 'report'> {
  readonly resync: (bundle: string) => void;
  readonly add: (key: string) => void;
}

function followOrders(context: LeaderContext, { report, resync, add }: OrderListeners, signal: AbortSignal) {
  const { namespace } = context.config;
  const orders = new Map<string, Order>();
  const select = (bundle: string, labelSelector: string): Watching<KubeObject> => {
    const selected = watch<KubeObject>(
      context,
      {
        resource: namespaces,
        metadataOnly: true,
        labelSelector,
        onChange: (name) => add(`${name}/${bundle}`),
        onFailure: () => {
          const { source } = orders.get(bundle) ?? {};
          const error = selected.failure();
          if (source !== undefined && error instanceof Error)
            report(source, 'InvalidDistribution', selectionProblem(labelSelector, error));
        },
      },
      signal,
    );
    const onSynced = () => resync(bundle);
    selected.whenSynced(signal).then(onSynced, () => undefined);
    return selected;
  };
  const onSource = (key: string) => {
    const name = key.slice(namespace.length + 1);
    const order = orderOf(sources.store.get(key), orders.get(name), (selector) => select(name, selector));
    if (order === undefined) orders.delete(name);
    else orders.set(name, order);
    if (order?.distribution.kind === 'invalid')
      report(order.source, 'InvalidDistribution', order.distribution.message);
    const unknown = order === undefined ? [] : unknownExclusions(order.distribution);
    if (order !== undefined && unknown.length > 0)
      report(
        order.source,
        'AnnotationIgnored',
        `${BUNDLE_EXCLUDES}: no public root of the bundle has the fingerprint ${unknown.join(', ')}: correct or remove it`,
      );
    resync(name);
  };
  const sources = watch<DistributionSource>(
    context,
    { resource: configMaps, namespace, transform: toSource, onChange: onSource },
    signal,
  );
  return { orders, sources };
}

function orderOf(
  source: DistributionSource | undefined,
  before: Order | undefined,
  select: (selector: string) => Watching<KubeObject>,
): Order | undefined {
  const distribution = distributionOf(source);
  const isSame = selectorOf(distribution) === selectorOf(before?.distribution);
  if (!isSame) before?.selected?.stop();
  if (source === undefined || distribution.kind === 'none') return undefined;
  if (distribution.kind === 'invalid') return { source, distribution, selected: undefined };
  return { source, distribution, selected: isSame ? before?.selected : select(distribution.selector) };
}

const selectorOf = (distribution: Distribution | undefined): string | undefined =>
  distribution?.kind === 'wanted' ? distribution.selector : undefined;

function selectionProblem(selector: string, error: Error): string {
  const advice = isForbidden(error) ? adviceOn(error.message) : 'Correct the selector.';
  return `the namespaces of ${DISTRIBUTE_TO}: ${quote(selector)} cannot be watched. ${advice} The API server says: ${error.message}`;
}

function createReports({ record, log }: LeaderContext): CopyContext['report'] {
  const reminders = createReminders();
  return ({ metadata = {} }, reason, message, state = message) => {
    if (!reminders.isDue(`${metadata.name ?? ''} ${reason}`, state, new Date())) return;
    record({ regarding: regarding(withKind(configMaps, { metadata })), type: 'Warning', reason, message });
    log.warn(
      { bundle: metadata.name, reason, problem: message },
      'a CA bundle is not distributed everywhere',
    );
  };
}

function toSource(object: DistributionSource): DistributionSource {
  const found = dropManagedFields(object);
  const isSource = found.metadata?.annotations?.[DISTRIBUTE_TO] !== undefined;
  return isSource ? found : pick(found, 'apiVersion', 'kind', 'metadata');
}

/**
 * The text of a bundle, composed once per version of its parts; undefined: there is no authority yet.
 * @param onEnd a certificate in the bundle has expired
 */
function createComposer(
  authority: () => CertificatePem | undefined,
  onEnd: (bundle: string) => void,
  signal: AbortSignal,
) {
  const composed = new WeakMap<Order, { readonly ours: string; readonly pem: CertificatePem | Error }>();
  const timers = new Map<string, () => void>();
  signal.addEventListener('abort', () => timers.forEach((cancel) => cancel()));
  return (order: Order): CertificatePem | Error | undefined => {
    const { distribution, source } = order;
    if (distribution.kind === 'invalid') return new Error(distribution.message);
    const ours = distribution.withAuthority ? authority() : '';
    if (ours === undefined) return undefined;
    const known = composed.get(order);
    if (known?.ours === ours) return known.pem;
    const { own, withPublic, excluded } = distribution;
    const others = withPublic
      ? publicRoots().filter(({ fingerprint256 }) => !excluded.includes(fingerprint256))
      : [];
    const now = new Date();
    const parts = [...splitCertificates(ours), ...own, ...others];
    const pem = composeBundle(parts, now);
    composed.set(order, { ours, pem });
    const name = source.metadata?.name ?? '';
    timers.get(name)?.();
    const ends = parts.map(({ validToDate }) => validToDate.getTime()).filter((end) => end > now.getTime());
    const end = () => {
      composed.delete(order);
      onEnd(name);
    };
    if (ends.length > 0) timers.set(name, systemClock.after(Math.min(...ends) - now.getTime(), end));
    return pem;
  };
}

let parsedRoots: readonly X509Certificate[] | undefined;
const publicRoots = (): readonly X509Certificate[] =>
  (parsedRoots ??= rootCertificates.flatMap((one) => splitCertificates(one)));

function unknownExclusions(distribution: Distribution): readonly string[] {
  if (distribution.kind !== 'wanted') return [];
  const known = distribution.withPublic ? publicRoots().map(({ fingerprint256 }) => fingerprint256) : [];
  return distribution.excluded.filter((one) => !known.includes(one));
}

export interface Order {
  readonly source: DistributionSource;
  readonly distribution: Exclude<Distribution, { kind: 'none' }>;
  readonly selected: Watching<KubeObject> | undefined;
}

export type CopyTrust = 'current' | 'stale';

export interface CopyContext {
  readonly client: Pick<KubeClient, 'get' | 'listAll' | 'create' | 'replace' | 'delete'>;
  readonly config: Pick<Config, 'namespace'>;
  readonly order: (bundle: string) => Order | undefined;
  /** Undefined: not known yet. An Error: the copies do not change. */
  readonly bundle: (order: Order) => CertificatePem | Error | undefined;
  /** Records an Event again only if `state` has changed. Default: the message. */
  readonly report: (source: KubeObject, reason: string, message: string, state?: string) => void;
  readonly onTrust: (key: string, trust: CopyTrust | undefined) => void;
  readonly log: Log;
}

const PACE_MS = 100;
/** The watch does not report ConfigMaps of others. */
const FOREIGN_RECHECK_MS = 10 * 60_000;

/** Creates, updates and deletes one copy of a distributed CA bundle: the ConfigMap of that name in one namespace. */
export function createCopyReconciler(context: CopyContext): Reconcile {
  const { client, config, onTrust, log, report } = context;
  const histories = new Map<string, RevertHistory>();
  const refusedWrites = createRefusedWrites(() => new Date());
  const stuck = new Map<string, string>();
  const tellStuck = (key: string, { source }: Order, reason: string, message: string): void => {
    stuck.set(key, reason);
    const isAlike = (one: string) => refOf(one).name === refOf(key).name && stuck.get(one) === reason;
    const alike = [...stuck.keys()].filter(isAlike);
    const others = alike.filter((one) => one !== key).map((one) => refOf(one).namespace);
    const more = others.length === 0 ? '' : ` The copies in ${someOf(others)} are not written either.`;
    report(source, reason, message + more, someOf(alike.toSorted()));
  };

  const remove: Reconcile = async (key, signal) => {
    const ref = refOf(key);
    const live = await client.get<DistributionSource>(configMaps, ref, { signal });
    if (live === undefined || !isCopy(live)) return GONE;
    if (await isWanted(context, ref, signal)) return AWAIT_CHANGE;
    const { uid, resourceVersion } = live.metadata ?? {};
    await client.delete(configMaps, ref, { signal, preconditions: { uid, resourceVersion } });
    log.info({ key }, 'deleted a copy of a CA bundle');
    await sleep(PACE_MS, undefined, { signal });
    return GONE;
  };

  const write = async (key: string, order: Order, pem: CertificatePem, signal: AbortSignal) => {
    const ref = refOf(key);
    const live = await client.get<DistributionSource>(configMaps, ref, { signal });
    const { distribution } = order;
    const trust = (state: CopyTrust): void => {
      if (state === 'current') stuck.delete(key);
      onTrust(key, distribution.kind === 'wanted' && distribution.withAuthority ? state : undefined);
    };
    if (live !== undefined && !isCopy(live)) {
      const message = `ConfigMap ${key} belongs to another owner and is not overwritten: rename it, or the bundle.`;
      tellStuck(key, order, 'ForeignConfigMap', message);
      onTrust(key, undefined);
      return requeueIn(FOREIGN_RECHECK_MS, new Date());
    }
    if (live?.data?.[CA_BUNDLE_KEY] === pem) {
      trust('current');
      return AWAIT_CHANGE;
    }
    trust('stale');
    const attempt = nextAttempt(histories.get(key), pem, new Date());
    if (attempt.kind === 'wait') {
      histories.set(key, attempt.history);
      return { kind: 'requeue', at: attempt.until } as const;
    }
    const { metadata } = live ?? {};
    const labels = { ...metadata?.labels, [DISTRIBUTED]: 'true' };
    const annotations = { ...metadata?.annotations, [DISTRIBUTED]: key };
    // Without what others wrote into data and binaryData. `immutable` refuses each write anyway.
    const desired = {
      metadata: { ...metadata, ...ref, labels, annotations },
      data: { [CA_BUNDLE_KEY]: pem },
    };
    await refusable(() =>
      (live === undefined ? client.create : client.replace)(configMaps, desired, { signal }),
    );
    histories.set(key, attempt.history);
    trust('current');
    log.info({ key }, 'wrote a copy of a CA bundle');
    if (isDamaged(live?.data?.[CA_BUNDLE_KEY]))
      report(order.source, 'BundleRepaired', `the copy in namespace ${ref.namespace}: ${BUNDLE_REPAIRED}`);
    await sleep(PACE_MS, undefined, { signal });
    return AWAIT_CHANGE;
  };

  return async (key, signal) => {
    const { namespace, name } = refOf(key);
    if (namespace === config.namespace) return GONE;
    const order = context.order(name);
    // The copies stay until a user has fixed the distribution, or the namespaces are known.
    if (order !== undefined && order.selected?.hasSynced() !== true) return AWAIT_CHANGE;
    const selected = order?.selected?.store.get(namespace);
    if (order === undefined || selected === undefined || isTerminating(selected)) {
      onTrust(key, undefined);
      histories.delete(key);
      stuck.delete(key);
      return await remove(key, signal);
    }
    const pem = context.bundle(order);
    if (pem === undefined) return AWAIT_CHANGE;
    if (pem instanceof Error) {
      report(order.source, 'InvalidDistribution', pem.message);
      return AWAIT_CHANGE;
    }
    const result = await refusedWrites.attempt(key, () => write(key, order, pem, signal));
    if (!(result instanceof WriteRefused)) return result;
    const message = `the copy in namespace ${namespace} is not written: ${result.message}`;
    tellStuck(key, order, 'DistributionRefused', message);
    return requeueIn(REFUSED_RECHECK_MS, new Date());
  };
}

const refOf = (key: string) => {
  const [namespace = '', name = ''] = key.split('/');
  return { namespace, name };
};

/** Whether Gatehouse made it. A ConfigMap that a user copied from it names another place. */
const isCopy = ({ metadata = {} }: KubeObject): boolean =>
  metadata.labels?.[DISTRIBUTED] === 'true' &&
  metadata.annotations?.[DISTRIBUTED] === `${metadata.namespace ?? ''}/${metadata.name ?? ''}`;
const isTerminating = ({ metadata }: KubeObject): boolean => metadata?.deletionTimestamp !== undefined;

/** Reads live: a store that is behind must not delete what clients rely on. */
async function isWanted(
  { client, config }: CopyContext,
  { namespace, name }: { readonly namespace: string; readonly name: string },
  signal: AbortSignal,
): Promise<boolean> {
  const source = await client.get<DistributionSource>(
    configMaps,
    { namespace: config.namespace, name },
    { signal },
  );
  const distribution = distributionOf(source);
  if (distribution.kind !== 'wanted') return distribution.kind === 'invalid';
  const { items } = await client.listAll(namespaces, {
    labelSelector: distribution.selector,
    fieldSelector: `metadata.name=${namespace}`,
    signal,
  });
  return items.some((one) => !isTerminating(one));
}
