import { memoizeWeak } from '../../json/json.ts';
import { record, records, text, texts } from '../../machinery/fields.ts';
import type { ApiObject } from '../../machinery/api-object.ts';
import { ApiFailure, forbidden, notFound } from '../../machinery/failure.ts';
import type { RequestInfo, ResourceRequest, UserInfo } from '../../machinery/request.ts';
import type { Place, Storage } from '../../machinery/storage/stored.ts';
import { accountUsername, MASTERS } from './authenticate.ts';

export type ResourceAttributes = Omit<ResourceRequest, 'verb' | 'version' | 'path'> & {
  readonly verb: string;
};

/** What a user requests permission for. A RequestInfo is one. */
export type Attributes = ResourceAttributes | Extract<RequestInfo, { kind: 'path' }>;

/** The 403 for a request without permission (responsewriters/errors.go). */
export function forbiddenFor(user: UserInfo, attributes: Attributes): ApiFailure {
  const message = escaped(refusal(user, attributes));
  return attributes.kind === 'path'
    ? new ApiFailure(403, 'Forbidden', `forbidden: ${message}`, {})
    : forbidden(attributes, attributes.name, message);
}

function refusal({ username }: UserInfo, attributes: Attributes): string {
  const cannot = `User ${JSON.stringify(username)} cannot ${attributes.verb}`;
  if (attributes.kind === 'path') return `${cannot} path ${JSON.stringify(attributes.path)}`;
  const { group, resource, subresource, namespace } = attributes;
  const combined = subresource === '' ? resource : `${resource}/${subresource}`;
  const scope = namespace === '' ? 'at the cluster scope' : `in the namespace ${JSON.stringify(namespace)}`;
  return `${cannot} resource ${JSON.stringify(combined)} in API group ${JSON.stringify(group)} ${scope}`;
}

/** Escapes user input, so that browsers do not interpret it as markup. */
const escaped = (text: string) =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');

/** A PolicyRule of rbac.authorization.k8s.io/v1; absent lists are empty. */
export type PolicyRule = ReturnType<typeof rulesOf>[number];

export const rulesOf = memoizeWeak((role: ApiObject) =>
  records(role, 'rules').map((rule) => ({
    verbs: texts(rule, 'verbs'),
    apiGroups: texts(rule, 'apiGroups'),
    resources: texts(rule, 'resources'),
    resourceNames: texts(rule, 'resourceNames'),
    nonResourceURLs: texts(rule, 'nonResourceURLs'),
  })),
);

/** @see kubernetes/pkg/apis/rbac/v1/evaluation_helpers.go */
function ruleAllows(rule: PolicyRule, attributes: Attributes): boolean {
  if (!includesOrAll(rule.verbs, attributes.verb)) return false;
  if (attributes.kind === 'path') {
    return rule.nonResourceURLs.some((url) => coversPath(url, attributes.path));
  }
  const { group, resource, subresource, name } = attributes;
  const names = subresource === '' ? [resource] : [`${resource}/${subresource}`, `*/${subresource}`];
  return (
    includesOrAll(rule.apiGroups, group) &&
    rule.resources.some((given) => given === '*' || names.includes(given)) &&
    (rule.resourceNames.length === 0 || rule.resourceNames.includes(name))
  );
}

/** Whether a nonResourceURL covers a path or another nonResourceURL: exactly, or up to its trailing stars. */
export function coversPath(url: string, path: string): boolean {
  return url === path || (url.endsWith('*') && path.startsWith(url.replace(/\*+$/, '')));
}

export const includesOrAll = (given: readonly string[], wanted: string) =>
  given.includes('*') || given.includes(wanted);

export const RBAC_GROUP = 'rbac.authorization.k8s.io';

export type Authorizer = ReturnType<typeof createAuthorizer>;

/** RBAC with the stored roles and bindings. `system:masters` can do everything. */
export function createAuthorizer(storage: Pick<Storage, 'get' | 'list' | 'watchAll'>) {
  const bindingsIn = bindingCache(storage);

  const findRules = ({ kind, name }: RoleRef, namespace: string) => {
    const role =
      kind === 'Role'
        ? storage.get(placeOf('roles'), { namespace, name })
        : storage.get(placeOf('clusterroles'), { namespace: '', name });
    return role === undefined ? undefined : rulesOf(role);
  };

  /** The rules that bindings grant in a namespace; cluster-wide if it is empty. */
  const rulesFor = (user: UserInfo, namespace: string): readonly PolicyRule[] =>
    (namespace === '' ? [''] : ['', namespace])
      .flatMap(bindingsIn)
      .filter(({ subjects }) => subjects.some((subject) => isSubject(user, subject)))
      .flatMap((binding) => findRules(binding.roleRef, binding.namespace) ?? []);

  return {
    /** @throws ApiFailure 404 if the role does not exist */
    roleRules: (roleRef: RoleRef, namespace: string) => {
      const rules = findRules(roleRef, namespace);
      if (rules === undefined) throw notFound(placeOf(`${roleRef.kind.toLowerCase()}s`), roleRef.name);
      return rules;
    },
    rulesFor,
    authorize: (user: UserInfo, attributes: Attributes): boolean =>
      user.groups.includes(MASTERS) ||
      rulesFor(user, attributes.kind === 'path' ? '' : attributes.namespace).some((rule) =>
        ruleAllows(rule, attributes),
      ),
  };
}

const placeOf = (resource: string): Place => ({ group: RBAC_GROUP, resource });

/** A RoleBinding, or a ClusterRoleBinding if the namespace is empty. */
type Binding = ReturnType<typeof bindingOf>;
type RoleRef = Binding['roleRef'];

/** Caches the bindings of each namespace ('' for cluster-wide) until one of them changes. */
function bindingCache({ list, watchAll }: Pick<Storage, 'list' | 'watchAll'>) {
  const cache = new Map<string, readonly Binding[]>();
  watchAll(({ group }, { object }) => {
    if (group === RBAC_GROUP) cache.delete(object.metadata.namespace ?? '');
  });
  return (namespace: string): readonly Binding[] => {
    const known = cache.get(namespace);
    if (known !== undefined) return known;
    const objects =
      namespace === ''
        ? list(placeOf('clusterrolebindings')).items
        : list(placeOf('rolebindings'), { namespace }).items;
    const bindings = objects.map(bindingOf);
    cache.set(namespace, bindings);
    return bindings;
  };
}

export function bindingOf(object: ApiObject) {
  const { namespace = '' } = object.metadata;
  const roleRef = record(object, 'roleRef') ?? {};
  return {
    namespace,
    roleRef: { kind: text(roleRef, 'kind'), name: text(roleRef, 'name') },
    subjects: records(object, 'subjects').map((subject) => {
      const kind = text(subject, 'kind');
      const own = text(subject, 'namespace');
      return {
        kind,
        name: text(subject, 'name'),
        /** The namespace of a ServiceAccount subject. Default: the binding's namespace. */
        namespace: kind === 'ServiceAccount' && own === '' ? namespace : own,
      };
    }),
  };
}

function isSubject(user: UserInfo, subject: Binding['subjects'][number]): boolean {
  switch (subject.kind) {
    case 'User':
      return user.username === subject.name;
    case 'Group':
      return user.groups.includes(subject.name);
    case 'ServiceAccount':
      return subject.namespace !== '' && user.username === accountUsername(subject);
    default:
      return false;
  }
}
