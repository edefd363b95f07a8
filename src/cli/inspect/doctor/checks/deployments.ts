/** Checks that the Deployments of both processes exist and run: two, or the one of `gatehouse serve`. */
import type { Deployment, DeploymentName } from '../../read-cluster/processes.ts';
import type { InstallationReadings } from '../../read-cluster/read-installation.ts';
import { judgeReading, logsOf, ok, podsOf, problem, warning, type Results } from '../finding.ts';

/** What stops without a ready replica. */
const WITHOUT: Readonly<Record<DeploymentName, string>> = {
  'gatehouse-webhook': 'governed requests are refused',
  'gatehouse-controllers': 'no certificate is renewed, no bundle is injected, and no restore is swept',
  gatehouse: 'governed requests are refused, and no certificate is renewed',
};

/** Gatehouse may run elsewhere, e.g. on a laptop: without a Deployment, there is no result. */
export const checkDeployments = ({ namespace, deployments }: InstallationReadings): Results =>
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
      ...(single && separate.length > 0 ? [leftOver(namespace)] : []),
    ];
  });

function judge(namespace: string, name: DeploymentName, { spec, status }: Deployment): Results {
  const wanted = spec?.replicas ?? 1;
  const ready = status?.readyReplicas ?? 0;
  const seen = `Deployment ${namespace}/${name}: ${ready} of ${wanted} replicas are ready`;
  if (ready === 0)
    return problem(`${seen}, so ${WITHOUT[name]}`, `${podsOf(namespace)}; ${logsOf(namespace)}`);
  return ready < wanted ? warning(seen, podsOf(namespace)) : ok(seen);
}

const leftOver = (namespace: string) =>
  warning(
    `Deployment ${namespace}/gatehouse runs both processes next to their own Deployments`,
    'when the own Deployments are ready, end the upgrade: docs/upgrading.md',
  );
