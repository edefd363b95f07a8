import type { JsonValue } from '../../json/json.ts';
import { ANYTHING, type Schema } from '../schema/schema.ts';

// Schemas of built-in kinds declare types, defaults and merge keys. Their strategies validate the values.

export const STRING: Schema = { type: 'string' };
export const BOOLEAN: Schema = { type: 'boolean' };
export const INT32: Schema = { type: 'integer', format: 'int32' };
export const INT64: Schema = { type: 'integer', format: 'int64' };
export const TIME: Schema = { type: 'string', format: 'date-time' };
export const BYTES: Schema = { type: 'string', format: 'byte' };
export const INT_OR_STRING: Schema = { 'x-kubernetes-int-or-string': true };

export const object = (properties: Readonly<Record<string, Schema>>): Schema => ({
  type: 'object',
  properties,
});

export const openObject = (properties: Readonly<Record<string, Schema>>): Schema => ({
  ...object(properties),
  ...ANYTHING,
});

export const mapOf = (values: Schema): Schema => ({ type: 'object', additionalProperties: values });
export const STRINGS_BY_KEY: Schema = mapOf(STRING);

export const atomic = (schema: Schema): Schema =>
  schema.type === 'array'
    ? { ...schema, 'x-kubernetes-list-type': 'atomic' }
    : { ...schema, 'x-kubernetes-map-type': 'atomic' };

export const listOf = (items: Schema): Schema => atomic({ type: 'array', items });
export const STRINGS: Schema = listOf(STRING);

/** A list whose items are identified by `keys` in server-side apply and in strategic merge patch. */
export const keyedList = (items: Schema, keys: readonly string[], mergeKey = keys[0] ?? ''): Schema => ({
  type: 'array',
  items,
  'x-kubernetes-list-type': 'map',
  'x-kubernetes-list-map-keys': keys,
  'x-kubernetes-patch-strategy': 'merge',
  'x-kubernetes-patch-merge-key': mergeKey,
});

export const withDefault = (schema: Schema, value: JsonValue): Schema => ({ ...schema, default: value });

export const LABEL_SELECTOR: Schema = atomic(
  object({
    matchLabels: STRINGS_BY_KEY,
    matchExpressions: listOf(object({ key: STRING, operator: STRING, values: STRINGS })),
  }),
);

/** meta/v1 Condition and older condition types, keyed by type. */
export const CONDITIONS: Schema = keyedList(
  object({
    type: STRING,
    status: STRING,
    observedGeneration: INT64,
    lastTransitionTime: TIME,
    lastUpdateTime: TIME,
    lastProbeTime: TIME,
    reason: STRING,
    message: STRING,
  }),
  ['type'],
);

export const OBJECT_REFERENCE: Schema = atomic(
  object({
    kind: STRING,
    namespace: STRING,
    name: STRING,
    uid: STRING,
    apiVersion: STRING,
    resourceVersion: STRING,
    fieldPath: STRING,
  }),
);

export const LOCAL_REFERENCE: Schema = atomic(object({ name: STRING }));
