/** Whether policies may read a kind. Many policies need the same kinds, so answers are shared. */
import { isSecret } from '../../admission/policy/object-ref.ts';
import { groupResourceName, type GroupResource, type KubeObject } from '../../json/kube-object.ts';
import { listIn } from '../../json/json.ts';
import { memoizeAsync } from '../../json/memoize-async.ts';
import { canI, mayUser, type AccessQuestion, type AccessSubject } from '../../kube/access.ts';
import { insteadOf, isForbidden } from '../../kube/api-error.ts';
import type { KubeClient } from '../../kube/client.ts';
import { orAborted } from '../../json/abort.ts';
import type { Discovery } from '../../kube/discovery.ts';
import { placesOf, type Namespaces } from '../namespaces.ts';
import { clusterRoles } from '../../kube/well-known.ts';

export type ReadAccess = (resource: GroupResource, signal: AbortSignal) => Promise<boolean>;

/** In milliseconds: at start a replica compiles hundreds of policies, each with two kinds and three verbs. */
const FRESH_MS = 10_000;
const VERBS = ['get', 'list', 'watch'] as const;
const EVERYWHERE: readonly undefined[] = [undefined];

interface ReadPlaces {
  readonly discovery: Pick<Discovery, 'resolve'>;
  readonly namespaces: Namespaces;
}

/** Caches positive answers only: a missing ClusterRole may be created at any time. */
export function createReadAccess(
  client: Pick<KubeClient, 'create' | 'get'>,
  { discovery, namespaces }: ReadPlaces,
  now: () => number,
  webhookReplicas?: () => Promise<AccessSubject | undefined>,
): ReadAccess {
  const may = async (question: AccessQuestion) => {
    const account = await webhookReplicas?.();
    return (await canI(client, question)) && (account === undefined || mayUser(client, account, question));
  };
  const places = async (kind: GroupResource) => {
    const served = namespaces === undefined ? undefined : await discovery.resolve(kind);
    return served === undefined ? EVERYWHERE : placesOf(served, namespaces);
  };
  const readable = async (resource: GroupResource) =>
    (await mayRead(may, resource, await places(resource))) &&
    (!isSecret(resource) || (await namesSecrets(client)));
  const ttlOf = (allowed: boolean) => (allowed ? FRESH_MS : 0);
  const access = memoizeAsync(readable, groupResourceName, { now, ttlMs: FRESH_MS, ttlOf });
  return async (resource, signal) => {
    signal.throwIfAborted();
    return orAborted(access.read(resource), signal);
  };
}

export async function mayRead(
  may: (question: AccessQuestion) => Promise<boolean>,
  { group, resource }: GroupResource,
  places: readonly (string | undefined)[] = EVERYWHERE,
): Promise<boolean> {
  const questions = places.flatMap((namespace) =>
    VERBS.map((verb) => ({ verb, group, resource, namespace })),
  );
  const answers = await Promise.all(questions.map(may));
  return answers.every(Boolean);
}

/** The aggregated ClusterRole `gatehouse-references` collects the rules of ClusterRoles with this label. */
export const AGGREGATION_LABEL = 'gatehouse.dev/aggregate-to-references';
const AGGREGATED_ROLE = 'gatehouse-references';

/** Whether an administrator lets policies read Secrets: Gatehouse itself may. A wildcard rarely means Secrets. */
export async function namesSecrets(client: Pick<KubeClient, 'get'>, signal?: AbortSignal): Promise<boolean> {
  const role = await client
    .get<KubeObject>(clusterRoles, { name: AGGREGATED_ROLE }, { signal })
    .catch(insteadOf(isForbidden, undefined));
  return listIn(role, 'rules').some((rule) => {
    const verbs = listIn(rule, 'verbs');
    return (
      listIn(rule, 'apiGroups').includes('') &&
      listIn(rule, 'resources').includes('secrets') &&
      listIn(rule, 'resourceNames').length === 0 &&
      (verbs.includes('*') || VERBS.every((verb) => verbs.includes(verb)))
    );
  });
}

export function missingAccessMessage(policy: string, forbidden: readonly GroupResource[]): string {
  const kinds = forbidden.map(groupResourceName).join(', ');
  return `Gatehouse lacks permission to get, list and watch ${kinds}. Add this ClusterRole:\n${clusterRoleFor(policy, forbidden)}`;
}

export function clusterRoleFor(policy: string, kinds: readonly GroupResource[]): string {
  const byGroup = Map.groupBy(kinds, ({ group }) => group);
  const rules = [...byGroup].flatMap(([group, resources]) => [
    `  - apiGroups: [${JSON.stringify(group)}]`,
    `    resources: [${resources.map(({ resource }) => resource).join(', ')}]`,
    '    verbs: [get, list, watch]',
  ]);
  return aggregatedRole(`gatehouse-references-${policy}`, AGGREGATION_LABEL, rules);
}

export const aggregatedRole = (name: string, label: string, rules: readonly string[]): string =>
  [
    'apiVersion: rbac.authorization.k8s.io/v1',
    'kind: ClusterRole',
    'metadata:',
    `  name: ${name}`,
    '  labels:',
    `    ${label}: "true"`,
    'rules:',
    ...rules,
  ].join('\n');
