/** Reads which of their permissions the ServiceAccounts of Gatehouse have. */
import type { AdmissionPolicy } from '../../../api/admission-policy.ts';
import { toGroupResource } from '../../../api/policy-match.ts';
import { groupResourceName, type KubeObject, keyOf } from '../../../json/kube-object.ts';
import { mapConcurrent } from '../../../json/map-concurrent.ts';
import { uniqueBy } from '../../../json/json.ts';
import { mayUser, type AccessQuestion } from '../../../kube/access.ts';
import type { KubeClient } from '../../../kube/client.ts';
import { governed } from '../../../runtime/policies/policy-kinds.ts';
import {
  createReader,
  joinReadings,
  mapReading,
  orEmpty,
  tryToRead,
  type Permission,
  type Reading,
} from './reading.ts';
import type { Resource } from '../../../kube/object.ts';
import { daemonSets, deployments, pods, replicaSets, statefulSets } from '../../../kube/well-known.ts';
import { RESTART_ON_RENEWAL } from '../../../pki/annotations.ts';

interface ServiceAccount {
  readonly namespace: string;
  readonly serviceAccount: string;
}

export interface Access<Missing = AccessQuestion> {
  readonly checked: number;
  readonly missing: readonly Missing[];
}

type Client = Pick<KubeClient, 'create'>;

const REVIEWS: Permission = { verb: 'create', resource: 'subjectaccessreviews.authorization.k8s.io' };
/** There are hundreds of short requests. With more concurrency, they only queue in the API server. */
const MAX_CONCURRENT_REVIEWS = 8;

export async function readAccess(
  client: Client,
  account: ServiceAccount,
  manifests: readonly KubeObject[],
  needs: readonly string[],
): Promise<Reading<Access>> {
  const questions = shippedAccess(manifests, account.namespace, needs);
  if (questions.length === 0)
    return {
      kind: 'unread',
      reason: 'Failed',
      message: 'the folder deploy/, which lists the required permissions, is not part of this installation',
    };
  return mapReading(await deniedOf(client, account, questions), (missing) => ({
    checked: questions.length,
    missing,
  }));
}

