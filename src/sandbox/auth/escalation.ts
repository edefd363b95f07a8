import { isEqual } from '../../json/json.ts';
import { record } from '../../machinery/fields.ts';
import { withMeta, type ApiObject } from '../../machinery/api-object.ts';
import type { UserInfo } from '../../machinery/request.ts';
import { MASTERS } from './authenticate.ts';
import {
  bindingOf,
  coversPath,
  includesOrAll,
  RBAC_GROUP,
  rulesOf,
  type Authorizer,
  type PolicyRule,
  type ResourceAttributes,
} from './rbac.ts';

/** Why `user` cannot write this Role or binding: it grants permissions that the user lacks. */
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
  if (authorizer.authorize(user, escalate)) return undefined;
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
  const { namespace, roleRef } = bindingOf(binding);
  const bind = attributesOf('bind', roleRef.kind, namespace, roleRef.name);
  if (authorizer.authorize(user, bind)) return undefined;
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
  const held = authorizer.rulesFor(user, namespace);
  const notHeld = wanted.flatMap(breakDown).filter((atom) => !held.some((rule) => covers(rule, atom)));
  if (notHeld.length === 0) return undefined;
  const who = `user ${JSON.stringify(user.username)} (groups=${goList(user.groups)})`;
  const lines = new Set(notHeld.map(describe));
  return `${who} is attempting to grant RBAC permissions not currently held:\n${[...lines].sort().join('\n')}`;
}

const NOTHING = { apiGroups: [], resources: [], resourceNames: [], nonResourceURLs: [] };

function breakDown(rule: PolicyRule): readonly PolicyRule[] {
  const names = rule.resourceNames.length === 0 ? [[]] : rule.resourceNames.map((name) => [name]);
  return rule.verbs.flatMap((verb) => {
    const one = { ...NOTHING, verbs: [verb] };
    const resources = rule.apiGroups.flatMap((group) =>
      rule.resources.flatMap((resource) =>
        names.map((resourceNames) => ({ ...one, apiGroups: [group], resources: [resource], resourceNames })),
      ),
    );
    const paths = rule.nonResourceURLs.map((url) => ({ ...one, nonResourceURLs: [url] }));
    return [...resources, ...paths];
  });
}

function covers(held: PolicyRule, atom: PolicyRule): boolean {
  return (
    atom.verbs.every((verb) => includesOrAll(held.verbs, verb)) &&
    atom.apiGroups.every((group) => includesOrAll(held.apiGroups, group)) &&
    atom.resources.every((resource) => coversResource(held.resources, resource)) &&
    coversNames(held.resourceNames, atom.resourceNames) &&
    atom.nonResourceURLs.every((path) => held.nonResourceURLs.some((url) => coversPath(url, path)))
  );
}

function coversResource(held: readonly string[], resource: string): boolean {
  if (includesOrAll(held, resource)) return true;
  const slash = resource.indexOf('/');
  return slash !== -1 && held.includes(`*${resource.slice(slash)}`);
}

function coversNames(held: readonly string[], wanted: readonly string[]): boolean {
  return held.length === 0 || (wanted.length > 0 && wanted.every((name) => held.includes(name)));
}

function describe(rule: PolicyRule): string {
  const parts = [
    ['APIGroups', rule.apiGroups],
    ['Resources', rule.resources],
    ['NonResourceURLs', rule.nonResourceURLs],
    ['ResourceNames', rule.resourceNames],
    ['Verbs', rule.verbs],
  ] as const;
  const shown = parts.filter(([, values]) => values.length > 0);
  return `{${shown.map(([name, values]) => `${name}:${goList(values)}`).join(', ')}}`;
}

const goList = (values: readonly string[]) => `[${values.map((value) => JSON.stringify(value)).join(' ')}]`;
