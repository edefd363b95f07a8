import { isJsonObject, type JsonObject } from '../../json/json.ts';
import { toJson, type ApiObject } from '../api-object.ts';
import { difference, setOfFields, type FieldSet } from './field-set.ts';

/** Nobody manages these (k8s.io/apimachinery/pkg/util/managedfields/internal/stripmeta.go). */
const UNTRACKED = setOfFields([
  ['apiVersion'],
  ['kind'],
  ['metadata'],
  ['metadata', 'name'],
  ['metadata', 'namespace'],
  ['metadata', 'creationTimestamp'],
  ['metadata', 'selfLink'],
  ['metadata', 'uid'],
  ['metadata', 'clusterName'],
  ['metadata', 'generation'],
  ['metadata', 'managedFields'],
  ['metadata', 'resourceVersion'],
]);

export const trackedOnly = (fields: FieldSet): FieldSet => difference(fields, UNTRACKED);

/** What of an object can have managers: not managedFields, nor the fields that the endpoint resets. */
export function trackedPart(object: ApiObject, reset: readonly string[]): JsonObject {
  const { metadata, ...rest } = toJson(object);
  const tracked = isJsonObject(metadata) ? withoutFields(metadata, ['managedFields']) : {};
  return withoutFields({ ...rest, metadata: tracked }, reset);
}

export function withoutFields(object: JsonObject, names: readonly string[]): JsonObject {
  if (!names.some((name) => Object.hasOwn(object, name))) return object;
  return Object.fromEntries(Object.entries(object).filter(([name]) => !names.includes(name)));
}
