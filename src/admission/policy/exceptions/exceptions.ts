import { labelsOf } from '../object-metadata.ts';
import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import type { CompiledException, CompiledPolicy, Grants } from '../compiled-policy.ts';
import { matchesSelector, normaliseSelector } from '../../../json/label-selector.ts';
import { type Report, trySelector } from '../problem.ts';
import { quote } from '../../../json/printable.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import { isJsonObject, memoizeWeak, pick } from '../../../json/json.ts';
import type { GroupResource, KubeObject } from '../../../json/kube-object.ts';
import { NAMESPACES } from '../object-ref.ts';
import type { AdmissionContext, AuditContext } from '../world.ts';
import type { PolicyException } from '../../../api/policy-exception.ts';
import { toGroupResource } from '../../../api/policy-match.ts';
import type { Decision } from '../../review/decision.ts';

const CHECK_GROUPS = ['schema', 'immutable', 'references', 'unique', 'rules'] as const;

export function unknownCheck(check: string, { validate }: AdmissionPolicySpec): string | undefined {
  const { references = [], unique = [], rules = [] } = validate ?? {};
  const names: readonly (string | undefined)[] = [...references, ...unique, ...rules].map(({ name }) => name);
  if (names.includes(check) || CHECK_GROUPS.some((group) => group === check)) return undefined;
  return `${quote(check)} is not a check of this policy: write ${CHECK_GROUPS.join(', ')}, or the name of a rule`;
}

export function compileExceptions(spec: AdmissionPolicySpec, report: Report): readonly CompiledException[] {
  return (spec.exceptions ?? []).map((exception, index): CompiledException => {
    const where = `spec.exceptions[${index}]`;
    const { users, groups, namespaces, names, checks = [], objectSelector: labels } = exception;
    const objectSelector = trySelector(labels, `${where}.objectSelector`, report);
    for (const check of checks) {
      const problem = unknownCheck(check, spec);
      if (problem !== undefined) report(`${where}.checks`, problem);
    }
    if ([users, groups, namespaces, names, labels].every((part) => part === undefined))
      report(where, 'covers everything: say users, groups, namespaces, names or objectSelector');
    const expiresAt = exception.expiresAt === undefined ? undefined : Date.parse(exception.expiresAt);
    if (Number.isNaN(expiresAt)) {
      const message = `${quote(exception.expiresAt)} is not a time such as 2026-12-31T00:00:00Z`;
      report(`${where}.expiresAt`, message);
    }
    return { ...exception, expiresAt, objectSelector };
  });
}

export interface Exemption {
  /** By the name of a group of checks (`rules`) or of one check. */
  readonly covers: (group: string, name?: string) => boolean;
  readonly names: readonly string[];
}

const NONE: Exemption = { covers: () => false, names: [] };

type Excusable = Pick<
  AdmissionRequest,
  'userInfo' | 'resource' | 'namespace' | 'name' | 'object' | 'oldObject'
>;
type Excusing = Pick<CompiledPolicy, 'name' | 'exceptions' | 'grants'>;

/** @param context its `grants`, from a live read, replace the PolicyExceptions of the store */
export function exemptionOf(
  policy: Excusing,
  request: Excusable,
  { now, grants }: Pick<AuditContext, 'now' | 'grants'>,
): Exemption {
  const all = [...policy.exceptions, ...grantsFor(policy, request, grants)];
  if (all.length === 0) return NONE;
  const applying = all.filter(
    (one) => (one.expiresAt === undefined || now < one.expiresAt) && isSubject(one, request),
  );
  if (applying.length === 0) return NONE;
  return {
    covers: (group, name) =>
      applying.some(
        ({ checks }) =>
          checks === undefined || checks.includes(group) || (name !== undefined && checks.includes(name)),
      ),
    names: applying.map(({ name }) => name),
  };
}

/** Never for cluster-scoped objects: requests for a Namespace carry its own name as their namespace. */
function grantsFor(
  { name, grants }: Excusing,
  { resource: { group, resource }, namespace }: Excusable,
  live: Grants | undefined,
): readonly CompiledException[] {
  if (grants === undefined || namespace === undefined) return [];
  if (group === NAMESPACES.group && resource === NAMESPACES.resource) return [];
  return (live ?? grants)(name, namespace);
}

export const NO_USER = { username: '', uid: '', groups: [], extra: {} };

/** Exceptions that name users or groups do not apply: the next write may come from another user. */
export function exemptionOfStored(
  policy: Excusing,
  { group, resource }: GroupResource,
  object: KubeObject,
  now: number,
): Exemption {
  const { name, namespace } = object.metadata ?? {};
  const stored = {
    userInfo: NO_USER,
    namespace,
    name,
    resource: { group, version: '', resource },
    object: isJsonObject(object) ? object : undefined,
    oldObject: undefined,
  };
  return exemptionOf(policy, stored, { now });
}

export function isSubject(
  { users, groups, namespaces, names, resources, objectSelector }: CompiledException,
  { userInfo, resource, namespace, name, object, oldObject }: Excusable,
): boolean {
  return (
    (users === undefined || (userInfo.username !== '' && isListed(users, userInfo.username))) &&
    (groups === undefined || userInfo.groups.some((group) => groups.includes(group))) &&
    (namespaces === undefined || (namespace !== undefined && isListed(namespaces, namespace))) &&
    (names === undefined || (name !== undefined && isListed(names, name))) &&
    (resources === undefined ||
      resources.some((one) => one.group === resource.group && one.resource === resource.resource)) &&
    matchesSelector(objectSelector, labelsOf(object ?? oldObject))
  );
}

