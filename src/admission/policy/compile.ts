import type { Reads } from './expressions/expression.ts';
import { groupResourceName } from '../../json/kube-object.ts';
import { NAMESPACES } from './object-ref.ts';
import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import { compileReferences } from './references/compile-references.ts';
import { compileImmutable } from './immutable/immutable.ts';
import { compileDefaults } from './defaults/defaults.ts';
import { compileExceptions } from './exceptions/exceptions.ts';
import { createExpressionCompiler } from './expressions/compile-expression.ts';
import { compileMatch, type Resolve } from './match/compile-match.ts';
import { compileMutations } from './mutations/mutations.ts';
import { compileOwners } from './owners/preserve-owners.ts';
import { compileRestore } from './deferral/deferral.ts';
import { compileAuditAnnotations, compileRules, compileWarnings } from './rules/compile-rules.ts';

import { compileParams } from './expressions/bindings.ts';
import { compileSchema } from './schema/schema.ts';
import { compileUnique } from './unique/compile-unique.ts';
import type { CompiledPolicy, CompiledTarget } from './compiled-policy.ts';
import type { JsonObject } from '../../json/json.ts';
import { REJECTION_REASONS, type Problem, type RejectionReason } from './problem.ts';
import { entryIdOf } from '../webhooks/policy-entries.ts';

export type { CompiledPolicy } from './compiled-policy.ts';

/** What compilation knows about the cluster. */
export interface CompileEnvironment {
  /** The namespace in which Gatehouse runs. */
  readonly ownNamespace: string;
  /** Whether the API server supports `matchConditions` (Kubernetes 1.28 and newer). */
  readonly matchConditions: boolean;
  readonly resolve: Resolve;
  /** The structural schemas of the governed kinds; empty if any of them is unknown. */
  readonly schemas?: readonly JsonObject[];
}

export type CompileResult =
  | { readonly kind: 'compiled'; readonly policy: CompiledPolicy }
  | {
      readonly kind: 'rejected';
      /** The most severe reason. */
      readonly reason: RejectionReason;
      /** All problems, so that the author can correct them in one go. */
      readonly problems: readonly { readonly where: string; readonly message: string }[];
    };

/** Compiles an AdmissionPolicy, or lists everything that is wrong with it. */
export function compilePolicy(policy: AdmissionPolicy, environment: CompileEnvironment): CompileResult {
  const { spec, metadata } = policy;
  const { match, problems: matchProblems } = compileMatch(spec, environment);
  const { immutable, problems: immutableProblems } = compileImmutable(spec, match);
  const { references, problems: referenceProblems } = compileReferences(spec, match, environment.resolve);
  const problems = [...matchProblems, ...immutableProblems, ...referenceProblems];
  const expressions = createExpressionCompiler(spec, environment.schemas ?? [], problems);
  const parts: Omit<CompiledPolicy, 'targets'> = {
    name: metadata.name ?? '',
    generation: metadata.generation ?? 0,
    entryId: entryIdOf(match),
    match,
    enforcement: spec.enforcement ?? 'Deny',
    audit: spec.audit ?? true,
    variables: expressions.variables,
    params: compileParams(spec, match, environment.resolve, problems),
    defaults: compileDefaults(spec, match, expressions, problems),
    mutations: compileMutations(spec, match, expressions, problems),
    schema: compileSchema(spec, match, problems),
    immutable,
    references,
    unique: compileUnique(spec, match, problems),
    rules: compileRules(spec, expressions, problems),
    warnings: compileWarnings(spec, expressions, problems),
    auditAnnotations: compileAuditAnnotations(spec, expressions, problems),
    exceptions: compileExceptions(spec, problems),
    preservesOwners: compileOwners(spec, match, problems),
    ...compileRestore(spec, problems),
    spec,
  };
  if (problems.length > 0) return reject(problems);
  return { kind: 'compiled', policy: { ...parts, targets: targetsOf(parts) } };
}

function reject(problems: readonly Problem[]): CompileResult {
  const reasons = new Set(problems.map(({ reason }) => reason));
  return {
    kind: 'rejected',
    reason: REJECTION_REASONS.find((reason) => reasons.has(reason)) ?? 'InvalidPolicy',
    problems: problems.map(({ where, message }) => ({ where, message })),
  };
}

/** The kinds that references name or expressions read, without duplicates. */
export function targetsOf(policy: Omit<CompiledPolicy, 'targets'>): readonly CompiledTarget[] {
  const { references, params } = policy;
  const read = readsOf(policy);
  const targets: readonly CompiledTarget[] = [
    ...references.map(({ target }) => ({ ...target, whole: read.refs })),
    ...(params === undefined ? [] : [{ ...params.target, whole: true }]),
    ...(read.namespaceObject ? [{ ...NAMESPACES, whole: true }] : []),
  ];
  const byName = Map.groupBy(targets, groupResourceName);
  return [...byName.values()].flatMap((same) => {
    const [first] = same;
    return first === undefined ? [] : [{ ...first, whole: same.some(({ whole }) => whole) }];
  });
}

function readsOf(policy: Omit<CompiledPolicy, 'targets'>): Pick<Reads, 'refs' | 'namespaceObject'> {
  const { defaults, mutations, rules, warnings, auditAnnotations } = policy;
  const all = [
    ...defaults.map((rule) => (rule.kind === 'expression' ? rule.expression : undefined)),
    ...mutations.flatMap(({ condition, change }) => [condition, change]),
    ...rules.flatMap(({ expression, messageExpression }) => [expression, messageExpression]),
    ...warnings.flatMap(({ condition, messageExpression }) => [condition, messageExpression]),
    ...auditAnnotations.map(({ value }) => value),
  ];
  return {
    refs: all.some((one) => one?.reads.refs === true),
    namespaceObject: all.some((one) => one?.reads.namespaceObject === true),
  };
}