interface Rule {
  readonly apiGroups?: readonly string[];
  readonly resources?: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

interface RbacObject extends KubeObject {
  readonly rules?: readonly Rule[];
  readonly roleRef?: { readonly kind: string; readonly name: string };
  readonly subjects?: readonly { readonly kind: string; readonly name: string }[];
}

/** One question for each verb, resource and name that `manifests` grant to these accounts. */
export function shippedAccess(
  manifests: readonly KubeObject[],
  namespace: string,
  accounts: readonly string[],
): readonly AccessQuestion[] {
  const objects: readonly RbacObject[] = manifests;
  const bindings = objects.filter(({ subjects = [] }) =>
    subjects.some(({ kind, name }) => kind === 'ServiceAccount' && accounts.includes(name)),
  );
  const questions = bindings.flatMap(({ kind: binding, roleRef }) => {
    const role = objects.find(
      ({ kind, metadata }) => kind === roleRef?.kind && metadata?.name === roleRef?.name,
    );
    const place = binding === 'RoleBinding' ? { namespace } : {};
    return (role?.rules ?? []).flatMap(questionsOf).map((question) => ({ ...question, ...place }));
  });
  return uniqueBy(questions, (question) => JSON.stringify(question));
}

function questionsOf({
  apiGroups = [],
  resources = [],
  resourceNames = [],
  verbs,
}: Rule): readonly AccessQuestion[] {
  const names = resourceNames.length === 0 ? [{}] : resourceNames.map((name) => ({ name }));
  return apiGroups.flatMap((group) =>
    resources.flatMap((path) => {
      const [resource = '', subresource] = path.split('/');
      const what = { group, resource, ...(subresource === undefined ? {} : { subresource }) };
      return verbs.flatMap((verb) => names.map((name) => ({ verb, ...what, ...name })));
    }),
  );
}

export type GovernedKind = ReturnType<typeof governedKinds>[number];

const READ_VERBS = ['get', 'list', 'watch'];

export async function readGovernedAccess(
  client: Client,
  account: ServiceAccount,
  policies: Reading<readonly AdmissionPolicy[]>,
): Promise<Reading<Access<GovernedKind>>> {
  if (policies.kind === 'unread') return policies;
  const kinds = governedKinds(policies.value);
  const questions = kinds.flatMap(({ group, resource }) =>
    READ_VERBS.map((verb) => ({ verb, group, resource })),
  );
  return mapReading(await deniedOf(client, account, questions), (denied) => {
    const names = new Set(denied.map(groupResourceName));
    return { checked: kinds.length, missing: kinds.filter((kind) => names.has(groupResourceName(kind))) };
  });
}

/** Each kind that policies govern or refer to, once; without those where a permission would not help. */
export function governedKinds(policies: readonly AdmissionPolicy[]) {
  const all = policies.filter(isHelpedByAccess).flatMap(({ metadata, spec }) => {
    const { references = [], unique = [] } = spec.validate ?? {};
    const policy = metadata.name ?? '';
    // Otherwise the policy can be enforced, and only the audit of existing objects needs the kinds.
    const needed = references.length > 0 || unique.length > 0;
    return [
      ...governed(spec).map((kind) => ({ ...kind, policy, needed })),
      ...references.map(({ target }) => ({ ...toGroupResource(target), policy, needed: true })),
    ];
  });
  const neededLast = all.toSorted((a, b) => Number(a.needed) - Number(b.needed));
  return uniqueBy(neededLast, groupResourceName);
}

const HOPELESS: readonly string[] = ['LockoutScope', 'UnknownKind', 'UnknownTarget'];

function isHelpedByAccess({ status }: AdmissionPolicy): boolean {
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  return ready?.status !== 'False' || !HOPELESS.includes(ready.reason);
}

function deniedOf(
  client: Client,
  { namespace, serviceAccount }: ServiceAccount,
  questions: readonly AccessQuestion[],
): Promise<Reading<readonly AccessQuestion[]>> {
  const subject = {
    username: `system:serviceaccount:${namespace}:${serviceAccount}`,
    uid: '',
    groups: ['system:serviceaccounts', `system:serviceaccounts:${namespace}`, 'system:authenticated'],
    extra: {},
  };
  return tryToRead(REVIEWS, async () => {
    const allowed = await mapConcurrent(questions, MAX_CONCURRENT_REVIEWS, (question) =>
      mayUser(client, subject, question),
    );
    return questions.filter((_question, index) => allowed[index] !== true);
  });
}

const WORKLOADS = [deployments, statefulSets, daemonSets];

/** `missing`: the namespaces with such workloads where Gatehouse lacks a permission. */
export async function readRestartAccess(
  client: Pick<KubeClient, 'create' | 'get' | 'listAll'>,
  account: ServiceAccount,
) {
  const { list } = createReader(client);
  const lists = await Promise.all(
    WORKLOADS.map(async (resource) =>
      mapReading(orEmpty(await list(resource, { metadataOnly: true })), (items) =>
        items
          .filter(({ metadata }) => metadata?.annotations?.[RESTART_ON_RENEWAL] === 'true')
          .map((object) => ({ resource, object })),
      ),
    ),
  );
  const found = joinReadings(lists);
  if (found.kind === 'unread') return found;
  const places = [...Map.groupBy(found.value, ({ object }) => object.metadata?.namespace ?? '')];
  const missing = await Promise.all(
    places.map(async ([namespace, asking]) => {
      const resources = new Set(asking.map(({ resource }) => resource));
      const workloads = asking.map(({ resource, object }) => `${resource.kind} ${keyOf(object)}`);
      return mapReading(await deniedOf(client, account, questionsIn(namespace, resources)), (denied) =>
        denied.length > 0 ? [{ namespace, workloads }] : [],
      );
    }),
  );
  return mapReading(joinReadings(missing), (all) => ({ checked: found.value.length, missing: all }));
}

/** As in deploy/components/restarts. */
function questionsIn(namespace: string, resources: ReadonlySet<Resource>): readonly AccessQuestion[] {
  const may = (verb: string, { group, resource }: Resource) => ({ verb, group, resource, namespace });
  return [
    may('get', pods),
    ...(resources.has(deployments) ? [may('get', replicaSets)] : []),
    ...[...resources].flatMap((resource) => [may('get', resource), may('patch', resource)]),
  ];
}
