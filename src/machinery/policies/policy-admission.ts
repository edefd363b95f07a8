import { CelError } from '../../cel/cel.ts';
import { type JsonObject, memoizeWeak } from '../../json/json.ts';
import { groupResourceName } from '../../json/kube-object.ts';
import { matchesSelector, normaliseSelector } from '../../json/label-selector.ts';
import type { ApiObject } from '../api-object.ts';
import { ApiFailure } from '../failure.ts';
import { record, records, section, spec, text, texts } from '../fields.ts';
import type { Notes } from '../request.ts';
import type { ResourceType } from '../resource-type.ts';
import { placeOf, type Storage } from '../storage/stored.ts';
import type { AdmissionAttributes } from '../webhooks/admission-review.ts';
import { type AdmissionWorld, questionIn } from '../webhooks/call-hook.ts';
import { type Rule, rulesOf } from '../webhooks/hook.ts';
import { type Criteria, matchingType, POLICY_RESOURCES, REVIEWS, typeInRules } from '../webhooks/match.ts';
import { compilePolicy } from './compile-policy.ts';
import { type Evaluated, evaluatePolicy, type Failure } from './evaluate-policy.ts';

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

/** Evaluates the stored ValidatingAdmissionPolicies, as k8s.io/apiserver/pkg/admission/plugin/policy does. */
export async function validateByPolicies(
  api: AdmissionWorld,
  attributes: AdmissionAttributes,
  notes: Notes,
): Promise<void> {
  if (isExemptFromPolicies(attributes.type)) return;
  const denials: Denial[] = [];
  const audited: JsonObject[] = [];
  const annotations = new Map<string, Set<string>>();
  for (const bound of boundPolicies(api, 'validating')) {
    const applied = await applyBinding(api, bound, attributes, notes);
    denials.push(...applied.denials);
    audited.push(...applied.audited);
    for (const [key, value] of applied.annotations)
      annotations.set(key, (annotations.get(key) ?? new Set()).add(value));
  }
  for (const [key, values] of annotations) notes.annotate(key, [...values].join(', '));
  if (audited.length > 0) notes.annotate(AUDIT_KEY, JSON.stringify(audited.slice(0, MOST_AUDITED)));
  const [first] = denials;
  if (first !== undefined) throw refusal(attributes, first);
}

export interface BoundPolicy {
  readonly policy: ApiObject;
  readonly binding: ApiObject;
}

