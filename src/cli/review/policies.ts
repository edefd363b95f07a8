/** Reads and compiles the AdmissionPolicies of the input. */
import { asksAuthorizer, compileMatchCondition } from '../../cel/match-condition.ts';
import {
  compilePolicy,
  type CompiledPolicy,
  type CompileEnvironment,
  type CompileResult,
} from '../../admission/policy/compile.ts';
import { controlPlaneWrites } from '../../admission/policy/match/control-plane-writes.ts';
import { uncoveredSubresources } from '../../admission/policy/match/uncovered-subresources.ts';
import { unservedKinds, type ServedInGroup } from '../../admission/policy/match/unserved-kinds.ts';
import type { Problem } from '../../admission/policy/problem.ts';
import type { MatchCondition } from '../../admission/policy/compiled-policy.ts';
import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import type { PolicyException } from '../../api/policy-exception.ts';
import { groupResourceName, type GroupResource } from '../../json/kube-object.ts';
import { governed } from '../../runtime/policies/policy-kinds.ts';
import { joined, type Parsed, type PlacedObject } from './documents.ts';
import { refuse } from './input.ts';
import type { Kinds } from './kinds.ts';
import { readOwn, type Labelled } from './read-own.ts';

/** @throws UnusableInput with all problems, by field */
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

/** The PolicyExceptions of the input. @throws UnusableInput with all problems, by field */
export function readExceptions(
  objects: readonly PlacedObject[],
  registry: Kinds['registry'],
  namespace: string,
): readonly PolicyException[] {
  const { found, problems } = readOwn<PolicyException>('PolicyException', objects, registry);
  refuse(problems);
  return found.map(({ object }) => ({
    ...object,
    metadata: { ...object.metadata, namespace: object.metadata.namespace ?? namespace },
  }));
}

export interface LabelledEnvironment
  extends Omit<CompileEnvironment, 'schemas'>, Pick<Kinds, 'schemas' | 'groups'> {
  readonly servedIn: ServedInGroup;
}

/** Compiles one policy. The problems name its label. */
export function compileLabelled(
  { labelOf, object: policy }: Labelled<AdmissionPolicy>,
  { schemas, servedIn, groups, ...environment }: LabelledEnvironment,
): Parsed<CompiledPolicy> {
  const unresolved: GroupResource[] = [];
  const { match } = policy.spec;
  const known = governed({ match }).map((resource) => schemas(resource, match.apiVersions ?? ['*']));
  const result = compilePolicy(policy, {
    ...environment,
    // One unknown kind disables type checks: an expression may be written for that kind.
    schemas: known.includes(undefined) ? [] : known.flatMap((some) => some ?? []),
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

/** Notes on subresources that change an object without asking the policy, and on what Kubernetes itself writes. */
export const coverageNotes = (policies: readonly CompiledPolicy[]): readonly string[] =>
  policies.flatMap((policy) =>
    [...uncoveredSubresources(policy, policies), ...controlPlaneWrites(policy)].map(
      (note) => `AdmissionPolicy ${policy.name}: ${note}`,
    ),
  );

/** Notes on governed kinds whose schema is unknown. */
export function uncheckedNotes(
  policies: readonly CompiledPolicy[],
  { schemas }: Pick<Kinds, 'schemas'>,
): readonly string[] {
  const unknown = policies.flatMap((policy) =>
    governed(policy).filter((kind) => schemas(kind, policy.match.apiVersions) === undefined),
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

/**
 * The match conditions that a review without an API server cannot evaluate.
 *
 * @param label of the policy or handler
 */
export function conditionProblems(label: string, conditions: readonly MatchCondition[]): readonly string[] {
  return conditions.flatMap(({ expression }, index) =>
    asksAuthorizer(compileMatchCondition(expression))
      ? [
          `${label}.matchConditions[${index}].expression: a review without an API server cannot evaluate authorizer`,
        ]
      : [],
  );
}
