/** Checks that the processes run, one leads, the clocks agree, and the leader may restart workloads. */
import { someOf } from '../../../../json/counted.ts';
import type {
  Deployment,
  DeploymentName,
  InstallationReadings,
} from '../../read-cluster/read-installation.ts';
import { docsUrl } from '../../../../config/version.ts';
import { APPLY_MANIFESTS } from '../../../deploy-manifests.ts';
import { waitingFor, type Pod } from '../../read-cluster/read-cluster.ts';
import { valueOf } from '../../read-cluster/reading.ts';
import { leaseState, WITHOUT_DEPLOYMENT } from '../../status/report/leader.ts';
import { WARN_SKEW_MS } from '../../../../runtime/clock-skew.ts';
import {
  judgeReading,
  logsOf,
  ok,
  orElse,
  podsOf,
  problem,
  unknown,
  warning,
  type Results,
} from '../finding.ts';

/** No result without a Deployment: Gatehouse possibly runs elsewhere. */
export const checkDeployments = ({ namespace, deployments, pods }: InstallationReadings): Results =>
  judgeReading(deployments, (live) => {
    const [webhook, controllers] = ['gatehouse-webhook', 'gatehouse-controllers'] as const;
    const single = live.has('gatehouse');
    const separate = [webhook, controllers].filter((name) => live.has(name));
    const missing =
      separate.length === 1 && !single ? [webhook, controllers].filter((name) => !live.has(name)) : [];
    return [
      ...missing.map((name) =>
        problem(
          `Deployment ${namespace}/${name} does not exist: ${WITHOUT_DEPLOYMENT[name]}`,
          APPLY_MANIFESTS,
        ),
      ),
      ...[...live].flatMap(([name, deployment]) => judge(namespace, name, deployment)),
      ...(valueOf(pods) ?? []).flatMap((pod) => judgePod(namespace, pod)),
      ...(single && separate.length > 0
        ? [
            warning(
              `Deployment ${namespace}/gatehouse runs both processes, and their separate Deployments exist`,
              `when the separate Deployments are ready, finish the upgrade: ${docsUrl('installing.md')}`,
            ),
          ]
        : []),
    ];
  });

function judge(
  namespace: string,
  name: DeploymentName,
  { metadata, spec, status = {} }: Deployment,
): Results {
  const wanted = spec?.replicas ?? 1;
  const { readyReplicas: ready = 0, updatedReplicas: updated = 0, observedGeneration = 0 } = status;
  const what = `Deployment ${namespace}/${name}`;
  if (wanted === 0)
    return problem(
      `${what} is scaled to 0, so ${WITHOUT_DEPLOYMENT[name]}`,
      `kubectl -n ${namespace} scale deployment ${name} --replicas=2`,
    );
  const seen = `${what}: ${ready} of ${wanted} replicas are ready`;
  if (ready === 0)
    return problem(`${seen}, so ${WITHOUT_DEPLOYMENT[name]}`, `${podsOf(namespace)}; ${logsOf(namespace)}`);
  const progress = status.conditions?.find(({ type }) => type === 'Progressing');
  if (progress?.status === 'False')
    return problem(
      `${what}: the new version does not become ready: ${progress.message ?? progress.reason ?? ''}`,
      `${podsOf(namespace)}; kubectl -n ${namespace} rollout undo deployment ${name} rolls back`,
    );
  if (updated < wanted || observedGeneration < (metadata?.generation ?? 0))
    return warning(
      `${what}: the new version is not rolled out: ${updated} of ${wanted} replicas have it`,
      `kubectl -n ${namespace} rollout status deployment ${name}`,
    );
  return ready < wanted ? warning(seen, podsOf(namespace)) : ok(seen);
}

function judgePod(namespace: string, pod: Pod): Results {
  const why = waitingFor(pod);
  const { name = '' } = pod.metadata ?? {};
  return why === undefined
    ? []
    : problem(
        `Pod ${namespace}/${name} does not start: ${why}`,
        `kubectl -n ${namespace} describe pod ${name}`,
      );
}

export const checkLeader = ({ lease, namespace, now }: InstallationReadings): Results =>
  judgeReading(lease, (live) => {
    const { holderIdentity = '', renewTime } = live?.spec ?? {};
    const name = `Lease ${namespace}/gatehouse`;
    const next = `${podsOf(namespace)}; ${logsOf(namespace)}`;
    if (live === undefined)
      return problem(`${name} does not exist: no replica has ever led in this namespace`, next);
    const state = leaseState(live, now);
    if (state === 'Free') return problem(`no replica holds the ${name}`, next);
    if (state === 'Held') return ok(`${holderIdentity} leads`);
    const renewed =
      renewTime === undefined
        ? 'has never renewed it'
        : `last renewed it ${seconds(now.getTime() - Date.parse(renewTime))} ago`;
    const seen = `${holderIdentity} holds the ${name} and ${renewed}: it has stopped, cannot reach the API server, or its clock is behind`;
    return problem(seen, next);
  });

export const checkClocks = ({ skewMs, lease, now }: InstallationReadings): Results =>
  [localClock(skewMs), leaderClock(valueOf(lease)?.spec?.renewTime, now)].flat();

function localClock(skewMs: number | undefined): Results {
  if (skewMs === undefined)
    return unknown(
      'the responses of the API server lack a date',
      'check whether a proxy removes the Date header',
    );
  if (Math.abs(skewMs) <= WARN_SKEW_MS) return ok('the clocks of this machine and the API server agree');
  return warning(
    `the clock of this machine is ${seconds(skewMs)} ${skewMs > 0 ? 'ahead of' : 'behind'} the API server`,
    'synchronise it (timedatectl set-ntp true): client certificates and the times in reports depend on it',
  );
}

/** Reports only a clock that is ahead. If it is behind, the Lease looks stale, which the check `leader` reports. */
function leaderClock(renewTime: string | undefined, now: Date): Results {
  const aheadMs = renewTime === undefined ? 0 : Date.parse(renewTime) - now.getTime();
  if (aheadMs <= WARN_SKEW_MS) return [];
  return warning(
    `the clock of the leader is ${seconds(aheadMs)} ahead of the API server`,
    'synchronise the clock of its node; the metric gatehouse_clock_skew_seconds shows the skew of each replica',
  );
}

const seconds = (ms: number): string => `${Math.round(Math.abs(ms) / 1_000)} s`;

/** Without the permissions, the leader cannot read the annotation, so it cannot report them with an Event. */
export const checkRestarts = ({ restarts, namespace, controllers }: InstallationReadings): Results =>
  judgeReading(restarts, ({ checked, missing }) => {
    const findings = missing.map((place) =>
      warning(
        `the ServiceAccount ${namespace}/${controllers} lacks permission to restart ${someOf(place.workloads)} after a renewal`,
        `kubectl -n ${place.namespace} create rolebinding gatehouse-restarts --clusterrole=gatehouse-restarts ` +
          `--serviceaccount=${namespace}:${controllers}; the ClusterRole is in deploy/components/restarts`,
      ),
    );
    const all =
      checked === 1
        ? 'the workload that asks for restarts'
        : `all ${checked} workloads that ask for restarts`;
    return orElse(
      findings,
      ok(checked === 0 ? 'no workload asks for restarts' : `Gatehouse may restart ${all}`),
    );
  });
