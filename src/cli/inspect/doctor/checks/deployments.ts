/** Checks that the Deployments of both processes exist and run: two, or the one of `gatehouse serve`. */
import type { Deployment, DeploymentName } from '../../read-cluster/processes.ts';
import { waitingFor, type Pod } from '../../read-cluster/read-cluster.ts';
import { valueOf } from '../../read-cluster/reading.ts';
import type { InstallationReadings } from '../../read-cluster/read-installation.ts';
import { judgeReading, logsOf, ok, podsOf, problem, warning, type Results } from '../finding.ts';

/** What stops without a ready replica. */
const WITHOUT: Readonly<Record<DeploymentName, string>> = {
  'gatehouse-webhook': 'governed requests are refused',
  'gatehouse-controllers': 'no certificate is renewed, no bundle is injected, and no restore is swept',
  gatehouse: 'governed requests are refused, and no certificate is renewed',
};

/** Gatehouse may run elsewhere, e.g. on a laptop: without a Deployment, there is no result. */
export const checkDeployments = ({ namespace, deployments, cluster }: InstallationReadings): Results =>
  judgeReading(deployments, (live) => {
    const [webhook, controllers] = ['gatehouse-webhook', 'gatehouse-controllers'] as const;
    const single = live.has('gatehouse');
    const separate = [webhook, controllers].filter((name) => live.has(name));
    const missing =
      separate.length === 1 && !single ? [webhook, controllers].filter((name) => !live.has(name)) : [];
    return [
      ...missing.map((name) =>
        problem(
          `Deployment ${namespace}/${name} does not exist: ${WITHOUT[name]}`,
          'kubectl apply -k deploy',
        ),
      ),
      ...[...live].flatMap(([name, deployment]) => judge(namespace, name, deployment)),
      ...(valueOf(cluster.pods) ?? []).flatMap((pod) => judgePod(namespace, pod)),
      ...(single && separate.length > 0 ? [leftOver(namespace)] : []),
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
      `${what} is scaled to 0, so ${WITHOUT[name]}`,
      `kubectl -n ${namespace} scale deployment ${name} --replicas=2`,
    );
  const seen = `${what}: ${ready} of ${wanted} replicas are ready`;
  if (ready === 0)
    return problem(`${seen}, so ${WITHOUT[name]}`, `${podsOf(namespace)}; ${logsOf(namespace)}`);
  const progress = status.conditions?.find(({ type }) => type === 'Progressing');
  if (progress?.status === 'False')
    return problem(
      `${what}: the new version does not become ready: ${progress.message ?? progress.reason ?? ''}`,
      `${podsOf(namespace)}; kubectl -n ${namespace} rollout undo deployment ${name} goes back to the version before`,
    );
  if (updated < wanted || observedGeneration < (metadata?.generation ?? 0))
    return warning(
      `${what}: the new version is not everywhere: ${updated} of ${wanted} replicas have it`,
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

const leftOver = (namespace: string) =>
  warning(
    `Deployment ${namespace}/gatehouse runs both processes next to their own Deployments`,
    'when the own Deployments are ready, end the upgrade: docs/upgrading.md',
  );
