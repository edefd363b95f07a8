import type { LeaseObject } from '../../../../kube/lease/lease-record.ts';
import { unreadOf, valueOf, type Problems } from '../../read-cluster/reading.ts';
import { waitingFor, type ClusterReadings, type Pod } from '../../read-cluster/read-cluster.ts';
import type { DeploymentName } from '../../read-cluster/read-installation.ts';

type Replica = ReturnType<typeof replicaOf>;
type LeaderState = 'Held' | 'Free' | 'Expired' | 'Unknown';

export function leaderPart(
  { lease, pods }: Pick<ClusterReadings, 'lease' | 'pods'>,
  namespace: string,
  now: Date,
) {
  const what = `Lease ${namespace}/gatehouse`;
  const { holderIdentity = '', acquireTime, renewTime, leaseTransitions } = valueOf(lease)?.spec ?? {};
  const state: LeaderState = lease.kind === 'unread' ? 'Unknown' : leaseState(lease.value, now);
  const replicas = (valueOf(pods) ?? [])
    .map((pod) => replicaOf(pod, state === 'Held' ? holderIdentity : undefined))
    .toSorted((a, b) => (a.name < b.name ? -1 : 1));
  const part = {
    unread: [...unreadOf(what, lease), ...unreadOf(`Pods in ${namespace}`, pods)],
    state,
    holder: holderIdentity === '' ? undefined : holderIdentity,
    acquiredAt: acquireTime,
    renewedAt: renewTime,
    transitions: leaseTransitions,
    replicas,
  };
  const problems = [
    ...leaseProblems(state, part.holder ?? 'the holder', renewTime, what),
    ...missingProcesses(replicas, namespace),
    ...replicas.flatMap(replicaProblems),
  ];
  return { part, problems };
}

export function leaseState(lease: LeaseObject | undefined, now: Date): LeaderState {
  const { holderIdentity = '', renewTime, leaseDurationSeconds = 12 } = lease?.spec ?? {};
  if (holderIdentity === '') return 'Free';
  const end = new Date(renewTime ?? Number.NaN).getTime() + leaseDurationSeconds * 1_000;
  return now.getTime() <= end ? 'Held' : 'Expired';
}

function replicaOf(pod: Pod, leader: string | undefined) {
  const { metadata, spec, status } = pod;
  const { name = '' } = metadata ?? {};
  const { nodeName, containers: [{ image } = {}] = [] } = spec ?? {};
  const { conditions = [], containerStatuses = [] } = status ?? {};
  const component = metadata?.labels?.['app.kubernetes.io/component'];
  return {
    name,
    process: component === 'webhook' || component === 'controllers' ? component : ('serve' as const),
    ready: conditions.some(({ type, status: is }) => type === 'Ready' && is === 'True'),
    leads: name === leader,
    node: nodeName,
    image,
    waiting: waitingFor(pod),
    restarts: containerStatuses.reduce((sum, { restartCount = 0 }) => sum + restartCount, 0),
  };
}

export const WITHOUT_DEPLOYMENT: Readonly<Record<DeploymentName, string>> = {
  'gatehouse-webhook': 'governed requests are refused',
  'gatehouse-controllers': 'no certificate is renewed, no bundle is injected, and no restore is swept',
  gatehouse: 'governed requests are refused, and no certificate is renewed',
};

/** A process without a pod. Without any pod, Gatehouse runs elsewhere. */
function missingProcesses(replicas: readonly Replica[], namespace: string): Problems {
  if (replicas.length === 0 || replicas.some(({ process }) => process === 'serve')) return [];
  return (['webhook', 'controllers'] as const)
    .filter((wanted) => replicas.every(({ process }) => process !== wanted))
    .map((wanted) => ({
      object: `Deployment ${namespace}/gatehouse-${wanted}`,
      message: `no replica runs, so ${WITHOUT_DEPLOYMENT[`gatehouse-${wanted}`]}: check its events`,
    }));
}

function leaseProblems(
  state: LeaderState,
  holder: string,
  renewedAt: string | undefined,
  object: string,
): Problems {
  if (state === 'Held' || state === 'Unknown') return [];
  const since = renewedAt === undefined ? 'has never renewed it' : `has not renewed it since ${renewedAt}`;
  const message =
    state === 'Free'
      ? 'no replica leads, so no certificate is renewed and no bundle is injected: check that Gatehouse runs in this namespace (or choose another --namespace)'
      : `no replica leads: ${holder} ${since}. Check the replicas`;
  return [{ object, message }];
}

const replicaProblems = ({ name, ready, waiting = 'check its events and its log' }: Replica): Problems =>
  ready ? [] : [{ object: `Pod ${name}`, message: `it is not ready: ${waiting}` }];
