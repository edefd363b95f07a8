/** On the leader: writes CA bundles of several sources into the namespaces that they select. */
import { rootCertificates } from 'node:tls';

import { quote } from '../../json/printable.ts';
import { keyOf, type KubeObject } from '../../json/kube-object.ts';
import { isForbidden } from '../../kube/api-error.ts';
import { dropManagedFields } from '../../kube/watch/change.ts';
import { withKind } from '../../kube/object.ts';
import { configMaps, namespaces } from '../../kube/well-known.ts';
import { DISTRIBUTED, DISTRIBUTE_TO } from '../../pki/annotations.ts';
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
} from '../controller.ts';
import { isCovered } from '../namespaces.ts';
import { watch, type Watching } from '../watch.ts';
import {
  createCopyReconciler,
  DISTRIBUTE_ROLE,
  type CopyContext,
  type CopyTrust,
  type Order,
} from './distributed-copy.ts';

/** @param onTrust what a copy trusts; undefined: it is gone, or need not trust the authority */
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
  const bundle = createComposer(authority);
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
  /** The bundle of this name has changed, or the namespaces that it selects. */
  readonly resync: (bundle: string) => void;
  /** A namespace has changed that a bundle selects or no longer selects (`namespace/bundle`). */
  readonly add: (key: string) => void;
}

/** The bundles that ConfigMaps in Gatehouse's namespace describe, by name, and the namespaces that each one selects. */
function followOrders(context: LeaderContext, { report, resync, add }: OrderListeners, signal: AbortSignal) {
  const { namespace } = context.config;
  const orders = new Map<string, Order>();
  const select = (bundle: string, selector: string): Watching<KubeObject> => {
    const onFailure = (error: unknown) => {
      const { source } = orders.get(bundle) ?? {};
      if (source !== undefined && error instanceof Error)
        report(source, 'InvalidDistribution', selectionProblem(selector, error));
    };
    const onNamespace = (one: string) => add(`${one}/${bundle}`);
    const onSynced = () => resync(bundle);
    return watchNamespaces(context, selector, { onNamespace, onSynced, onFailure }, signal);
  };
  const onSource = (key: string) => {
    const name = key.slice(namespace.length + 1);
    const order = orderOf(sources.store.get(key), orders.get(name), (selector) => select(name, selector));
    if (order === undefined) orders.delete(name);
    else orders.set(name, order);
    if (order?.distribution.kind === 'invalid')
      report(order.source, 'InvalidDistribution', order.distribution.message);
    resync(name);
  };
  const sources = watch<DistributionSource>(
    context,
    { resource: configMaps, namespace, transform: toSource, onChange: onSource },
    signal,
  );
  return { orders, sources };
}

/** The order of a source, and the watch of the namespaces that it selects. Undefined: it distributes nothing. */
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

interface NamespaceListeners {
  readonly onNamespace: (name: string) => void;
  readonly onSynced: () => void;
  readonly onFailure: (error: unknown) => void;
}

function watchNamespaces(
  context: LeaderContext,
  labelSelector: string,
  { onNamespace, onSynced, onFailure }: NamespaceListeners,
  signal: AbortSignal,
): Watching<KubeObject> {
  const selected = watch<KubeObject>(
    context,
    {
      ...{ resource: namespaces, metadataOnly: true, labelSelector, onChange: onNamespace },
      onFailure: () => onFailure(selected.failure()),
    },
    signal,
  );
  selected.whenSynced(signal).then(onSynced, () => undefined);
  return selected;
}

const selectorOf = (distribution: Distribution | undefined): string | undefined =>
  distribution?.kind === 'wanted' ? distribution.selector : undefined;

function selectionProblem(selector: string, error: Error): string {
  const advice = isForbidden(error) ? `Permit it (${DISTRIBUTE_ROLE})` : 'Correct the selector';
  return `the namespaces of ${DISTRIBUTE_TO}: ${quote(selector)} cannot be watched. ${advice}. The API server says: ${error.message}`;
}

/** Events about a bundle, once and then before Kubernetes forgets them. */
function createReports({ record, log }: LeaderContext): CopyContext['report'] {
  const reminders = createReminders();
  return ({ metadata = {} }, reason, message) => {
    const { name = '' } = metadata;
    // One Event for all namespaces that have the same problem.
    const text = reason === 'InvalidDistribution' ? message : reason;
    if (!reminders.isDue(`${name} ${reason}`, text, new Date())) return;
    record({ regarding: regarding(withKind(configMaps, { metadata })), type: 'Warning', reason, message });
    log.warn({ bundle: name, reason, problem: message }, 'a CA bundle is not distributed everywhere');
  };
}

/** Other ConfigMaps of the namespace cost no memory. */
function toSource(object: DistributionSource): DistributionSource {
  const { data, ...rest } = dropManagedFields(object);
  const isSource = rest.metadata?.annotations?.[DISTRIBUTE_TO] !== undefined;
  return isSource && data !== undefined ? { ...rest, data } : rest;
}

/** The text of a bundle, composed once per version of its parts; undefined: there is no authority yet. */
function createComposer(authority: () => CertificatePem | undefined) {
  const composed = new Map<
    string,
    { readonly of: readonly unknown[]; readonly pem: CertificatePem | Error }
  >();
  return ({ source, distribution }: Order): CertificatePem | Error | undefined => {
    if (distribution.kind === 'invalid') return new Error(distribution.message);
    const { name = '', resourceVersion } = source.metadata ?? {};
    const ours = distribution.withAuthority ? authority() : '';
    if (ours === undefined) return undefined;
    const known = composed.get(name);
    if (known?.of[0] === resourceVersion && known?.of[1] === ours) return known.pem;
    const others = distribution.withPublic ? rootCertificates.flatMap((one) => splitCertificates(one)) : [];
    const pem = composeBundle([...splitCertificates(ours), ...distribution.own, ...others], new Date());
    composed.set(name, { of: [resourceVersion, ours], pem });
    return pem;
  };
}
