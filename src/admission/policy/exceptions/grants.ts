/** PolicyExceptions: exceptions as objects, in the namespace of the objects that they exempt. */
import type { PolicyException } from '../../../api/policy-exception.ts';
import { toGroupResource } from '../../../api/policy-match.ts';
import { normaliseSelector } from '../../../json/label-selector.ts';
import { quote } from '../../../json/printable.ts';
import type { CompiledException, CompiledPolicy, Grants } from '../compiled-policy.ts';
import { unknownCheck } from './exceptions.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import type { Decision } from '../../review/decision.ts';
import type { AdmissionContext } from '../world.ts';

/** Undefined if its selector or its time is not valid. */
function compileGrant({ metadata, spec }: PolicyException): CompiledException | undefined {
  const { namespace, name = '' } = metadata;
  const { objects, users, groups, checks } = spec;
  const { selector, problems } = normaliseSelector(objects.objectSelector, 'spec.objects.objectSelector');
  const expiresAt = Date.parse(spec.expiresAt);
  if (namespace === undefined || problems.length > 0 || Number.isNaN(expiresAt)) return undefined;
  return {
    name: `${namespace}/${name}`,
    ...{ expiresAt, users, groups, checks },
    namespaces: [namespace],
    names: objects.names,
    resources: objects.resources?.map(toGroupResource),
    objectSelector: selector,
  };
}

const subjectOf = (policy: string, namespace: string) => `${namespace}/${policy}`;

export const grantKey = ({ metadata, spec }: PolicyException): string =>
  subjectOf(spec.policy, metadata.namespace ?? '');

/** @param find the PolicyExceptions with this {@link grantKey} */
export function createGrants(find: (key: string) => readonly PolicyException[]): Grants {
  const compiled = new WeakMap<PolicyException, { readonly grant: CompiledException | undefined }>();
  const grantOf = (exception: PolicyException): CompiledException | undefined => {
    const known = compiled.get(exception) ?? { grant: compileGrant(exception) };
    compiled.set(exception, known);
    return known.grant;
  };
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
    ...{ reason, message },
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
