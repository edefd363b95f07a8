import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import type { ExpressionCompiler } from '../expressions/compile-expression.ts';
import type { CompiledMatch, CompiledMutation } from '../compiled-policy.ts';
import type { Problem } from '../problem.ts';
import { writes } from '../../review/request.ts';

/** The mutations, and what is wrong with them. */
export function compileMutations(
  { mutations = [] }: AdmissionPolicySpec,
  match: CompiledMatch,
  { compile }: ExpressionCompiler,
  problems: Problem[],
): readonly CompiledMutation[] {
  if (mutations.length > 0 && !match.operations.some(writes)) {
    problems.push({
      reason: 'InvalidPolicy',
      where: 'spec.match.operations',
      message:
        'has neither CREATE nor UPDATE, so spec.mutations would never change anything: add one of them',
    });
  }
  return mutations.flatMap(
    ({ name, type = 'Merge', condition, expression }, index): readonly CompiledMutation[] => {
      const where = `spec.mutations[${index}]`;
      const when = condition === undefined ? undefined : compile(condition, `${where}.condition`, 'bool');
      const change = compile(expression, `${where}.expression`, 'any');
      return change === undefined ? [] : [{ name, type, condition: when, change }];
    },
  );
}
