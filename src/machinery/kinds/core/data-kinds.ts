import { isEqual } from '../../../json/json.ts';
import { field, type ApiObject } from '../../api-object.ts';
import {
  forbiddenValue,
  invalidIf,
  invalidValue,
  requiredValue,
  tooLong,
  when,
} from '../../schema/causes.ts';
import { flag, stringMap, text, withFields } from '../../fields.ts';
import type { Cause } from '../../failure.ts';
import type { ResourceType } from '../../resource-type.ts';
import { AGE, builtInKind, column } from '../built-in-kind.ts';
import { configKeyProblem } from '../../name-problems.ts';
import { BOOLEAN, BYTES, mapOf, STRING, STRINGS_BY_KEY, withDefault } from '../schema-builders.ts';

/** The limit for all values together in bytes, with binary values decoded. */
const MAX_DATA = 1024 * 1024;
const DATA_COLUMN = 'How many keys the data has.';

const keysIn = (object: ApiObject, ...names: readonly string[]): readonly string[] =>
  names.flatMap((name) => Object.keys(stringMap(object, name)));

const decodedSize = (data: Readonly<Record<string, string>>): number =>
  Object.values(data).reduce((sum, value) => sum + Buffer.from(value, 'base64').length, 0);

const keyProblems = (object: ApiObject, name: string): readonly Cause[] =>
  keysIn(object, name).flatMap((key) => invalidIf(`${name}[${key}]`, key, configKeyProblem(key)));

export const CONFIG_MAP: ResourceType = builtInKind({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  resource: 'configmaps',
  namespaced: true,
  shortNames: ['cm'],
  description: 'Configuration that programs read.',
  fields: { immutable: BOOLEAN, data: STRINGS_BY_KEY, binaryData: mapOf(BYTES) },
  columns: [column('Data', DATA_COLUMN, (map) => keysIn(map, 'data', 'binaryData').length), AGE],
  strategy: {
    validate: configMapProblems,
    validateUpdate: (map, old) => frozenProblems(map, old, ['data', 'binaryData']),
  },
});

/** Follows ValidateConfigMap of pkg/apis/core/validation. */
function configMapProblems(map: ApiObject): readonly Cause[] {
  const [data, binary] = [stringMap(map, 'data'), stringMap(map, 'binaryData')];
  const size =
    Object.values(data).reduce((sum, value) => sum + Buffer.byteLength(value), 0) + decodedSize(binary);
  return [
    ...keyProblems(map, 'data'),
    ...keysIn(map, 'data')
      .filter((key) => Object.hasOwn(binary, key))
      .map((key) => invalidValue(`data[${key}]`, key, 'duplicate of key present in binaryData')),
    ...keyProblems(map, 'binaryData'),
    // The path is empty because the problem concerns the whole map.
    ...when(size > MAX_DATA, tooLong('[]', MAX_DATA)),
  ];
}

export const SECRET: ResourceType = builtInKind({
  apiVersion: 'v1',
  kind: 'Secret',
  resource: 'secrets',
  namespaced: true,
  description: 'Data that not everybody may see.',
  fields: {
    immutable: BOOLEAN,
    data: mapOf(BYTES),
    stringData: STRINGS_BY_KEY,
    type: withDefault(STRING, 'Opaque'),
  },
  columns: [
    column('Type', 'What the data is for.', (secret) => text(secret, 'type')),
    column('Data', DATA_COLUMN, (secret) => keysIn(secret, 'data').length),
    AGE,
  ],
  selectableFields: { type: (secret) => text(secret, 'type') },
  strategy: {
    completeDefaults: encoded,
    validate: secretProblems,
    validateUpdate: (secret, old) => {
      const type = text(secret, 'type');
      return [
        ...when(type !== text(old, 'type'), invalidValue('type', type, 'field is immutable')),
        ...frozenProblems(secret, old, ['data']),
      ];
    },
  },
});

/** stringData is write-only: it is encoded into data and overrides it. */
function encoded(secret: ApiObject): ApiObject {
  const type = text(secret, 'type') || 'Opaque';
  const plain = Object.entries(stringMap(secret, 'stringData'));
  const given = field(secret, 'data');
  const data = {
    ...stringMap(secret, 'data'),
    ...Object.fromEntries(plain.map(([key, value]) => [key, Buffer.from(value).toString('base64')])),
  };
  return withFields(secret, {
    type,
    data: plain.length === 0 ? given : data,
    stringData: undefined,
  });
}

/** Follows ValidateSecret of pkg/apis/core/validation; of the types with required keys, only TLS is checked. */
function secretProblems(secret: ApiObject): readonly Cause[] {
  const data = stringMap(secret, 'data');
  const needed = text(secret, 'type') === 'kubernetes.io/tls' ? ['tls.crt', 'tls.key'] : [];
  return [
    ...keyProblems(secret, 'data'),
    ...when(decodedSize(data) > MAX_DATA, tooLong('data', MAX_DATA)),
    ...needed.filter((key) => !Object.hasOwn(data, key)).map((key) => requiredValue(`data[${key}]`)),
  ];
}

function frozenProblems(object: ApiObject, old: ApiObject, fields: readonly string[]): readonly Cause[] {
  if (!flag(old, 'immutable')) return [];
  const why = 'field is immutable when `immutable` is set';
  const changed = fields.filter((name) => !isEqual(stringMap(object, name), stringMap(old, name)));
  return [
    ...when(!flag(object, 'immutable'), forbiddenValue('immutable', why)),
    ...changed.map((name) => forbiddenValue(name, why)),
  ];
}
