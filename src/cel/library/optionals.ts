import { CelError, noSuchOverload } from '../cel-error.ts';
import { isDuration, isList, isMap, isOptional, isUint, mapSize, NONE, optional } from '../values/values.ts';
import { define } from './define.ts';

/** Whether the value is the zero value of its type: 0, false, null, or an empty text, list or map. */
function isZero(value: unknown): boolean {
  if (value === null || value === '' || value === false || value === 0 || value === 0n) return true;
  if (isList(value) || value instanceof Uint8Array) return value.length === 0;
  if (isUint(value)) return value.value === 0n;
  if (isDuration(value)) return value.nanos === 0n;
  return isMap(value) && mapSize(value) === 0;
}

/** `compile-call.ts` compiles `or` and `orValue`, because they evaluate their argument only if needed. */
export const optionals = [
  define('optional.of(T): optional<T>', optional),
  define('optional.ofNonZeroValue(T): optional<T>', (value) => (isZero(value) ? NONE : optional(value))),
  define('optional.none(): optional<T>', () => NONE),
  define('<optional<T>>.hasValue(): bool', ({ value }) => value !== undefined),
  define('<optional<T>>.value(): T', ({ value }) => {
    if (value === undefined) throw new CelError('optional.none() dereference');
    return value;
  }),
  define('<optional<T>>.or(optional<T>): optional<T>', (self, other) =>
    self.value === undefined ? other : self,
  ),
  define('<optional<T>>.orValue(T): T', (self, other) => (self.value === undefined ? other : self.value)),
];

export const elements = [
  define(
    'optional.unwrap(list<optional<T>>): list<T>',
    (list) => unwrap('optional.unwrap', list),
    (list) => 1 + list.length,
  ),
  define(
    '<list<optional<T>>>.unwrapOpt(): list<T>',
    (list) => unwrap('unwrapOpt', list),
    (list) => 1 + list.length,
  ),
  define('<list<T>>.first(): optional<T>', (list) => optional(list[0])),
  define('<list<T>>.last(): optional<T>', (list) => optional(list.at(-1))),
];

const unwrap = (name: string, list: readonly unknown[]) =>
  list.flatMap((item) => {
    if (!isOptional(item)) throw noSuchOverload(`${name}(list)`);
    return item.value === undefined ? [] : [item.value];
  });
