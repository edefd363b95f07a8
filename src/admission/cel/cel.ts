import {
  Environment,
  EvaluationError,
  Optional,
  ParseError,
  TypeError as CelTypeError,
} from '@marcbachmann/cel-js';
import { celValue } from './cel-value.ts';
import { matches } from './regular-expression.ts';

/** An expression does not compile, or its evaluation failed. The message has no position and no copy of the source. */
export class CelError extends Error {
  override name = 'CelError';
}

export interface CelProgram {
  /** As written. */
  readonly expression: string;
  /** Of the result: `bool`, `string`, … or `dyn` where only the values will tell. */
  readonly type: string;
  /** The names that it mentions, variables of macros among them. */
  readonly names: ReadonlySet<string>;
  /**
   * Runs it with JSON values (see `celValue`), one for each variable that it reads.
   *
   * @returns a CEL value: integers are bigint, maps Map or object
   * @throws CelError such as `no such key: x`
   */
  readonly evaluate: (bindings: Readonly<Record<string, unknown>>) => unknown;
  /** The same with values that are CEL values already. */
  readonly run: (values: Readonly<Record<string, unknown>>) => unknown;
}

/** Expressions come from users: deeper or longer ones are refused when they are compiled, not when they run. */
const limits = { maxAstNodes: 10_000, maxDepth: 100 };

const base = new Environment({
  enableOptionalTypes: true,
  homogeneousAggregateLiterals: false,
  limits,
})
  .registerFunction('matches(string, string): bool', matchesOrFail)
  .registerFunction('string.__re2_matches__(string): bool', matchesOrFail);

/**
 * Compiles an expression over variables of any type.
 *
 * @throws CelError when it does not parse, or names a variable or a function that there is not
 */
export function compileCel(expression: string, variables: readonly string[]): CelProgram {
  const environment = variables.reduce((env, name) => env.registerVariable(name, 'dyn'), base.clone());
  try {
    const program = environment.parse(expression);
    const names = new Set<string>();
    prepare(program.ast, names);
    const checked = program.check();
    if (!checked.valid) throw checked.error ?? new Error('the expression has no type');
    const run: CelProgram['run'] = (values) => {
      try {
        return program(values) as unknown;
      } catch (error) {
        throw asCelError(error);
      }
    };
    const evaluate: CelProgram['evaluate'] = (bindings) =>
      run(Object.fromEntries(Object.entries(bindings).map(([name, value]) => [name, celValue(value)])));
    return { expression, type: checked.type ?? 'dyn', names, run, evaluate };
  } catch (error) {
    throw asCelError(error);
  }
}

function matchesOrFail(text: string, pattern: string): boolean {
  try {
    return matches(text, pattern);
  } catch (cause) {
    throw new CelError(cause instanceof Error ? cause.message : 'invalid regular expression', { cause });
  }
}

/** CEL's optional values; `undefined` is none. */
export const celOptional = (value: unknown): unknown =>
  value === undefined ? Optional.none() : Optional.of(value);

/**
 * Collects the names in a parsed expression, and has it use RE2.
 *
 * The library's `matches` is JavaScript's RegExp, whose time a hostile pattern can blow up, and an overload cannot be replaced:
 * so its calls are renamed to ours before they are checked.
 */
function prepare(node: unknown, names: Set<string>): void {
  if (Array.isArray(node)) {
    for (const item of node) prepare(item, names);
    return;
  }
  if (typeof node !== 'object' || node === null || !('op' in node) || !('args' in node)) return;
  const { op, args } = node;
  if (op === 'id' && typeof args === 'string') names.add(args);
  if (op === 'rcall' && Array.isArray(args) && args[0] === 'matches') args[0] = '__re2_matches__';
  prepare(args, names);
}

const INDEX = /index (-?\d+)/;

function asCelError(error: unknown): CelError {
  if (error instanceof CelError) return error;
  if (!(error instanceof EvaluationError || error instanceof ParseError || error instanceof CelTypeError)) {
    return new CelError(error instanceof Error ? error.message : 'evaluation failed', { cause: error });
  }
  return new CelError(wording(error.code, error.summary), { cause: error });
}

/** The API server's words where the library has others. */
function wording(code: string, summary: string): string {
  switch (code) {
    case 'no_such_key':
      return summary.replace(/^No such key/, 'no such key');
    case 'index_out_of_bounds':
      return `index out of bounds: ${INDEX.exec(summary)?.[1] ?? ''}`;
    case 'modulo_by_zero':
      return 'modulus by zero';
    case 'unknown_variable':
      return `undeclared reference to '${summary.replace(/^Unknown variable: /, '')}' (in container '')`;
    case 'no_such_overload':
      return 'no such overload';
    default:
      return summary;
  }
}
