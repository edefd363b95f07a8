import { mapGet, mapKeys } from './maps.ts';
import { type CelType, parameter } from './type.ts';
import { isList, isMap, isOptional, optional } from './values.ts';

type Coercion = (value: unknown) => unknown;

/**
 * Makes doubles of integers where the schema says `number`: JSON does not tell 3 from 3.0, and a rule that multiplies a
 * ratio by 1.5 must not fail because somebody wrote a whole number.
 *
 * @returns undefined when values of the type need no change
 */
export function coercionTo(type: CelType): Coercion | undefined {
  if (type.kind === 'named') return type.name === 'double' ? toDouble : undefined;
  if (type.kind !== 'list' && type.kind !== 'map' && type.kind !== 'optional') return undefined;
  const inner = coercionTo(parameter(type, type.kind === 'map' ? 1 : 0));
  if (inner === undefined) return undefined;
  return (value) => {
    if (isList(value)) return value.map(inner);
    if (isOptional(value)) return value.value === undefined ? value : optional(inner(value.value));
    return isMap(value) ? new Map(mapKeys(value).map((key) => [key, inner(mapGet(value, key))])) : value;
  };
}

const toDouble: Coercion = (value) => (typeof value === 'bigint' ? Number(value) : value);
