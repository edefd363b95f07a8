/**
 * The workload of a pod. Tenants write EndpointSlices, pods and owner references, so each link is read from the API server
 * and checked in both directions. Owner references lead only to objects of the same namespace.
 */
import type { KubeObject } from '../../json/kube-object.ts';
import { matchesSelector, normaliseSelector } from '../../json/label-selector.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Resource } from '../../kube/object.ts';
import { daemonSets, deployments, pods, replicaSets, statefulSets } from '../../kube/well-known.ts';
import type { Workload } from './restart-plan.ts';

interface Pod extends KubeObject {
  readonly status?: { readonly podIP?: string; readonly podIPs?: readonly { readonly ip?: string }[] };
}

interface SelectingService extends KubeObject {
  readonly spec?: { readonly selector?: Readonly<Record<string, string>> };
}

export interface FoundWorkload {
  readonly resource: Resource;
  readonly workload: Workload;
}

/**
 * Undefined if the pod does not serve this Service at this address, or if no such workload controls it.
 * @param createdBefore a younger pod may have replaced the one that answered
 */
export async function workloadOf(
  client: Pick<KubeClient, 'get'>,
  service: SelectingService,
  server: { readonly pod: string; readonly address: string },
  createdBefore: Date,
  signal: AbortSignal,
): Promise<FoundWorkload | undefined> {
  const { namespace = '' } = service.metadata ?? {};
  const pod = await client.get<Pod>(pods, { namespace, name: server.pod }, { signal });
  const { labels = {}, creationTimestamp = '', deletionTimestamp } = pod?.metadata ?? {};
  if (deletionTimestamp !== undefined || !(Date.parse(creationTimestamp) < createdBefore.getTime()))
    return undefined;
  const { podIP, podIPs = [] } = pod?.status ?? {};
  const isAt = [podIP, ...podIPs.map(({ ip }) => ip)].includes(server.address);
  if (!isAt || !isSelected({ matchLabels: service.spec?.selector ?? {} }, labels)) return undefined;

  let child: KubeObject | undefined = pod;
  while (child !== undefined) {
    const owner = child.metadata?.ownerReferences?.find(({ controller }) => controller === true);
    const resource = OWNERS.find(({ kind }) => owner?.kind === kind && owner.apiVersion === 'apps/v1');
    if (owner === undefined || resource === undefined) return undefined;
    const workload = await client.get<Workload>(resource, { namespace, name: owner.name }, { signal });
    if (workload?.metadata?.uid !== owner.uid || !isSelected(workload.spec?.selector, labels))
      return undefined;
    if (resource !== replicaSets) return { resource, workload };
    child = child === pod ? workload : undefined;
  }
  return undefined;
}

const OWNERS: readonly Resource[] = [replicaSets, deployments, statefulSets, daemonSets];

/** An empty selector is that of a Service without one, whose endpoints users write: it selects nothing here. */
function isSelected(selector: unknown, labels: Readonly<Record<string, string>>): boolean {
  const { selector: normal, problems } = normaliseSelector(selector, 'spec.selector');
  return problems.length === 0 && Object.keys(normal).length > 0 && matchesSelector(normal, labels);
}
