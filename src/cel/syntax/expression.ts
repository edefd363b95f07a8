/** With expanded macros. `at`, for messages: the operator, the parenthesis of a call, or the first character. */
export type Expression =
  | { readonly kind: 'literal'; readonly value: unknown; readonly at: number }
  | Identifier
  | Select
  | Call
  | { readonly kind: 'list'; readonly items: readonly Item[]; readonly at: number }
  | { readonly kind: 'map'; readonly entries: readonly Entry[]; readonly at: number }
  | Message
  | Comprehension
  | OptionalMap;

export interface Identifier {
  readonly kind: 'identifier';
  readonly name: string;
  readonly at: number;
}

export interface Select {
  readonly kind: 'select';
  readonly operand: Expression;
  readonly field: string;
  /** `read` is `.field`, `optional` is `.?field`, `test` is `has(….field)`. */
  readonly mode: 'read' | 'optional' | 'test';
  readonly at: number;
}

export interface Call {
  readonly kind: 'call';
  readonly name: string;
  readonly target: Expression | undefined;
  readonly arguments: readonly Expression[];
  readonly at: number;
}

export interface Item {
  readonly value: Expression;
  /** Written `[?value]`: omitted if the optional is empty. */
  readonly optional: boolean;
}

export interface Entry extends Item {
  readonly key: Expression;
}

/** A message such as `Object.spec{replicas: 1}`. Only mutations of the API server have message types. */
export interface Message {
  readonly kind: 'message';
  readonly name: string;
  readonly fields: readonly MessageField[];
  readonly at: number;
}

export interface MessageField extends Item {
  readonly name: string;
  readonly at: number;
}

export interface Comprehension {
  readonly kind: 'comprehension';
  readonly macro:
    'all' | 'exists' | 'existsOne' | 'map' | 'filter' | 'transformMap' | 'transformMapEntry' | 'sortBy';
  readonly range: Expression;
  /** One variable, or two: index and element, or key and value. */
  readonly variables: readonly string[];
  readonly filter: Expression | undefined;
  readonly body: Expression;
  readonly at: number;
}

export interface OptionalMap {
  readonly kind: 'optionalMap';
  readonly operand: Expression;
  readonly variable: string;
  readonly body: Expression;
  readonly flat: boolean;
  readonly at: number;
}

/** The value of `dyn(…)`, which lets the branches of a conditional have several types. */
export function withoutDyn(expression: Expression): Expression {
  if (expression.kind !== 'call' || expression.name !== 'dyn') return expression;
  const [value] = expression.arguments;
  return value === undefined ? expression : withoutDyn(value);
}
