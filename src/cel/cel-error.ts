/** Where in an expression something is; both count from 1, in characters. */
export interface CelPosition {
  readonly line: number;
  readonly column: number;
}

/** The place of the n-th UTF-16 unit. */
export function positionOf(source: string, at: number): CelPosition {
  const before = source.slice(0, at).split('\n');
  return { line: before.length, column: Array.from(before.at(-1) ?? '').length + 1 };
}

export const syntaxError = (source: string, message: string, at: number): CelError =>
  new CelError(`Syntax error: ${message}`, { position: positionOf(source, at) });

/** An expression does not compile, or its evaluation failed. The message has no position and no copy of the source. */
export class CelError extends Error {
  override name = 'CelError';
  /** Where it does not compile; undefined of evaluations. */
  readonly position: CelPosition | undefined;

  constructor(message: string, options: ErrorOptions & { readonly position?: CelPosition } = {}) {
    // A stack of the evaluator is useless, and takes longer to record than a small expression takes to run: `exists` may swallow
    // thousands of errors.
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    super(message, options);
    Error.stackTraceLimit = stackTraceLimit;
    this.position = options.position;
  }
}

/** The evaluation took more than it may. Unlike other errors it cannot be swallowed by `||`, `exists` and their like. */
export class CelCostError extends CelError {
  constructor() {
    super('operation cancelled: actual cost limit exceeded');
  }
}

/** An operator or function was called with values that it has no meaning for; in the API server's words. */
export const noSuchOverload = (called = ''): CelError =>
  new CelError(called === '' ? 'no such overload' : `no such overload: ${called}`);

/** A RangeError is a stack that overflowed, or a value beyond all bounds: the fault of an expression, or of the values it saw. */
export function asCelError(error: unknown): CelError {
  if (error instanceof CelError) return error;
  const message = error instanceof Error ? error.message : 'evaluation failed';
  if (!(error instanceof RangeError)) return new CelError(message, { cause: error });
  const why = message.includes('call stack')
    ? 'the expression or its values nest too deep'
    : 'a value is too large';
  return new CelError(why, { cause: error });
}
