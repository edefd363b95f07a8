import type { CelAuthorize } from '../../cel/library/authorizer.ts';
import { CelError } from '../../cel/cel.ts';
import type { JsonObject } from '../../json/json.ts';
import type { ApiObject } from '../api-object.ts';
import type { ConvertObjects } from '../crd/convert.ts';
import { section, spec, text, texts } from '../fields.ts';
import { ApiFailure } from '../failure.ts';
import type { Notes, UserInfo } from '../request.ts';
import type { ResourceRegistry } from '../resource-type.ts';
import type { Storage } from '../storage/stored.ts';
import type { AdmissionAttributes } from '../webhooks/admission-review.ts';
import { questionIn } from '../webhooks/call-hook.ts';
import { compilePolicy, type PolicyExpressions } from './compile-policy.ts';
import { evaluatePolicy, type Evaluated, type Failure } from './evaluate-policy.ts';
import { criteriaMatch, criteriaOf, isExemptFromPolicies, type PolicyCriteria } from './policy-match.ts';
import { paramsOf, type BrokenParams } from './policy-params.ts';

/** What admission policies are evaluated with. */
export interface PolicyAdmission {
  readonly registry: ResourceRegistry;
  readonly storage: Storage;
  readonly convert: ConvertObjects;
  readonly newUid: () => string;
  /** Absent: expressions cannot ask the authorizer. */
  readonly authorizerOf?: (user: UserInfo) => CelAuthorize;
}

const GROUP = 'admissionregistration.k8s.io';
const CODES: Readonly<Record<string, number>> = { Forbidden: 403, Invalid: 422, RequestEntityTooLarge: 413 };
const AUDIT_KEY = 'validation.policy.admission.k8s.io/validation_failure';

/** As in dispatcher.go: further failures are not audited. */
const MOST_AUDITED = 50;

interface Denial extends Failure {
  readonly policy: string;
  /** Undefined: the policy itself cannot be evaluated. */
  readonly binding: string | undefined;
}

/**
 * Evaluates the stored ValidatingAdmissionPolicies, as k8s.io/apiserver/pkg/admission/plugin/policy does.
 */
export function createPolicyAdmission(api: PolicyAdmission) {
  const stored = (resource: string) => api.storage.list({ group: GROUP, resource }).items;
  return {
    /** @throws ApiFailure for the first failure whose binding denies */
    validate: async (attributes: AdmissionAttributes, notes: Notes): Promise<void> => {
      if (isExemptFromPolicies(attributes.type)) return;
      const policies = new Map(
        stored('validatingadmissionpolicies').map((policy) => [policy.metadata.name, policy]),
      );
      if (policies.size === 0) return;
      const denials: Denial[] = [];
      const audited: JsonObject[] = [];
      const annotations = new Map<string, Set<string>>();
      for (const binding of stored('validatingadmissionpolicybindings')) {
        const policy = policies.get(text(spec(binding), 'policyName'));
        if (policy === undefined) continue;
        const applied = await applyBinding(api, policy, binding, attributes, notes);
        denials.push(...applied.denials);
        audited.push(...applied.audited);
        for (const [key, value] of applied.annotations)
          annotations.set(key, (annotations.get(key) ?? new Set()).add(value));
      }
      for (const [key, values] of annotations) notes.annotate(key, [...values].join(', '));
      if (audited.length > 0) notes.annotate(AUDIT_KEY, JSON.stringify(audited.slice(0, MOST_AUDITED)));
      const [first] = denials;
      if (first !== undefined) throw refusal(attributes, first);
    },
  };
}

interface Applied {
  /** What refuses the request. */
  readonly denials: readonly Denial[];
  /** Failures for the one audit annotation of the request; before 1.37, it held the first of them only. */
  readonly audited: readonly JsonObject[];
  /** Audit annotations, which other bindings of the policy may give other values. */
  readonly annotations: Evaluated['auditAnnotations'];
}

const NOTHING: Applied = { denials: [], audited: [], annotations: [] };

