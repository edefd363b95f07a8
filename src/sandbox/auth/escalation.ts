import { isEqual } from '../../json/json.ts';
import { record, text } from '../../machinery/fields.ts';
import { withMeta, type ApiObject } from '../../machinery/api-object.ts';
import type { UserInfo } from '../../machinery/request.ts';
import type { ResourceAttributes } from './attributes.ts';
import { rulesOf, type PolicyRule } from './policy-rule.ts';
import { missingRoles, RBAC_GROUP, type Authorizer, type RoleRef } from './rbac.ts';
import { describeRules, goList, missingRules } from './rule-cover.ts';
import { MASTERS } from './authenticate.ts';

/**
 * Why `user` may not write this Role, ClusterRole or binding: it would grant permissions that the user does not have.
 * `old` is the stored object, undefined on create. Returns undefined if the write is allowed.
 *
 * @see kubernetes/pkg/registry/rbac, the policybased storages
 * @throws ApiFailure 404 if the role of a binding does not exist
 */
export function escalationProblem(
  authorizer: Authorizer,
  user: UserInfo,
  object: ApiObject,
  old: ApiObject | undefined,
): string | undefined {
  if (user.groups.includes(MASTERS)) return undefined;
  // The garbage collector must be able to update roles that exceed its own permissions.
  if (old !== undefined && sameButOwnership(object, old)) return undefined;
  switch (object.kind) {
    case 'Role':
    case 'ClusterRole':
      return roleProblem(authorizer, user, object, old);
    case 'RoleBinding':
    case 'ClusterRoleBinding':
      return bindingProblem(authorizer, user, object);
    default:
      return undefined;
  }
}

function sameButOwnership(object: ApiObject, old: ApiObject): boolean {
  const rest = (one: ApiObject) =>
    withMeta(one, { ownerReferences: undefined, finalizers: undefined, managedFields: undefined });
  return isEqual(rest(object), rest(old));
}

const EVERYTHING: readonly PolicyRule[] = [
  { verbs: ['*'], apiGroups: ['*'], resources: ['*'], resourceNames: [], nonResourceURLs: [] },
  { verbs: ['*'], apiGroups: [], resources: [], resourceNames: [], nonResourceURLs: ['*'] },
];

function roleProblem(
  authorizer: Authorizer,
  user: UserInfo,
  role: ApiObject,
  old: ApiObject | undefined,
): string | undefined {
  const { namespace = '', name = '' } = role.metadata;
  const escalate = attributesOf('escalate', role.kind, namespace, old === undefined ? '' : name);
  if (authorizer.authorize(user, escalate).allowed) return undefined;
  const problem = grantProblem(authorizer, user, namespace, rulesOf(role));
  if (problem !== undefined) return problem;
  const aggregates = [role, old].some(
    (one) => one !== undefined && record(one, 'aggregationRule') !== undefined,
  );
  // An aggregated role may acquire any rule.
  return aggregates && grantProblem(authorizer, user, '', EVERYTHING) !== undefined
    ? 'must have cluster-admin privileges to use the aggregationRule'
    : undefined;
}

function bindingProblem(authorizer: Authorizer, user: UserInfo, binding: ApiObject): string | undefined {
  const { namespace = '' } = binding.metadata;
  const given = record(binding, 'roleRef') ?? {};
  const roleRef: RoleRef = { kind: text(given, 'kind'), name: text(given, 'name') };
  const bind = attributesOf('bind', roleRef.kind, namespace, roleRef.name);
  if (authorizer.authorize(user, bind).allowed) return undefined;
  return grantProblem(authorizer, user, namespace, authorizer.roleRules(roleRef, namespace));
}

const attributesOf = (verb: string, kind: string, namespace: string, name: string): ResourceAttributes => ({
  kind: 'resource',
  verb,
  group: RBAC_GROUP,
  resource: kind === 'Role' ? 'roles' : 'clusterroles',
  subresource: '',
  namespace,
  name,
});

function grantProblem(
  authorizer: Authorizer,
  user: UserInfo,
  namespace: string,
  wanted: readonly PolicyRule[],
): string | undefined {
  const { rules, missing } = authorizer.rulesFor(user, namespace);
  const notHeld = missingRules(rules, wanted);
  if (notHeld.length === 0) return undefined;
  const who = `user ${JSON.stringify(user.username)} (groups=${goList(user.groups)})`;
  const unresolved = missing.length === 0 ? '' : `; resolution errors: [${missingRoles(missing, 's')}]`;
  return (
    `${who} is attempting to grant RBAC permissions not currently held:\n` +
    `${describeRules(notHeld).join('\n')}${unresolved}`
  );
}
