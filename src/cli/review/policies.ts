/** Reads and compiles the AdmissionPolicies of the input. */
import { asksAuthorizer, compileMatchCondition } from '../../cel/match-condition.ts';
import {
  compilePolicy,
  type CompiledPolicy,
  type CompileEnvironment,
} from '../../admission/policy/compile.ts';
import { uncoveredSubresources } from '../../admission/policy/match/uncovered-subresources.ts';
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
  { registry, resolve, schemas }: Kinds,
  environment: Omit<CompileEnvironment, 'resolve' | 'schemas'>,
): readonly CompiledPolicy[] {
  const read = readOwn<AdmissionPolicy>('AdmissionPolicy', objects, registry);
  const compiled = joined(
    read.found.map((policy) => compileLabelled(policy, { ...environment, resolve, schemas })),
  );
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

/** Compiles one policy. The problems name its label. */
export function compileLabelled(
  { label, object: policy }: Labelled<AdmissionPolicy>,
  { schemas, ...environment }: Omit<CompileEnvironment, 'schemas'> & Pick<Kinds, 'schemas'>,
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
  if (result.kind === 'compiled') return { found: [result.policy], problems: [] };
  const hint = (message: string) =>
    unresolved.some((target) => message.includes(groupResourceName(target)))
      ? ' (its CustomResourceDefinition is missing: add it to the crds)'
      : '';
  const problems = result.problems.map(
    ({ where, message }) => `${label}: ${where}: ${message}${hint(message)}`,
  );
  return { found: [], problems };
}

/** Notes on subresources that change an object without asking the policy. */
export const coverageNotes = (policies: readonly CompiledPolicy[]): readonly string[] =>
  policies.flatMap((policy) =>
    uncoveredSubresources(policy, policies).map((gap) => `AdmissionPolicy ${policy.name}: ${gap}`),
  );

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
