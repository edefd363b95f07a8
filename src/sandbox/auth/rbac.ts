import { record, records, text } from '../../machinery/fields.ts';
import type { ApiObject } from '../../machinery/api-object.ts';
import { notFound } from '../../machinery/failure.ts';
import type { UserInfo } from '../../machinery/request.ts';
import type { Place, Storage } from '../../machinery/storage/stored.ts';
import type { Attributes } from './attributes.ts';
import { ruleAllows, rulesOf, type PolicyRule } from './policy-rule.ts';
import { accountUsername, MASTERS } from './authenticate.ts';

export const RBAC_GROUP = 'rbac.authorization.k8s.io';

export interface Verdict {
  readonly allowed: boolean;
  /** The binding that allows the request, or the errors in the user's bindings; may be empty. */
  readonly reason: string;
}

export interface RoleRef {
  readonly kind: string;
  readonly name: string;
}

export interface HeldRules {
  readonly rules: readonly PolicyRule[];
  /** Roles that the user is bound to but that do not exist. */
  readonly missing: readonly RoleRef[];
}

export interface Authorizer {
  readonly authorize: (user: UserInfo, attributes: Attributes) => Verdict;
  /** All rules that bindings grant the user in a namespace, or cluster-wide if it is empty. */
  readonly rulesFor: (user: UserInfo, namespace: string) => HeldRules;
  /** @throws ApiFailure 404 if the role does not exist */
  readonly roleRules: (ref: RoleRef, namespace: string) => readonly PolicyRule[];
}

/** What one binding grants a user. */
type Grant =
  | { readonly kind: 'rules'; readonly rules: readonly PolicyRule[]; readonly source: () => string }
  | { readonly kind: 'missing'; readonly roleRef: RoleRef };

/**
 * Role-based access control with the stored roles and bindings. Members of `system:masters` may do everything.
 * @see kubernetes/plugin/pkg/auth/authorizer/rbac and pkg/registry/rbac/validation/rule.go
 */
export function createAuthorizer(storage: Pick<Storage, 'get' | 'list' | 'watchAll'>): Authorizer {
  const bindingsIn = bindingCache(storage);

  const findRole = ({ kind, name }: RoleRef, namespace: string) =>
    kind === 'Role'
      ? storage.get(placeOf('roles'), { namespace, name })
      : storage.get(placeOf('clusterroles'), { namespace: '', name });

  function* grantsFor(user: UserInfo, namespace: string): Generator<Grant> {
    for (const scope of namespace === '' ? [''] : ['', namespace]) {
      for (const binding of bindingsIn(scope)) {
        const subject = binding.subjects.find((one) => isSubject(user, one));
        if (subject !== undefined) yield grantOf(binding, subject);
      }
    }
  }

  const grantOf = (binding: Binding, subject: Subject): Grant => {
    const { roleRef } = binding;
    const role = findRole(roleRef, binding.namespace);
    if (role === undefined) return { kind: 'missing', roleRef };
    return { kind: 'rules', rules: rulesOf(role), source: () => describe(binding, subject) };
  };

  return {
    roleRules: (roleRef, namespace) => {
      const role = findRole(roleRef, namespace);
      if (role === undefined) throw notFound(placeOf(`${roleRef.kind.toLowerCase()}s`), roleRef.name);
      return rulesOf(role);
    },
    rulesFor: (user, namespace) => {
      const grants = [...grantsFor(user, namespace)];
      return {
        rules: grants.flatMap((grant) => (grant.kind === 'rules' ? grant.rules : [])),
        missing: grants.flatMap((grant) => (grant.kind === 'missing' ? [grant.roleRef] : [])),
      };
    },
    authorize: (user, attributes) => {
      if (user.groups.includes(MASTERS)) return { allowed: true, reason: '' };
      const missing: RoleRef[] = [];
      for (const grant of grantsFor(user, attributes.kind === 'path' ? '' : attributes.namespace)) {
        if (grant.kind === 'missing') missing.push(grant.roleRef);
        else if (grant.rules.some((rule) => ruleAllows(rule, attributes))) {
          return { allowed: true, reason: `RBAC: allowed by ${grant.source()}` };
        }
      }
      return { allowed: false, reason: missing.length === 0 ? '' : `RBAC: ${missingRoles(missing)}` };
    },
  };
}

/**
 * The missing roles without duplicates, printed like Go's aggregate errors. The authoriser reads a cache, whose
 * errors use the singular; the escalation check reads the storage, whose errors use the resource name.
 */
export function missingRoles(missing: readonly RoleRef[], plural = ''): string {
  const texts = missing.map(
    ({ kind, name }) => `${kind.toLowerCase()}${plural}.${RBAC_GROUP} ${JSON.stringify(name)} not found`,
  );
  const distinct = [...new Set(texts)];
  return distinct.length === 1 ? (distinct[0] ?? '') : `[${distinct.join(', ')}]`;
}

const placeOf = (resource: string): Place => ({ group: RBAC_GROUP, resource });

interface Subject {
  readonly kind: string;
  readonly name: string;
  /** The namespace of a ServiceAccount subject, which defaults to that of the binding. */
  readonly namespace: string;
}

/** A RoleBinding, or a ClusterRoleBinding if the namespace is empty. */
interface Binding {
  readonly name: string;
  readonly namespace: string;
  readonly roleRef: RoleRef;
  readonly subjects: readonly Subject[];
}

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

function bindingOf(object: ApiObject): Binding {
  const { name = '', namespace = '' } = object.metadata;
  const roleRef = record(object, 'roleRef') ?? {};
  return {
    name,
    namespace,
    roleRef: { kind: text(roleRef, 'kind'), name: text(roleRef, 'name') },
    subjects: records(object, 'subjects').map((subject) => {
      const kind = text(subject, 'kind');
      const own = text(subject, 'namespace');
      return {
        kind,
        name: text(subject, 'name'),
        namespace: kind === 'ServiceAccount' && own === '' ? namespace : own,
      };
    }),
  };
}

function isSubject(user: UserInfo, subject: Subject): boolean {
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

function describe(binding: Binding, subject: Subject): string {
  const [kind, name] =
    binding.namespace === ''
      ? ['ClusterRoleBinding', binding.name]
      : ['RoleBinding', `${binding.name}/${binding.namespace}`];
  const who = subject.kind === 'ServiceAccount' ? `${subject.name}/${subject.namespace}` : subject.name;
  const role = `${binding.roleRef.kind} ${JSON.stringify(binding.roleRef.name)}`;
  return `${kind} ${JSON.stringify(name)} of ${role} to ${subject.kind} ${JSON.stringify(who)}`;
}
