/** Reads and compiles the AdmissionPolicies of the input. */
import { CelError, compileCel } from '../../cel/cel.ts';
import {
  compilePolicy,
  type CompiledPolicy,
  type CompileEnvironment,
} from '../../admission/policy/compile.ts';
import type { JsonObject } from '../../json/json.ts';
import type { MatchCondition } from '../../admission/policy/compiled-policy.ts';
import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import { groupResourceName, type GroupResource } from '../../json/kube-object.ts';
import { governed } from '../../runtime/policies/policies.ts';
import type { ResourceRegistry } from '../../sandbox/machinery/resource-type.ts';
import type { PlacedObject } from './documents.ts';
import { refuse } from './input.ts';
import { readOwn } from './read-own.ts';

/** A policy, and its label in messages. */
export interface NamedPolicy {
  /** e.g. `policies/servers.yaml:1: AdmissionPolicy servers` */
  readonly label: string;
  readonly policy: AdmissionPolicy;
}

export interface ReadPolicies {
  readonly policies: readonly NamedPolicy[];
  /** The problems of invalid policies. */
  readonly problems: readonly string[];
}

export function readPolicies(
  objects: readonly PlacedObject[],
  registry: Pick<ResourceRegistry, 'findKind'>,
): ReadPolicies {
  const { found, problems } = readOwn('AdmissionPolicy', objects, registry);
  // Its definition is made from this type.
  const toPolicy = (object: object) => object as AdmissionPolicy;
  return { policies: found.map(({ label, object }) => ({ label, policy: toPolicy(object) })), problems };
}

export interface PoliciesEnvironment extends Omit<CompileEnvironment, 'schemas'> {
  /** The structural schemas of a kind in these versions; undefined if unknown. */
  readonly schemas: (
    resource: GroupResource,
    versions: readonly string[],
  ) => readonly JsonObject[] | undefined;
}

/** @throws UnusableInput with all problems, by field */
export function compilePolicies(
  { policies, problems }: ReadPolicies,
  environment: PoliciesEnvironment,
): readonly CompiledPolicy[] {
  const results = policies.map((named) => compileNamed(named, environment));
  refuse([...problems, ...results.flatMap((result) => ('problems' in result ? result.problems : []))]);
  return results.flatMap((result) => ('problems' in result ? [] : [result.policy]));
}

export type Compiled = { readonly policy: CompiledPolicy } | { readonly problems: readonly string[] };

export function compileNamed(
  { label, policy }: NamedPolicy,
  { schemas, ...environment }: PoliciesEnvironment,
): Compiled {
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
  if (result.kind === 'compiled') return { policy: result.policy };
  const hint = (message: string) =>
    unresolved.some((target) => message.includes(groupResourceName(target)))
      ? `${message} (its CustomResourceDefinition is missing: add it to the crds)`
      : message;
  return { problems: result.problems.map(({ where, message }) => `${label}: ${where}: ${hint(message)}`) };
}

/**
 * Checks match conditions, which only the API server evaluates.
 *
 * @param label of the policy or handler
 */
export function conditionProblems(label: string, conditions: readonly MatchCondition[]): readonly string[] {
  return conditions.flatMap(({ expression }, index) => {
    try {
      compileCel(expression, ['object', 'oldObject', 'request']);
      return [];
    } catch (error) {
      if (!(error instanceof CelError)) throw error;
      const hint = expression.includes('authorizer')
        ? ' (a review without an API server cannot evaluate authorizer)'
        : '';
      return [`${label}.matchConditions[${index}].expression: ${error.message}${hint}`];
    }
  });
}
