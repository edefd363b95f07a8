import type { AdmissionPolicy } from '../api/admission-policy.ts';
import { groupResourceName, type GroupResource } from '../api/meta.ts';
import { compileImmutable, compileReferences, type Resolve } from './compile-checks.ts';
import { compileDefaults } from './compile-defaults.ts';
import { compileMatch } from './compile-match.ts';
import type { CompiledPolicy, CompiledReference } from './compiled-policy.ts';
import { REJECTION_REASONS, type Problem, type RejectionReason } from './problem.ts';
import { entryIdOf } from './scope.ts';

export type { CompiledPolicy } from './compiled-policy.ts';

/** What a policy is judged against. */
export interface CompileEnvironment {
  /** The namespace in which Gatehouse runs. */
  readonly ownNamespace: string;
  /** Whether the API server knows `matchConditions` (Kubernetes 1.28 and newer). */
  readonly matchConditions: boolean;
  readonly resolve: Resolve;
}

export type CompileResult =
  | { readonly kind: 'compiled'; readonly policy: CompiledPolicy }
  | {
      readonly kind: 'rejected';
      /** The gravest of the problems, in one word. */
      readonly reason: RejectionReason;
      /** All of them: nobody should have to find them one by one. */
      readonly problems: readonly { readonly where: string; readonly message: string }[];
    };

/** AdmissionPolicy → what requests are judged with, or everything that is wrong with it. */
export function compilePolicy(policy: AdmissionPolicy, environment: CompileEnvironment): CompileResult {
  const { spec, metadata } = policy;
  const { match, problems: matchProblems } = compileMatch(spec, environment);
  const { defaults, problems: defaultProblems } = compileDefaults(spec, match);
  const { immutable, problems: immutableProblems } = compileImmutable(spec, match);
  const { references, problems: referenceProblems } = compileReferences(spec, match, environment.resolve);
  const problems = [...matchProblems, ...defaultProblems, ...immutableProblems, ...referenceProblems];
  if (problems.length > 0) return reject(problems);
  return {
    kind: 'compiled',
    policy: {
      name: metadata.name ?? '',
      generation: metadata.generation ?? 0,
      entryId: entryIdOf(match),
      match,
      enforcement: spec.enforcement ?? 'Deny',
      defaults,
      immutable,
      references,
      deferReferences: spec.restore?.references !== 'Enforce',
      targets: targetsOf(references),
      spec,
    },
  };
}

function reject(problems: readonly Problem[]): CompileResult {
  const reasons = new Set(problems.map(({ reason }) => reason));
  return {
    kind: 'rejected',
    reason: REJECTION_REASONS.find((reason) => reasons.has(reason)) ?? 'InvalidPolicy',
    problems: problems.map(({ where, message }) => ({ where, message })),
  };
}

function targetsOf(references: readonly CompiledReference[]): readonly GroupResource[] {
  return [...new Map(references.map(({ target }) => [groupResourceName(target), target])).values()];
}
