/**
 * Whether a change reads what an earlier one of the policy writes. Between two changes, the API server turns an object of a
 * built-in kind into its Go type and back. That drops empty fields, such as labels without a label, and may write others
 * differently, such as quantities. The webhook applies all changes to the same JSON.
 */
import type { CelProgram } from '../../../cel/cel.ts';
import type { CompiledDefault, CompiledPolicy } from '../../policy/compiled-policy.ts';
import { isOfCustomKinds } from './custom-kinds.ts';
import { overlapAny, parentsNeeded, pathsWritten, valuesRead, type Path } from './paths.ts';

interface Step {
  readonly name: string;
  /** What the API server may drop, or write in another way. */
  readonly writes: readonly Path[];
  readonly needs: readonly Path[];
}

/** Why all changes stay in the webhook; undefined: no field that the API server may drop matters. */
export function droppedProblem(policy: CompiledPolicy): string | undefined {
  const { defaults, mutations, match } = policy;
  if (match.apiGroups.every(isOfCustomKinds)) return undefined;
  const read = (program: CelProgram | undefined) =>
    program === undefined ? [] : valuesRead(policy, program);
  const steps: readonly Step[] = [
    ...defaults.map((rule) => ({
      ...{ name: `the default of ${rule.path.text}`, writes: isKept(rule) ? [] : [rule.path.segments] },
      needs: rule.kind === 'expression' ? read(rule.expression.program) : [],
    })),
    ...mutations.map((mutation) => ({
      ...{ name: `mutation ${mutation.name}`, writes: pathsWritten(mutation) },
      needs: [
        ...read(mutation.condition?.program),
        ...read(mutation.change.program),
        ...parentsNeeded(mutation),
      ],
    })),
  ];
  for (const [index, { name, writes }] of steps.entries()) {
    const later = steps.slice(index + 1).find(({ needs }) => overlapAny(needs, writes));
    if (later !== undefined)
      return `${later.name} needs what ${name} writes, and the API server drops empty fields of built-in kinds in between: make one change of both`;
  }
  return undefined;
}

/** Whether the value is true or a text that is no number, quantity or time. */
const isKept = (rule: CompiledDefault): boolean =>
  rule.kind === 'value' &&
  (rule.value === true || (typeof rule.value === 'string' && /^[a-z]/i.test(rule.value)));