/** Warns. */
async function applyBinding(
  api: PolicyAdmission,
  policy: ApiObject,
  binding: ApiObject,
  attributes: AdmissionAttributes,
  notes: Notes,
): Promise<Applied> {
  const compiled = compiledPolicy(policy);
  const seen = criteriaMatch(compiled.match, attributes, api);
  if (seen === undefined) return NOTHING;
  const narrowed = criteriaOf(section(binding, 'spec', 'matchResources'));
  if (criteriaMatch(narrowed, attributes, api) === undefined) return NOTHING;
  const names = { policy: policy.metadata.name ?? '', binding: binding.metadata.name ?? '' };
  const { user, namespace } = attributes;
  const found = await paramsOf(spec(policy), spec(binding), namespace, api);
  if (found.kind === 'broken')
    return compiled.ignoresFailures ? NOTHING : { ...NOTHING, denials: [brokenDenial(found, names)] };
  const question = await questionIn(api, seen, attributes);
  const namespaceObject = namespaceOf(attributes, api);
  const authorize = api.authorizerOf?.(user) ?? noAuthorizer;
  const evaluated = found.params.map((params) =>
    evaluatePolicy(compiled, question, namespaceObject, authorize, params),
  );
  const failures = evaluated.flatMap((one) => one.failures);
  const actions = texts(spec(binding), 'validationActions');
  if (actions.includes('Warn')) for (const failure of failures) notes.warn(warning(failure, names));
  const refusing = evaluated.flatMap((one) => [
    ...(actions.includes('Deny') ? one.failures : []),
    ...one.auditErrors,
  ]);
  return {
    denials: refusing.map((failure) => ({ ...failure, ...names })),
    audited: actions.includes('Audit') ? failures.map((failure) => auditJson(failure, names, actions)) : [],
    annotations: evaluated
      .flatMap((one) => one.auditAnnotations)
      .map(([key, value]) => [`${names.policy}/${key}`, value]),
  };
}

/** The namespace of the object; Namespaces have none. */
export const namespaceOf = (
  { type, namespace }: AdmissionAttributes,
  { storage }: Pick<PolicyAdmission, 'storage'>,
): ApiObject | undefined =>
  namespace === '' || (type.group === '' && type.resource === 'namespaces')
    ? undefined
    : storage.get({ group: '', resource: 'namespaces' }, { namespace: '', name: namespace });

interface Names {
  readonly policy: string;
  readonly binding: string;
}

/** It refuses the request whatever the actions of the binding are. */
const brokenDenial = ({ message, isOfPolicy }: BrokenParams, { policy, binding }: Names): Denial => ({
  ...{ message, reason: 'Invalid', index: 0, policy },
  binding: isOfPolicy ? undefined : binding,
});

const warning = ({ message }: Failure, { policy, binding }: Names): string =>
  `Validation failed for ValidatingAdmissionPolicy '${policy}' with binding '${binding}': ${message}`;

const auditJson = ({ message, index }: Failure, names: Names, actions: readonly string[]): JsonObject => ({
  message,
  ...names,
  expressionIndex: index,
  validationActions: actions,
});

function refusal(
  { type, name }: AdmissionAttributes,
  { policy, binding, message, reason }: Denial,
): ApiFailure {
  const { group, resource } = type;
  const shown = name === '' ? 'Unknown' : name; // as in a deletion of a collection
  const bound = binding === undefined ? '' : ` with binding '${binding}'`;
  const denied = `ValidatingAdmissionPolicy '${policy}'${bound} denied request: ${message}`;
  const subject = group === '' ? resource : `${resource}.${group}`;
  return new ApiFailure(CODES[reason] ?? 422, reason, `${subject} "${shown}" is forbidden: ${denied}`, {
    ...{ name: shown, ...(group === '' ? {} : { group }), kind: resource },
    causes: [{ message: denied }],
  });
}

export const noAuthorizer = (): never => {
  throw new CelError('there is no authorizer');
};

interface CompiledPolicy extends PolicyExpressions {
  readonly match: PolicyCriteria;
  readonly ignoresFailures: boolean;
}

const known = new WeakMap<ApiObject, CompiledPolicy>();

/** Memoised: stored policies never change. */
export function compiledPolicy(policy: ApiObject): CompiledPolicy {
  const cached = known.get(policy);
  if (cached !== undefined) return cached;
  const compiled = {
    ...compilePolicy(spec(policy)),
    match: criteriaOf(section(policy, 'spec', 'matchConstraints')),
    ignoresFailures: text(spec(policy), 'failurePolicy') === 'Ignore',
  };
  known.set(policy, compiled);
  return compiled;
}
