/** A position in an expression. Line and column count from 1, in characters. */
export interface CelPosition {
  readonly line: number;
  readonly column: number;
}

export function positionOf(source: string, at: number): CelPosition {
  const before = source.slice(0, at).split('\n');
  return { line: before.length, column: Array.from(before.at(-1) ?? '').length + 1 };
}

export const syntaxError = (source: string, message: string, at: number): CelError =>
  new CelError(`Syntax error: ${message}`, { position: positionOf(source, at) });

export interface UnknownName {
  readonly kind: 'field' | 'function' | 'variable';
  readonly name: string;
  /** The fields or functions that exist; empty for variables, which the caller declares. */
  readonly known: readonly string[];
  /** The path of the object that lacks the field. */
  readonly of?: string;
}

/** A compile or evaluation error of an expression. The message contains neither a position nor the source. */
export class CelError extends Error {
  override name = 'CelError';
  /** The position of a compile error; undefined for evaluation errors. */
  readonly position: CelPosition | undefined;
  /** The name that does not exist, if that is the error. */
  readonly unknown: UnknownName | undefined;

  constructor(
    message: string,
    options: ErrorOptions & { readonly position?: CelPosition; readonly unknown?: UnknownName } = {},
  ) {
    // Skip the stack trace: it is useless, and recording it takes longer than evaluating a small expression.
    const { stackTraceLimit } = Error;
    Error.stackTraceLimit = 0;
    super(message, options);
    Error.stackTraceLimit = stackTraceLimit;
    this.position = options.position;
    this.unknown = options.unknown;
  }
}

/** What `act` returns; if it throws a CelError, what `otherwise` makes of it. */
export function onCelError<T, Other>(act: () => T, otherwise: (error: CelError) => Other): T | Other {
  try {
    return act();
  } catch (error) {
    if (!(error instanceof CelError)) throw error;
    return otherwise(error);
  }
}

/** The evaluation exceeded its cost limit. Unlike other errors, `||`, `exists` and the like cannot absorb it. */
export class CelCostError extends CelError {
  constructor(detail?: string) {
    super(['operation cancelled: actual cost limit exceeded', detail].filter(Boolean).join(': '));
  }
}

/** The answer of the authorizer is missing so far. If the result depends on it, the caller asks and evaluates again. */
export class CelUnansweredError extends CelError {
  constructor() {
    super('the authorizer has not answered yet');
  }
}

/** No overload of an operator or function accepts these values. The API server uses the same message. */
export const noSuchOverload = (called = ''): CelError =>
  new CelError(called === '' ? 'no such overload' : `no such overload: ${called}`);

/** A RangeError is a stack overflow or a value that is too large: the expression or its input caused it. */
export function asCelError(error: unknown): CelError {
  if (error instanceof CelError) return error;
  const message = error instanceof Error ? error.message : 'evaluation failed';
  if (!(error instanceof RangeError)) return new CelError(message, { cause: error });
  const why = message.includes('call stack')
    ? 'the expression or its values nest too deep'
    : 'a value is too large';
  return new CelError(why, { cause: error });
}
