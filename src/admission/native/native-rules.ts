/** Rules as validations of the API server. */
import { CelError, compileCel, type CelProgram, type CelVariables } from '../../cel/cel.ts';
import type { CompiledPolicy, CompiledRule } from '../policy/compiled-policy.ts';
import type { CompiledExpression } from '../policy/expressions/expression.ts';
import { exceptionsProblem, inWords, type NativeCheck, type Validation } from './native-check.ts';

export function ruleValidations(policy: CompiledPolicy): readonly NativeCheck[] {
  const excepted = exceptionsProblem(policy);
  return policy.rules.map((rule): NativeCheck => {
    const check = `rule ${rule.name}`;
    const reason = excepted ?? problemOf(policy, rule);
    return reason === undefined
      ? { check, by: 'APIServer', validation: validationOf(policy, rule) }
      : { check, by: 'Webhook', reason };
  });
}

const NAMES: CelVariables = {
  ...Object.fromEntries(
    ['object', 'oldObject', 'request', 'namespaceObject', 'variables', 'params', 'refs'].map((name) => [
      name,
      'dyn',
    ]),
  ),
  authorizer: 'authorizer',
  'authorizer.requestResource': 'resourceCheck',
};

function problemOf(policy: CompiledPolicy, rule: CompiledRule): string | undefined {
  const { expression, message, messageExpression, reason } = rule;
  if (reason === 'Unauthorized') return 'the API server has no reason Unauthorized for a refusal';
  if (message?.includes('\n') === true) return 'its message has a line break';
  const parts = [expression, ...(messageExpression === undefined ? [] : [messageExpression])];
  for (const { reads } of parts) {
    if (reads.refs.size > 0) return `it reads refs.${[...reads.refs].join(', refs.')}`;
    if (reads.params) return 'it reads params';
  }
  const used = parts.flatMap((part) => variablesOf(policy, part.program));
  for (const { program } of [...parts, ...used.map((variable) => variable.expression)]) {
    const mixed = mixedLiteral(program.expression);
    if (mixed !== undefined) return `the API server refuses its expression: ${mixed}`;
  }
  return undefined;
}

/** Gatehouse accepts lists and maps with values of several types, which the API server refuses. */
function mixedLiteral(expression: string): string | undefined {
  try {
    compileCel(expression, NAMES, { uniformLiterals: true });
    return undefined;
  } catch (error) {
    if (!(error instanceof CelError)) throw error;
    return error.message;
  }
}

/** The variables that an expression uses, also through others, in their order. */
function variablesOf({ variables }: CompiledPolicy, program: CelProgram): CompiledPolicy['variables'] {
  const used = new Set<string>();
  const visit = ({ reads }: CelProgram): void => {
    const fields = reads.get('variables') ?? [];
    for (const name of fields === 'all' ? variables.map((one) => one.name) : fields) {
      const found = variables.find((one) => one.name === name);
      if (found === undefined || used.has(name)) continue;
      used.add(name);
      visit(found.expression.program);
    }
  };
  visit(program);
  return variables.filter(({ name }) => used.has(name));
}

/** The declarations of all variables that the validations use. */
export function usedVariables(
  policy: CompiledPolicy,
  validations: readonly Validation[],
): readonly { readonly name: string; readonly expression: string }[] {
  const programs = validations.flatMap(({ expression, messageExpression }) =>
    [expression, ...(messageExpression === undefined ? [] : [messageExpression])].map((text) =>
      compileCel(text, NAMES),
    ),
  );
  const names = new Set(programs.flatMap((program) => variablesOf(policy, program).map(({ name }) => name)));
  return policy.variables
    .filter(({ name }) => names.has(name))
    .map(({ name, expression }) => ({ name, expression: expression.program.expression }));
}

function validationOf(policy: CompiledPolicy, rule: CompiledRule): Validation {
  const { expression, message, messageExpression, reason = 'Forbidden', field = '' } = rule;
  const named = (text: string) => (rule.name.startsWith('rules[') ? text : `${text} (rule ${rule.name})`);
  const { program } = expression;
  const fixed = message ?? `does not satisfy ${program.expression.replace(/\s+/g, ' ')}`;
  return {
    expression: program.type === 'bool' ? program.expression : `(${program.expression}\n) == true`,
    message: inWords(policy, field, named(fixed)),
    ...(messageExpression === undefined
      ? {}
      : { messageExpression: messageFor(messageExpression, inWords(policy, field, named(HERE))) }),
    reason: reason === 'Unauthorized' ? 'Forbidden' : reason,
  };
}

const HERE = '\u0000';

/** An empty message, or one that is no text, leads to the fixed message, as in the webhook. */
function messageFor({ program }: CompiledExpression, around: string): string {
  const [before = '', after = ''] = around.split(HERE).map((part) => JSON.stringify(part));
  return (
    `[dyn(${program.expression}\n)].map(said, type(said) == string && string(said).trim() != '' ? ` +
    `${before} + string(said) + ${after} : '')[0]`
  );
}