export function boundPolicies(
  { storage }: Pick<AdmissionWorld, 'storage'>,
  manner: 'mutating' | 'validating',
): readonly BoundPolicy[] {
  const stored = (resource: string) => storage.list({ group: GROUP, resource }).items;
  const policies = new Map(
    stored(`${manner}admissionpolicies`).map((policy) => [policy.metadata.name, policy]),
  );
  return stored(`${manner}admissionpolicybindings`).flatMap((binding) => {
    const policy = policies.get(text(spec(binding), 'policyName'));
    return policy === undefined ? [] : [{ policy, binding }];
  });
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

async function applyBinding(
  api: AdmissionWorld,
  { policy, binding }: BoundPolicy,
  attributes: AdmissionAttributes,
  notes: Notes,
): Promise<Applied> {
  const compiled = compiledPolicy(policy);
  const seen = seenType({ policy, binding }, attributes, api);
  if (seen === undefined) return NOTHING;
  const names = { policy: policy.metadata.name ?? '', binding: binding.metadata.name ?? '' };
  const found = await paramsOf(spec(policy), spec(binding), attributes.namespace, api);
  if (found.kind === 'broken')
    return compiled.ignoresFailures ? NOTHING : { ...NOTHING, denials: [brokenDenial(found, names)] };
  const question = await questionIn(api, seen, attributes);
  const namespaceObject = namespaceOf(attributes, api);
  const authorize = api.authorizerOf?.(attributes.user) ?? noAuthorizer;
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

export const namespaceOf = (
  { type, namespace }: AdmissionAttributes,
  { storage }: Pick<AdmissionWorld, 'storage'>,
): ApiObject | undefined =>
  namespace === '' || (type.group === '' && type.resource === 'namespaces')
    ? undefined
    : storage.get({ group: '', resource: 'namespaces' }, { namespace: '', name: namespace });

interface Names {
  readonly policy: string;
  readonly binding: string;
}

/** It refuses the request regardless of the binding's actions. */
const brokenDenial = ({ message, isOfPolicy }: BrokenParams, { policy, binding }: Names): Denial => ({
  message,
  reason: 'Invalid',
  index: 0,
  policy,
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
  return new ApiFailure(
    CODES[reason] ?? 422,
    reason,
    `${groupResourceName(type)} "${shown}" is forbidden: ${denied}`,
    {
      name: shown,
      ...(group === '' ? {} : { group }),
      kind: resource,
      causes: [{ message: denied }],
    },
  );
}

export const noAuthorizer = (): never => {
  throw new CelError('there is no authorizer');
};

/** Memoised: stored policies never change. */
export const compiledPolicy = memoizeWeak((policy: ApiObject) => ({
  ...compilePolicy(spec(policy)),
  match: criteriaOf(section(policy, 'spec', 'matchConstraints')),
  ignoresFailures: text(spec(policy), 'failurePolicy') === 'Ignore',
}));

/** The kinds of admission policies, and reviews: otherwise a policy could prevent its own repair. */
const EXEMPT: Readonly<Record<string, readonly string[]>> = {
  [GROUP]: POLICY_RESOURCES,
  ...REVIEWS,
};

export const isExemptFromPolicies = ({ group, resource }: ResourceType): boolean =>
  EXEMPT[group]?.includes(resource) === true;

interface PolicyCriteria extends Criteria {
  readonly excluded: Criteria['rules'];
}

/** The version in which the policy sees the object; undefined if the policy or its binding does not match. */
export function seenType(
  { policy, binding }: BoundPolicy,
  attributes: AdmissionAttributes,
  api: Pick<AdmissionWorld, 'registry' | 'storage'>,
): ResourceType | undefined {
  const match = (criteria: PolicyCriteria) =>
    typeInRules({ ...criteria, rules: criteria.excluded }, attributes, api.registry) === undefined
      ? matchingType(criteria, attributes, api)
      : undefined;
  return match(criteriaOf(section(binding, 'spec', 'matchResources'))) && match(compiledPolicy(policy).match);
}

const EVERYTHING: Rule = {
  operations: ['*'],
  apiGroups: ['*'],
  apiVersions: ['*'],
  resources: ['*', '*/*'],
  scope: '*',
  names: [],
};

function criteriaOf(match: JsonObject): PolicyCriteria {
  const rules = rulesOf(records(match, 'resourceRules'));
  return {
    rules: rules.length === 0 ? [EVERYTHING] : rules,
    excluded: rulesOf(records(match, 'excludeResourceRules')),
    namespaceSelector: normaliseSelector(record(match, 'namespaceSelector') ?? {}, '').selector,
    objectSelector: normaliseSelector(record(match, 'objectSelector') ?? {}, '').selector,
    exact: text(match, 'matchPolicy') === 'Exact',
  };
}

interface BrokenParams {
  readonly kind: 'broken';
  readonly message: string;
  readonly isOfPolicy: boolean;
}

type Params = { readonly kind: 'params'; readonly params: readonly (ApiObject | undefined)[] } | BrokenParams;

const broken = (message: string): BrokenParams => ({
  kind: 'broken',
  isOfPolicy: false,
  message: `failed to configure binding: ${message}`,
});

/** The params of a binding (CollectParams in generic/policy_dispatcher.go of apiserver's policy plugin). */
export async function paramsOf(
  policy: JsonObject,
  binding: JsonObject,
  namespace: string,
  { registry, storage, convert }: Pick<AdmissionWorld, 'registry' | 'storage' | 'convert'>,
): Promise<Params> {
  const kind = record(policy, 'paramKind');
  if (kind === undefined) return { kind: 'params', params: [undefined] };
  const [apiVersion, name] = [text(kind, 'apiVersion'), text(kind, 'kind')];
  const type = registry.findKind(apiVersion, name);
  if (type === undefined) return unknownKind(apiVersion, name);
  const ref = record(binding, 'paramRef');
  if (ref === undefined) return { kind: 'params', params: [undefined] };
  const problem = scopeProblem(type, ref, namespace);
  if (problem !== undefined) return broken(problem);
  const found = selected(type, ref, text(ref, 'namespace') || namespace, storage);
  if (found.length === 0 && text(ref, 'parameterNotFoundAction') === 'Deny')
    return broken('no params found for policy binding with `Deny` parameterNotFoundAction');
  return { kind: 'params', params: await convert(found, type) };
}

function unknownKind(apiVersion: string, kind: string): BrokenParams {
  const shown = `${apiVersion.includes('/') ? '' : '/'}${apiVersion}, Kind=${kind}`;
  return {
    kind: 'broken',
    isOfPolicy: true,
    message: `failed to configure policy: failed to find resource referenced by paramKind: '${shown}'`,
  };
}

function scopeProblem({ namespaced }: ResourceType, ref: JsonObject, namespace: string): string | undefined {
  const given = text(ref, 'namespace');
  if (!namespaced && given !== '')
    return 'paramRef.namespace must not be provided for a cluster-scoped `paramKind`';
  if (namespaced && given === '' && namespace === '')
    return 'cannot use namespaced paramRef in policy binding that matches cluster-scoped resources';
  return undefined;
}

function selected(
  type: ResourceType,
  ref: JsonObject,
  paramsNamespace: string,
  storage: Storage,
): readonly ApiObject[] {
  const place = placeOf(type);
  const namespace = type.namespaced ? paramsNamespace : '';
  const name = text(ref, 'name');
  if (name !== '') {
    const found = storage.get(place, { namespace, name });
    return found === undefined ? [] : [found];
  }
  const { selector } = normaliseSelector(record(ref, 'selector') ?? {}, '');
  return storage.list(place, {
    ...(type.namespaced ? { namespace } : {}),
    accepts: ({ metadata }) => matchesSelector(selector, metadata.labels ?? {}),
  }).items;
}
