/** Reads which of their permissions the ServiceAccounts of Gatehouse have. */
import type { AdmissionPolicy } from '../../../api/admission-policy.ts';
import { toGroupResource } from '../../../api/policy-match.ts';
import { groupResourceName, type GroupResource, type KubeObject } from '../../../json/kube-object.ts';
import { mapConcurrent } from '../../../json/map-concurrent.ts';
import { mayUser, type AccessQuestion } from '../../../kube/access.ts';
import type { KubeClient } from '../../../kube/client.ts';
import { governed } from '../../../runtime/policies/policy-kinds.ts';
import { tryToRead, type Permission, type Reading } from './reading.ts';

export interface ServiceAccount {
  readonly namespace: string;
  readonly serviceAccount: string;
}

/** Permissions that were checked, and those that are missing. */
export interface Access<Missing = AccessQuestion> {
  readonly checked: number;
  readonly missing: readonly Missing[];
}

type Client = Pick<KubeClient, 'create'>;

export const REVIEWS: Permission = { verb: 'create', resource: 'subjectaccessreviews.authorization.k8s.io' };
/** There are hundreds of short requests. With more concurrency, they only queue in the API server. */
const MAX_CONCURRENT_REVIEWS = 8;

/**
 * @param manifests that grant the permissions
 * @param needs the accounts in the manifests whose permissions this account needs
 */
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
  return await tryToRead(REVIEWS, async () => {
    const allowed = await areAllowed(client, account, questions);
    return { checked: questions.length, missing: questions.filter((_question, index) => !allowed[index]) };
  });
}

interface Rule {
  readonly apiGroups?: readonly string[];
  readonly resources?: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

/** The fields of the four kinds of RBAC that are used here. */
interface RbacObject extends KubeObject {
  readonly rules?: readonly Rule[];
  readonly roleRef?: { readonly kind: string; readonly name: string };
  readonly subjects?: readonly { readonly kind: string; readonly name: string }[];
}

/**
 * One question for each verb, resource and name that `manifests` grant to these accounts. So the permissions are listed
 * only once.
 *
 * @param namespace in which Roles apply
 */
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
  // Two accounts may need the same.
  return [...new Map(questions.map((question) => [JSON.stringify(question), question])).values()];
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

/** A kind that a policy governs or refers to. */
export interface GovernedKind extends GroupResource {
  /** The first policy that needs the kind. */
  readonly policy: string;
  /** Whether the policy cannot be enforced without it. Otherwise only the audit of existing objects needs it. */
  readonly needed: boolean;
}

const READ_VERBS = ['get', 'list', 'watch'];

export async function readGovernedAccess(
  client: Client,
  account: ServiceAccount,
  policies: Reading<readonly AdmissionPolicy[]>,
): Promise<Reading<Access<GovernedKind>>> {
  if (policies.kind === 'unread') return policies;
  const kinds = governedKinds(policies.value);
  return await tryToRead(REVIEWS, async () => {
    const questions = kinds.flatMap(({ group, resource }) =>
      READ_VERBS.map((verb) => ({ verb, group, resource })),
    );
    const allowed = await areAllowed(client, account, questions);
    const verbs = READ_VERBS.length;
    const missing = kinds.filter((_kind, index) =>
      allowed.slice(index * verbs, (index + 1) * verbs).includes(false),
    );
    return { checked: kinds.length, missing };
  });
}

/**
 * Each kind that policies govern or refer to, once. Without policies whose scope is refused, and without kinds that are not
 * served: a permission would help neither.
 */
export function governedKinds(policies: readonly AdmissionPolicy[]): readonly GovernedKind[] {
  const all = policies.filter(isHelpedByAccess).flatMap(({ metadata, spec }) => {
    const { references = [], unique = [] } = spec.validate ?? {};
    const policy = metadata.name ?? '';
    const needed = references.length > 0 || unique.length > 0;
    return [
      ...governed(spec).map((kind) => ({ ...kind, policy, needed })),
      ...references.map(({ target }) => ({ ...toGroupResource(target), policy, needed: true })),
    ];
  });
  const neededFirst = all.toSorted((a, b) => Number(b.needed) - Number(a.needed));
  return [...Map.groupBy(neededFirst, groupResourceName).values()].flatMap((same) => same.slice(0, 1));
}

const HOPELESS: readonly string[] = ['LockoutScope', 'UnknownKind', 'UnknownTarget'];

function isHelpedByAccess({ status }: AdmissionPolicy): boolean {
  const ready = status?.conditions?.find(({ type }) => type === 'Ready');
  return ready?.status !== 'False' || !HOPELESS.includes(ready.reason);
}

/** The answers in the order of the questions. */
export function areAllowed(
  client: Client,
  { namespace, serviceAccount }: ServiceAccount,
  questions: readonly AccessQuestion[],
): Promise<readonly boolean[]> {
  const subject = {
    username: `system:serviceaccount:${namespace}:${serviceAccount}`,
    uid: '',
    groups: ['system:serviceaccounts', `system:serviceaccounts:${namespace}`, 'system:authenticated'],
    extra: {},
  };
  return mapConcurrent(questions, MAX_CONCURRENT_REVIEWS, (question) => mayUser(client, subject, question));
}
