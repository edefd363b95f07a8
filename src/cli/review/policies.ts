/** Reads the objects of the kinds of Gatehouse, and compiles AdmissionPolicies. */
import { validateCreate } from '../../machinery/objects/validate.ts';
import { isEqual, textIn } from '../../json/json.ts';
import { GROUP, VERSION } from '../../api/group.ts';
import { typeAt } from '../../admission/policy/fields/field-flaw.ts';
import { objectType } from '../../cel/types/schema-type.ts';
import { tryParsePath } from '../../json/field-path.ts';
import { schemaToJson } from '../../machinery/schema/schema.ts';
import { ApiFailure } from '../../machinery/failure.ts';
import { decodeObject } from '../../machinery/objects/decode.ts';
import type { ResourceRegistry, ResourceType } from '../../machinery/resource-type.ts';
import { SILENT } from './api-server.ts';
import { refuse, describePlace, joined, type Parsed, type PlacedObject } from './input.ts';
import type { Locate } from './yaml.ts';
import { asksAuthorizer, compileMatchCondition } from '../../cel/match-condition.ts';
import {
  compilePolicy,
  type CompiledPolicy,
  type CompileEnvironment,
  type CompileResult,
} from '../../admission/policy/compile.ts';
import { controlPlaneWrites } from '../../admission/policy/match/control-plane-writes.ts';
import { updateNotes } from '../../admission/policy/mutations/update-limits.ts';
import { isKnown, knownKinds } from '../../admission/policy/match/subresources.ts';
import { conflictsOf } from '../../admission/policy/conflicts.ts';
import { uncoveredSubresources } from '../../admission/policy/match/uncovered-subresources.ts';
import { unservedKinds, type ServedInGroup } from '../../admission/policy/match/unserved-kinds.ts';
import type { Problem } from '../../admission/policy/problem.ts';
import type { MatchCondition } from '../../admission/review/request.ts';
import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import type { PolicyException } from '../../api/policy-exception.ts';
import { groupResourceName, type GroupResource } from '../../json/kube-object.ts';
import { governed } from '../../runtime/policies/policy-kinds.ts';
import type { Kinds } from './kinds.ts';
import type { CompiledExpression } from '../../admission/policy/expressions/expression.ts';

export interface Labelled<T> {
  readonly label: string;
  readonly object: T;
  readonly labelOf: (...field: Parameters<Locate>) => string;
}

const API_VERSION = `${GROUP}/${VERSION}`;

/** Like the API server, but an unknown field is an error. @typeParam T from which the CRD of the kind is generated */
export function readOwn<T>(
  kind: string,
  objects: readonly PlacedObject[],
  registry: Pick<ResourceRegistry, 'findKind'>,
): Parsed<Labelled<T>> {
  const type = registry.findKind(API_VERSION, kind);
  if (type === undefined) throw new Error(`${kind} is not a kind of Gatehouse`);
  const all = objects.filter(({ object }) => isOwn(object) && textIn(object, 'kind') === kind);
  // The same file may be passed as a policy and as an object.
  const given = all.filter(
    ({ object }, index) => all.findIndex((other) => isEqual(other.object, object)) === index,
  );
  const { found, problems } = joined(given.map((placed) => readOne<T>(placed, type)));
  return { found, problems: [...namesTwice(kind, given), ...problems] };
}

export function usableOwn<T>(...input: Parameters<typeof readOwn>): readonly Labelled<T>['object'][] {
  const { found, problems } = readOwn<T>(...input);
  refuse(problems);
  return found.map(({ object }) => object);
}

/** Whether the object configures Gatehouse: policies do not apply to such objects. */
export const isOwn = (object: PlacedObject['object']): boolean =>
  textIn(object, 'apiVersion').startsWith(`${GROUP}/`);

function namesTwice(kind: string, given: readonly PlacedObject[]): readonly string[] {
  const keyOf = ({ object }: PlacedObject) =>
    [textIn(object, 'metadata', 'namespace'), textIn(object, 'metadata', 'name')].join('/');
  return [...Map.groupBy(given, keyOf)].flatMap(([key, same]) => {
    const name = key.startsWith('/') ? key.slice(1) : key;
    const places = same.map(({ place }) => describePlace(place)).join(' and ');
    return same.length < 2 ? [] : [`${places}: both are ${kind} ${name}: leave one out`];
  });
}

