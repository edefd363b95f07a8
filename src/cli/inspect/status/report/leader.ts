/** Who leads, and which replicas there are. */
import type { LeaseObject } from '../../../../kube/lease-record.ts';
import type { KubeObject } from '../../../../json/kube-object.ts';
import { unreadOf, valueOf, type Reading, type Unread } from '../reading.ts';
import type { Attention, Judged } from './attention.ts';

export interface LeaderPart {
  readonly unread: readonly Unread[];
  /** `Held`; `Free`: given back or never taken; `Expired`: its holder has not renewed it; `Unknown`: not read. */
  readonly state: 'Held' | 'Free' | 'Expired' | 'Unknown';
  /** Who leads, or led last. */
  readonly holder?: string;
  /** RFC 3339, as the following. */
  readonly acquiredAt?: string;
  readonly renewedAt?: string;
  /** How often another replica took over. */
  readonly transitions?: number;
  /** The pods of Gatehouse, by name. Empty where it runs in no pod of this cluster. */
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

/** The fields of a Pod that matter here. */
export interface Pod extends KubeObject {
  readonly spec?: {
    readonly nodeName?: string;
    readonly containers?: readonly { readonly image?: string }[];
  };
  readonly status?: {
    readonly conditions?: readonly { readonly type: string; readonly status: string }[];
    readonly containerStatuses?: readonly { readonly restartCount?: number }[];
  };
}

interface LeaderReadings {
  readonly lease: Reading<LeaseObject | undefined>;
  readonly pods: Reading<readonly Pod[]>;
}

/** @param now by the clock of the API server */
export function leaderPart(
  { lease, pods }: LeaderReadings,
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
  // A time that cannot be read is no sign of life.
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
        'nobody leads: no certificate is renewed and no bundle injected. Look whether a replica of Gatehouse runs in this namespace (or choose another --namespace)',
      );
    case 'Expired':
      return attention(
        `nobody leads: ${holder ?? 'its holder'} has not renewed it since ${renewedAt ?? 'ever'}. Look at the replicas`,
      );
    case 'Held':
    case 'Unknown':
      return [];
  }
}

const replicaAttention = ({ name, ready }: Replica): readonly Attention[] =>
  ready
    ? []
    : [{ part: 'leader', object: `Pod ${name}`, message: 'it is not ready: see its events and its log' }];
