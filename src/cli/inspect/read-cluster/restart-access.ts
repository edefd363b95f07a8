/** Reads which workloads ask for restarts, and whether Gatehouse may restart them. */
import { keyOf, type KubeObject } from '../../../json/kube-object.ts';
import type { AccessQuestion } from '../../../kube/access.ts';
import type { KubeClient } from '../../../kube/client.ts';
import type { Resource } from '../../../kube/object.ts';
import { daemonSets, deployments, pods, replicaSets, statefulSets } from '../../../kube/well-known.ts';
import { RESTART_ON_RENEWAL } from '../../../pki/annotations.ts';
import { areAllowed, REVIEWS, type Access, type ServiceAccount } from './access.ts';
import { orEmpty, permissionTo, tryToRead, type Reading } from './reading.ts';

/** The workloads of a namespace that ask for restarts. */
export interface RestartPlace {
  readonly namespace: string;
  /** E.g. `Deployment shop/api`. */
  readonly workloads: readonly string[];
}

const WORKLOADS = [deployments, statefulSets, daemonSets];

/** `missing`: the namespaces with such workloads where Gatehouse lacks a permission. */
export async function readRestartAccess(
  client: Pick<KubeClient, 'create' | 'listAll'>,
  account: ServiceAccount,
): Promise<Reading<Access<RestartPlace>>> {
  const lists = await Promise.all(
    WORKLOADS.map(async (resource) => {
      const list = await tryToRead(permissionTo('list', resource), async () => {
        const { items } = await client.listAll(resource, { metadataOnly: true });
        return items.filter(asksForRestarts).map((object) => ({ resource, object }));
      });
      return orEmpty(list);
    }),
  );
  const found: Asking[] = [];
  for (const list of lists) {
    if (list.kind === 'unread') return list;
    found.push(...list.value);
  }
  return await tryToRead(REVIEWS, async () => {
    const places = [...Map.groupBy(found, ({ object }) => object.metadata?.namespace ?? '')];
    const missing = await Promise.all(
      places.map(async ([namespace, asking]) => {
        const resources = new Set(asking.map(({ resource }) => resource));
        const allowed = await areAllowed(client, account, questionsIn(namespace, resources));
        const workloads = asking.map(({ resource, object }) => `${resource.kind} ${keyOf(object)}`);
        return allowed.includes(false) ? [{ namespace, workloads }] : [];
      }),
    );
    return { checked: found.length, missing: missing.flat() };
  });
}

interface Asking {
  readonly resource: Resource;
  readonly object: KubeObject;
}

const asksForRestarts = ({ metadata }: KubeObject): boolean =>
  metadata?.annotations?.[RESTART_ON_RENEWAL] === 'true';

/** As in deploy/components/restarts. */
function questionsIn(namespace: string, resources: ReadonlySet<Resource>): readonly AccessQuestion[] {
  const may = (verb: string, { group, resource }: Resource) => ({ verb, group, resource, namespace });
  return [
    may('get', pods),
    ...(resources.has(deployments) ? [may('get', replicaSets)] : []),
    ...[...resources].flatMap((resource) => [may('get', resource), may('patch', resource)]),
  ];
}
