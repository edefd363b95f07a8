import type { ApiObject } from '../../api-object.ts';
import { invalidValue, tooLong, forbiddenValue } from '../../schema/causes.ts';
import type { Cause } from '../../failure.ts';
import type { ResourceType } from '../../resource-type.ts';
import { AGE, builtInKind } from '../built-in-kind.ts';
import { configKeyProblem } from '../name-problems.ts';
import { stringMap, flag } from '../../fields.ts';
import { BOOLEAN, BYTES, mapOf, STRINGS_BY_KEY } from '../schema-builders.ts';
import { isEqual } from '../../../json/json.ts';

/** The limit for all values together in bytes, with binary values decoded. */
const MAX_DATA = 1024 * 1024;

/** v1 ConfigMap. */
export const CONFIG_MAP: ResourceType = builtInKind({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  resource: 'configmaps',
  namespaced: true,
  shortNames: ['cm'],
  description: 'Configuration that programs read.',
  fields: { immutable: BOOLEAN, data: STRINGS_BY_KEY, binaryData: mapOf(BYTES) },
  columns: [
    {
      name: 'Data',
      type: 'string',
      description: 'How many keys the data has.',
      value: (map) =>
        Object.keys(stringMap(map, 'data')).length + Object.keys(stringMap(map, 'binaryData')).length,
    },
    AGE,
  ],
  strategy: {
    validate: configMapProblems,
    validateUpdate: (map, old) => frozenProblems(map, old, ['data', 'binaryData']),
  },
});

/** Follows ValidateConfigMap of pkg/apis/core/validation. */
function configMapProblems(map: ApiObject): readonly Cause[] {
  const data = stringMap(map, 'data');
  const binary = stringMap(map, 'binaryData');
  const size =
    Object.values(data).reduce((sum, value) => sum + Buffer.byteLength(value), 0) +
    Object.values(binary).reduce((sum, value) => sum + Buffer.from(value, 'base64').length, 0);
  return [
    ...Object.keys(data).flatMap((key) => [
      ...keyProblems(key, `data[${key}]`),
      ...(Object.hasOwn(binary, key)
        ? [invalidValue(`data[${key}]`, key, 'duplicate of key present in binaryData')]
        : []),
    ]),
    ...Object.keys(binary).flatMap((key) => keyProblems(key, `binaryData[${key}]`)),
    // The path is empty because the problem concerns the whole map.
    ...(size > MAX_DATA ? [tooLong('[]', MAX_DATA)] : []),
  ];
}

function keyProblems(key: string, field: string): readonly Cause[] {
  const problem = configKeyProblem(key);
  return problem === undefined ? [] : [invalidValue(field, key, problem)];
}

/** Rejects changes to the data of an immutable Secret or ConfigMap. */
export function frozenProblems(
  object: ApiObject,
  old: ApiObject,
  fields: readonly string[],
): readonly Cause[] {
  if (!flag(old, 'immutable')) return [];
  const why = 'field is immutable when `immutable` is set';
  const changed = fields.filter((name) => !isEqual(stringMap(object, name), stringMap(old, name)));
  return [
    ...(flag(object, 'immutable') ? [] : [forbiddenValue('immutable', why)]),
    ...changed.map((name) => forbiddenValue(name, why)),
  ];
}
