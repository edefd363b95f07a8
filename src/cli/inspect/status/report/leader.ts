/** The leader and the replicas. */
import type { LeaseObject } from '../../../../kube/lease/lease-record.ts';
import { unreadOf, valueOf, type Unread } from '../../read-cluster/reading.ts';
import type { ClusterReadings, Pod } from '../../read-cluster/read-cluster.ts';
import type { Attention, Judged } from './attention.ts';

export interface LeaderPart {
  readonly unread: readonly Unread[];
  /** The state of the Lease. `Free`: released or never held; `Expired`: not renewed in time; `Unknown`: not read. */
  readonly state: 'Held' | 'Free' | 'Expired' | 'Unknown';
  /** The current or last leader. */
  readonly holder?: string;
  /** RFC 3339, like `renewedAt`. */
  readonly acquiredAt?: string;
  readonly renewedAt?: string;
  /** How often the leader changed. */
  readonly transitions?: number;
  /** The pods of Gatehouse, by name. Empty if it does not run in this cluster. */
  readonly replicas: readonly Replica[];
}

export interface Replica {
  readonly name: string;
  readonly ready: boolean;
  readonly leads: boolean;
  readonly node?: string;
  readonly image?: string;
  readonly restarts: number;
}

/** @param now by the clock of the API server */
export function leaderPart(
  { lease, pods }: Pick<ClusterReadings, 'lease' | 'pods'>,
  namespace: string,
  now: Date,
): Judged<LeaderPart> {
  const what = `Lease ${namespace}/gatehouse`;
  const { holderIdentity = '', acquireTime, renewTime, leaseTransitions } = valueOf(lease)?.spec ?? {};
  const state = lease.kind === 'unread' ? 'Unknown' : stateOf(lease.value, now);
  const replicas = (valueOf(pods) ?? [])
    .map((pod) => replicaOf(pod, state === 'Held' ? holderIdentity : undefined))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const part: LeaderPart = {
    unread: [...unreadOf(what, lease), ...unreadOf(`Pods in ${namespace}`, pods)],
    state,
    ...(holderIdentity === '' ? {} : { holder: holderIdentity }),
    ...(acquireTime === undefined ? {} : { acquiredAt: acquireTime }),
    ...(renewTime === undefined ? {} : { renewedAt: renewTime }),
    ...(leaseTransitions === undefined ? {} : { transitions: leaseTransitions }),
    replicas,
  };
  return { part, attention: [...leaseAttention(part, what), ...replicas.flatMap(replicaAttention)] };
}

function stateOf(lease: LeaseObject | undefined, now: Date): 'Held' | 'Free' | 'Expired' {
  const { holderIdentity = '', renewTime, leaseDurationSeconds = 15 } = lease?.spec ?? {};
  if (holderIdentity === '') return 'Free';
  const end = new Date(renewTime ?? Number.NaN).getTime() + leaseDurationSeconds * 1_000;
  // An invalid time counts as expired.
  return now.getTime() <= end ? 'Held' : 'Expired';
}

function replicaOf({ metadata, spec, status }: Pod, leader: string | undefined): Replica {
  const { name = '' } = metadata ?? {};
  const { nodeName, containers: [{ image } = {}] = [] } = spec ?? {};
  const { conditions = [], containerStatuses = [] } = status ?? {};
  return {
    name,
    ready: conditions.some(({ type, status: is }) => type === 'Ready' && is === 'True'),
    leads: name === leader,
    ...(nodeName === undefined ? {} : { node: nodeName }),
    ...(image === undefined ? {} : { image }),
    restarts: containerStatuses.reduce((sum, { restartCount = 0 }) => sum + restartCount, 0),
  };
}

function leaseAttention({ state, holder, renewedAt }: LeaderPart, object: string): readonly Attention[] {
  const attention = (message: string): readonly Attention[] => [{ part: 'leader', object, message }];
  switch (state) {
    case 'Free':
      return attention(
        'no replica leads, so no certificate is renewed and no bundle is injected: check that Gatehouse runs in this namespace (or choose another --namespace)',
      );
    case 'Expired':
      return attention(
        `no replica leads: ${holder ?? 'the holder'} ${renewedAt === undefined ? 'has never renewed it' : `has not renewed it since ${renewedAt}`}. Check the replicas`,
      );
    case 'Held':
    case 'Unknown':
      return [];
  }
}

const replicaAttention = ({ name, ready }: Replica): readonly Attention[] =>
  ready
    ? []
    : [{ part: 'leader', object: `Pod ${name}`, message: 'it is not ready: check its events and its log' }];
