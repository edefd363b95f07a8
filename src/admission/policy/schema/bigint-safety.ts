import { isJsonArray, isJsonObject } from '../../../json/json.ts';

/** With one of these a schema can accept what another part of it refuses. */
const CONTRARY = ['not', 'if', 'oneOf', 'maxContains', 'unevaluatedItems', 'unevaluatedProperties'];
/** Ajv asks these of numbers alone, and to it a bigint is none. */
const NUMERIC = ['minimum', 'maximum', 'exclusiveMinimum', 'exclusiveMaximum', 'multipleOf'];

/**
 * Whether Ajv is right to accept an object with bigints in it: whatever they have to satisfy has Ajv refuse them, because to it they
 * are of no type at all. Then only what it refuses needs a second look, with numbers in their place.
 *
 * Everything that is called like a keyword counts as one, also the name of a property: to be wrong costs time and nothing else.
 */
export function isSafeWithBigints(schema: unknown): boolean {
  if (isJsonArray(schema)) return schema.every(isSafeWithBigints);
  if (!isJsonObject(schema)) return true;
  const has = (keyword: string) => Object.hasOwn(schema, keyword);
  if (CONTRARY.some(has) || (NUMERIC.some(has) && !has('type'))) return false;
  return Object.values(schema).every(isSafeWithBigints);
}