function isListed(patterns: readonly string[], text: string): boolean {
  return patterns.some((pattern) =>
    pattern.endsWith('*') ? text.startsWith(pattern.slice(0, -1)) : text === pattern,
  );
}

/** Undefined if its selector or its time is not valid. */
function compileGrant({ metadata, spec }: PolicyException): CompiledException | undefined {
  const { namespace, name = '' } = metadata;
  const { objects } = spec;
  const { selector, problems } = normaliseSelector(objects.objectSelector, 'spec.objects.objectSelector');
  const expiresAt = Date.parse(spec.expiresAt);
  if (namespace === undefined || problems.length > 0 || Number.isNaN(expiresAt)) return undefined;
  return {
    name: `${namespace}/${name}`,
    ...pick(spec, 'users', 'groups', 'checks'),
    expiresAt,
    namespaces: [namespace],
    names: objects.names,
    resources: objects.resources?.map(toGroupResource),
    objectSelector: selector,
  };
}

// PolicyExceptions: exceptions as objects, in the namespace of the objects that they exempt.

const subjectOf = (policy: string, namespace: string) => `${namespace}/${policy}`;

export const grantKey = ({ metadata, spec }: PolicyException): string =>
  subjectOf(spec.policy, metadata.namespace ?? '');

/** @param find the PolicyExceptions with this {@link grantKey} */
export function createGrants(find: (key: string) => readonly PolicyException[]): Grants {
  const grantOf = memoizeWeak(compileGrant);
  return (policy, namespace) => find(subjectOf(policy, namespace)).flatMap((one) => grantOf(one) ?? []);
}

export function grantsIn(exceptions: readonly PolicyException[]): Grants {
  const byKey = Map.groupBy(exceptions, grantKey);
  return createGrants((key) => byKey.get(key) ?? []);
}

export type GrantState =
  | { readonly kind: 'in-force' }
  | {
      readonly kind: 'void';
      readonly reason: 'Expired' | 'InvalidSpec' | 'NotAccepted' | 'UnknownCheck' | 'UnknownPolicy';
      readonly message: string;
    };

/** @param policy the version in force; undefined if there is none */
export function grantState(
  exception: PolicyException,
  policy: Pick<CompiledPolicy, 'spec'> | undefined,
  now: number,
): GrantState {
  const { spec } = exception;
  const isVoid = (reason: Extract<GrantState, { kind: 'void' }>['reason'], message: string): GrantState => ({
    kind: 'void',
    reason,
    message,
  });
  const grant = compileGrant(exception);
  if (grant?.expiresAt === undefined)
    return isVoid(
      'InvalidSpec',
      'spec.objects.objectSelector or spec.expiresAt is not valid: nothing is exempt',
    );
  if (now >= grant.expiresAt)
    return isVoid(
      'Expired',
      `spec.expiresAt: the exception expired at ${spec.expiresAt}; delete it or extend it`,
    );
  const name = quote(spec.policy);
  if (policy === undefined)
    return isVoid(
      'UnknownPolicy',
      `spec.policy: AdmissionPolicy ${name} not found or not in force; create it or fix the name`,
    );
  if (policy.spec.policyExceptions !== 'Accept')
    return isVoid(
      'NotAccepted',
      `spec.policy: AdmissionPolicy ${name} does not accept exceptions: its author can set policyExceptions: Accept`,
    );
  const wrong = spec.checks?.find((check) => unknownCheck(check, policy.spec) !== undefined);
  if (wrong !== undefined)
    return isVoid('UnknownCheck', `spec.checks: ${unknownCheck(wrong, policy.spec) ?? ''}`);
  return { kind: 'in-force' };
}

type Check = (
  request: AdmissionRequest,
  policies: readonly CompiledPolicy[],
  context: AdmissionContext,
) => Decision | Promise<Decision>;

/**
 * Reads PolicyExceptions live before a denial: the store may lack one that a user has just created.
 * @param namespaceOf the only namespace whose exceptions count; undefined: all
 */
export const confirmingExceptions =
  (check: Check, namespaceOf: (request: AdmissionRequest) => string | undefined): Check =>
  (request, policies, context) => {
    const { readGrants } = context.world;
    const accepting = policies.filter(
      ({ grants, enforcement }) => grants !== undefined && enforcement === 'Deny',
    );
    const first = check(request, policies, context);
    if (readGrants === undefined || accepting.length === 0) return first;
    const confirm = async (decision: Decision): Promise<Decision> => {
      if (decision.kind !== 'deny') return decision;
      const namespace = namespaceOf(request);
      let grants: Grants;
      try {
        grants = await readGrants(namespace, context.signal);
      } catch (cause) {
        return { kind: 'retry', message: 'could not read the PolicyExceptions: try again', cause };
      }
      const isExempt = ({ name }: CompiledPolicy) =>
        namespace === undefined || grants(name, namespace).length > 0;
      return accepting.some(isExempt) ? await check(request, policies, { ...context, grants }) : decision;
    };
    return first instanceof Promise ? first.then(confirm) : first.kind === 'deny' ? confirm(first) : first;
  };