function readOne<T>(
  { object, place, locate = () => undefined }: PlacedObject,
  type: ResourceType,
): Parsed<Labelled<T>> {
  const labelOf: Labelled<T>['labelOf'] = (...field) =>
    `${describePlace({ ...place, ...locate(...field) })}: ${type.kind} ${textIn(object, 'metadata', 'name')}`;
  const label = `${describePlace(place)}: ${type.kind} ${textIn(object, 'metadata', 'name')}`;
  const wrong = (messages: readonly string[]) => ({
    found: [],
    problems: messages.map((message) => `${labelOf(fieldIn(message))}: ${message}`),
  });
  if (textIn(object, 'apiVersion') !== API_VERSION) return wrong([`apiVersion: must be ${API_VERSION}`]);
  const unknown: string[] = [];
  const warn = (text: string) => unknown.push(unknownField(text, type));
  try {
    const decoded = decodeObject(object, type, 'Warn', { ...SILENT, warn });
    validateCreate(decoded, type);
    if (unknown.length > 0) return wrong(unknown);
    return { found: [{ label, labelOf, object: decoded as unknown as T }], problems: [] }; // validated by its CRD
  } catch (error) {
    if (!(error instanceof ApiFailure)) throw error;
    return wrong([...unknown, ...messagesOf(error)]);
  }
}

function unknownField(text: string, { schema }: ResourceType): string {
  const [, path] = /^unknown field "(.*)"$/.exec(text) ?? [];
  const segments = path === undefined ? undefined : tryParsePath(path)?.segments;
  const at = segments && typeAt(objectType(schemaToJson(schema)), segments);
  return at?.kind === 'flaw' ? `${path ?? ''}: ${at.message}` : `${text}: correct its name, or remove it`;
}

