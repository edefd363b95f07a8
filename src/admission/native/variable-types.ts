import {
  compileCel,
  type CelOptions,
  type CelProgram,
  type CelVariables,
  onCelError,
} from '../../cel/cel.ts';
import { ADMISSION_VARIABLES, NAMESPACE_OBJECT } from '../../cel/match-condition.ts';
import { memoizeWeak } from '../../json/json.ts';
import type { CompiledPolicy } from '../policy/compiled-policy.ts';
import { variablesOf } from '../policy/expressions/expression.ts';

export const NAMED_TYPES = ['string', 'bool', 'list(string)', 'list(bool)'];

/** An object may have fields of other types until the API server has validated it, so its schema does not count. */
export const variablesFor = memoizeWeak(
  ({ variables, params }: CompiledPolicy): Exclude<CelVariables, readonly string[]> => {
    const base = {
      ...ADMISSION_VARIABLES,
      namespaceObject: NAMESPACE_OBJECT,
      ...(params === undefined ? {} : { params: 'dyn' }),
    };
    const fields: Record<string, string> = {};
    for (const { name, expression } of variables) {
      const known = { ...base, refs: 'dyn', variables: { fields: { ...fields } } };
      fields[name] = typeIn(expression.program.expression, known);
    }
    return { ...base, variables: { fields } };
  },
);

/** The type that the values of an expression certainly have; dyn if it is unknown. */
export const exactTypeOf = (policy: CompiledPolicy, { expression }: CelProgram): string =>
  typeIn(expression, { ...variablesFor(policy), refs: 'dyn' }, { exactTypes: true });

/** The functions that may distinguish 2 from 2.0, because nothing in the expression decides which of them a number is. */
export function distinguishingIn(policy: CompiledPolicy, program: CelProgram): readonly string[] {
  const known = { ...variablesFor(policy), refs: 'dyn' };
  const typed = () => compileCel(program.expression, known, { exactTypes: true });
  return [...onCelError(typed, () => program).distinguishing];
}

/** Why variables keep an expression in the webhook: the API server relies on a type that their values can lack. */
export function variablesProblem(
  policy: CompiledPolicy,
  programs: readonly CelProgram[],
): string | undefined {
  const wrong = variablesOf(policy, programs).find(({ name }) => uncertainIn(policy).has(name));
  return wrong && `the API server may infer another type for variables.${wrong.name}; write dyn(…)`;
}

const uncertainIn = memoizeWeak((policy: CompiledPolicy): ReadonlySet<string> => {
  const known = { ...variablesFor(policy), refs: 'dyn' };
  const isUncertain = ({ expression: { program } }: CompiledPolicy['variables'][number]) =>
    typeIn(program.expression, known) !== typeIn(program.expression, known, { exactTypes: true });
  return new Set(policy.variables.filter(isUncertain).map(({ name }) => name));
});

/** Types without a name count as dyn. */
function typeIn(text: string, known: CelVariables, options: CelOptions = {}): string {
  const type = onCelError(
    () => compileCel(text, known, options).type,
    () => 'dyn',
  );
  return [...NAMED_TYPES, 'int'].includes(type) ? type.replace('(', '<').replace(')', '>') : 'dyn';
}
