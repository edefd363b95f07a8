/** Creates, updates and deletes one copy of a distributed CA bundle: the ConfigMap of that name in one namespace. */
import { setTimeout as sleep } from 'node:timers/promises';

import type { KubeObject } from '../../json/kube-object.ts';
import type { KubeClient } from '../../kube/client.ts';
import { configMaps, namespaces } from '../../kube/well-known.ts';
import type { Config } from '../../config/config.ts';
import { CA_BUNDLE_KEY, DISTRIBUTED } from '../../pki/annotations.ts';
import {
  distributionOf,
  type Distribution,
  type DistributionSource,
} from '../../pki/injection/distribution.ts';
import { nextAttempt, type RevertHistory } from '../../pki/revert-backoff.ts';
import type { CertificatePem } from '../../pki/x509/pem.ts';
import type { Log } from '../../log.ts';
import { AWAIT_CHANGE, GONE, requeueIn, type Reconcile } from '../controller.ts';
import { createRefusedWrites, refusable, REFUSED_RECHECK_MS, WriteRefused } from '../write-refused.ts';
import type { Watching } from '../watch.ts';

/** The manifest with the permissions. */
export const DISTRIBUTE_ROLE = 'deploy/components/distribute-bundles/role.yaml';

/** A bundle, and the namespaces that it selects. */
export interface Order {
  readonly source: DistributionSource;
  readonly distribution: Exclude<Distribution, { kind: 'none' }>;
  /** Undefined while the distribution is invalid. */
  readonly selected: Watching<KubeObject> | undefined;
}

/** Whether a copy has the current bundle of the authority. */
export type CopyTrust = 'current' | 'stale';

export interface CopyContext {
  readonly client: Pick<KubeClient, 'get' | 'listAll' | 'create' | 'replace' | 'delete'>;
  readonly config: Pick<Config, 'namespace'>;
  readonly order: (bundle: string) => Order | undefined;
  /** Undefined: not known yet. An Error: the copies stay as they are. */
  readonly bundle: (order: Order) => CertificatePem | Error | undefined;
  readonly report: (source: KubeObject, reason: string, message: string) => void;
  readonly onTrust: (key: string, trust: CopyTrust | undefined) => void;
  readonly log: Log;
}

/** At most ten writes a second. */
const PACE_MS = 100;
/** The watch does not report ConfigMaps of others. */
const FOREIGN_RECHECK_MS = 10 * 60_000;

export function createCopyReconciler(context: CopyContext): Reconcile {
  const { client, config, onTrust, log, report } = context;
  const histories = new Map<string, RevertHistory>();
  const refusedWrites = createRefusedWrites(() => new Date());

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
    const trust = (state: CopyTrust) =>
      onTrust(
        key,
        order.distribution.kind === 'wanted' && order.distribution.withAuthority ? state : undefined,
      );
    if (live !== undefined && !isCopy(live)) {
      const message = `ConfigMap ${key} belongs to another owner and is not overwritten: rename it, or the bundle`;
      report(order.source, 'ForeignConfigMap', message);
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
    const { metadata, ...rest } = live ?? {};
    const labels = { ...metadata?.labels, [DISTRIBUTED]: 'true' };
    const annotations = { ...metadata?.annotations, [DISTRIBUTED]: key };
    const desired = {
      ...rest,
      metadata: { ...metadata, ...ref, labels, annotations },
      data: { [CA_BUNDLE_KEY]: pem },
    };
    await refusable(DISTRIBUTE_ROLE, () =>
      (live === undefined ? client.create : client.replace)(configMaps, desired, { signal }),
    );
    histories.set(key, attempt.history);
    trust('current');
    log.info({ key }, 'wrote a copy of a CA bundle');
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
    report(
      order.source,
      'DistributionRefused',
      `the copy in namespace ${namespace} is not written: ${result.message}`,
    );
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
    ...{ labelSelector: distribution.selector, fieldSelector: `metadata.name=${namespace}`, signal },
  });
  return items.some((one) => !isTerminating(one));
}
