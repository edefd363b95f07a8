/**
 * A parsed expression, macros expanded. `at` is where messages about it point: at the operator, the opening parenthesis of a
 * call, the first character of anything else, as cel-go does.
 */
export type Expression =
  | { readonly kind: 'literal'; readonly value: unknown; readonly at: number }
  | Identifier
  | Select
  | Call
  | { readonly kind: 'list'; readonly items: readonly Item[]; readonly at: number }
  | { readonly kind: 'map'; readonly entries: readonly Entry[]; readonly at: number }
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

/** Operators are calls too, of functions with names such as `_+_`. */
export interface Call {
  readonly kind: 'call';
  readonly name: string;
  readonly target: Expression | undefined;
  readonly arguments: readonly Expression[];
  readonly at: number;
}

export interface Item {
  readonly value: Expression;
  /** Written `[?value]`: left out when the optional has no value. */
  readonly optional: boolean;
}

export interface Entry extends Item {
  readonly key: Expression;
}

/** A macro that walks over a list, or over the keys of a map. */
export interface Comprehension {
  readonly kind: 'comprehension';
  readonly macro:
    'all' | 'exists' | 'existsOne' | 'map' | 'filter' | 'transformMap' | 'transformMapEntry' | 'sortBy';
  readonly range: Expression;
  /** One, or two: then index and element, or key and value. */
  readonly variables: readonly string[];
  readonly filter: Expression | undefined;
  readonly body: Expression;
  readonly at: number;
}

/** `optMap` and `optFlatMap`. */
export interface OptionalMap {
  readonly kind: 'optionalMap';
  readonly operand: Expression;
  readonly variable: string;
  readonly body: Expression;
  readonly flat: boolean;
  readonly at: number;
}
