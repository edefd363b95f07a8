/** The AdmissionPolicies among what was read, ready to be asked. */
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

/** A policy, and how messages name it. */
export interface NamedPolicy {
  /** e.g. `policies/servers.yaml:1: AdmissionPolicy servers` */
  readonly label: string;
  readonly policy: AdmissionPolicy;
}

export interface ReadPolicies {
  readonly policies: readonly NamedPolicy[];
  /** What is wrong with the others. */
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

/** What policies are compiled against. */
export interface PoliciesEnvironment extends Omit<CompileEnvironment, 'schemas'> {
  /** The structural schemas of a kind in these versions; undefined where they are not known. */
  readonly schemas: (
    resource: GroupResource,
    versions: readonly string[],
  ) => readonly JsonObject[] | undefined;
}

/** @throws UnusableInput with everything that keeps one of them from being enforced, by field */
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
    // Of several kinds, all have to be known: an expression may be meant for the one that is not.
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
      ? `${message} (nothing that was read defines it: add its CustomResourceDefinition to the crds)`
      : message;
  return { problems: result.problems.map(({ where, message }) => `${label}: ${where}: ${hint(message)}`) };
}

/**
 * What is wrong with conditions that nobody compiles but the API server, which is not there.
 *
 * @param label of whose `match` they are
 */
export function conditionProblems(label: string, conditions: readonly MatchCondition[]): readonly string[] {
  return conditions.flatMap(({ expression }, index) => {
    try {
      compileCel(expression, ['object', 'oldObject', 'request']);
      return [];
    } catch (error) {
      if (!(error instanceof CelError)) throw error;
      const hint = expression.includes('authorizer')
        ? ' (only an API server knows what an authorizer allows: such a condition cannot be reviewed without one)'
        : '';
      return [`${label}.matchConditions[${index}].expression: ${error.message}${hint}`];
    }
  });
}