const fieldIn = (message: string): string => /^(?:unknown field ")?([\w.[\]-]+)/.exec(message)?.[1] ?? '';

function messagesOf({ message, status }: ApiFailure): readonly string[] {
  const causes = status.details?.causes ?? [];
  if (causes.length === 0) return [message];
  return causes.map(({ field = '', message: what }) => (field === '' ? what : `${field}: ${what}`));
}

export function compilePolicies(
  objects: readonly PlacedObject[],
  { registry, ...kinds }: Kinds,
  environment: Omit<CompileEnvironment, 'resolve' | 'schemas'>,
): readonly CompiledPolicy[] {
  const read = readOwn<AdmissionPolicy>('AdmissionPolicy', objects, registry);
  const compiled = joined(read.found.map((policy) => compileLabelled(policy, { ...environment, ...kinds })));
  refuse([...read.problems, ...compiled.problems]);
  return compiled.found;
}

export function readExceptions(
  objects: readonly PlacedObject[],
  registry: Kinds['registry'],
  namespace: string,
): readonly PolicyException[] {
  return usableOwn<PolicyException>('PolicyException', objects, registry).map((exception) => ({
    ...exception,
    metadata: { ...exception.metadata, namespace: exception.metadata.namespace ?? namespace },
  }));
}

interface LabelledEnvironment extends Omit<CompileEnvironment, 'schemas'>, Pick<Kinds, 'schemas' | 'groups'> {
  readonly servedIn: ServedInGroup;
}

export function compileLabelled(
  { labelOf, object: policy }: Labelled<AdmissionPolicy>,
  { schemas, servedIn, groups, ...environment }: LabelledEnvironment,
): Parsed<CompiledPolicy> {
  const unresolved: GroupResource[] = [];
  const { match } = policy.spec;
  const result = compilePolicy(policy, {
    ...environment,
    ...knownKinds(governed({ match }).map((kind) => schemas(kind, match.apiVersions ?? ['*']))),
    resolve: (target) => {
      const found = environment.resolve(target);
      if (found === undefined) unresolved.push(target);
      return found;
    },
  });
  const hint = (message: string) =>
    unresolved.some((target) => message.includes(groupResourceName(target)))
      ? ' (its CustomResourceDefinition is missing: add it to the crds)'
      : '';
  const problems = problemsOf(result, servedIn, groups).map(({ where, message, place }) =>
    [`${labelOf(where, place)}: ${where}: ${message}${hint(message)}`, ...caretLines(place)].join('\n'),
  );
  return { found: result.kind === 'compiled' && problems.length === 0 ? [result.policy] : [], problems };
}

function problemsOf(
  result: CompileResult,
  servedIn: ServedInGroup,
  groups: readonly string[],
): readonly Omit<Problem, 'reason'>[] {
  const problems = result.kind === 'rejected' ? result.problems : [];
  // A scope that would lock out the cluster is not a question of kinds.
  if (result.kind === 'rejected' && result.reason === 'LockoutScope') return problems;
  const { match } = result.kind === 'rejected' ? result.incomplete : result.policy;
  const unserved = unservedKinds(match, servedIn, groups);
  return unserved === undefined
    ? problems
    : [{ where: 'spec.match', message: unserved.message }, ...problems];
}

/** The line of the expression that has the problem, and a caret below the place. Both start with spaces. */
function caretLines(place: Problem['place']): readonly string[] {
  if (place === undefined) return [];
  const line = place.expression.split('\n')[place.line - 1] ?? '';
  const text = line.trimStart();
  const before = Array.from(line).slice(0, place.column - 1).length - (line.length - text.length);
  return [`    ${text}`, `    ${' '.repeat(Math.max(0, before))}^`];
}

/** Notes on requests that the policy misses or should not refuse, and on changes that it does not make or that others undo. */
export const coverageNotes = (policies: readonly CompiledPolicy[]): readonly string[] =>
  policies.flatMap((policy) =>
    [
      ...uncoveredSubresources(policy, policies),
      ...controlPlaneWrites(policy),
      ...updateNotes(policy),
      ...conflictsOf(policy, policies),
    ].map((note) => `AdmissionPolicy ${policy.name}: ${note}`),
  );

export function uncheckedNotes(
  policies: readonly CompiledPolicy[],
  { schemas }: Pick<Kinds, 'schemas'>,
): readonly string[] {
  const unknown = policies.flatMap((policy) =>
    governed(policy).filter((kind) => !isKnown(schemas(kind, policy.match.apiVersions))),
  );
  return [...new Set(unknown.map(groupResourceName))].map((name) => {
    const why = isBuiltIn(name) ? 'it is a built-in kind' : 'add its CustomResourceDefinition to the crds';
    return `fields of ${name} are not checked: ${why}`;
  });
}

/** Groups of custom kinds have a dot, and not the suffix of Kubernetes. */
const isBuiltIn = (name: string): boolean => {
  const group = name.split('.').slice(1).join('.');
  return !group.includes('.') || group.endsWith('.k8s.io');
};

export function conditionProblems(label: string, conditions: readonly MatchCondition[]): readonly string[] {
  return conditions.flatMap(({ expression }, index) =>
    asksAuthorizer(compileMatchCondition(expression))
      ? [
          `${label}.matchConditions[${index}].expression: a review without an API server cannot evaluate authorizer`,
        ]
      : [],
  );
}

const asks = (expression: CompiledExpression | undefined): boolean => expression?.reads.authorizer === true;

/** The policy without the expressions that ask. */
export const withoutQuestions = (policy: CompiledPolicy): CompiledPolicy => ({
  ...policy,
  rules: policy.rules.filter(
    ({ expression, messageExpression }) => ![expression, messageExpression].some(asks),
  ),
  warnings: policy.warnings.filter(
    ({ condition, messageExpression }) => ![condition, messageExpression].some(asks),
  ),
  auditAnnotations: policy.auditAnnotations.filter(({ value }) => !asks(value)),
});

export const questionNotes = (policies: readonly CompiledPolicy[]): readonly string[] =>
  policies.flatMap((policy) => {
    const { rules } = withoutQuestions(policy);
    const left = policy.rules.filter((rule) => !rules.includes(rule)).map(({ name }) => name);
    if (left.length === 0) return [];
    const what = left.length === 1 ? `rule ${left.join()} is` : `rules ${left.join(', ')} are`;
    return [`AdmissionPolicy ${policy.name}: ${what} not reviewed: only an API server can answer authorizer`];
  });
