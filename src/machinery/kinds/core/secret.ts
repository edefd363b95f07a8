import { ownValue, parseJson } from '../../../json/json.ts';
import { field, type ApiObject } from '../../api-object.ts';
import { invalidValue, requiredValue, tooLong } from '../../schema/causes.ts';
import { text, stringMap, withFields } from '../../fields.ts';
import type { Cause } from '../../failure.ts';
import type { ResourceType } from '../../resource-type.ts';
import { AGE, builtInKind } from '../built-in-kind.ts';
import { frozenProblems } from './config-map.ts';
import { configKeyProblem } from '../name-problems.ts';
import { BOOLEAN, BYTES, mapOf, STRING, STRINGS_BY_KEY, withDefault } from '../schema-builders.ts';

/** The limit for all decoded values together in bytes. */
const MAX_DATA = 1024 * 1024;

/** v1 Secret. */
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
    {
      name: 'Type',
      type: 'string',
      description: 'What the data is for.',
      value: (secret) => text(secret, 'type'),
    },
    {
      name: 'Data',
      type: 'string',
      description: 'How many keys the data has.',
      value: (secret) => Object.keys(stringMap(secret, 'data')).length,
    },
    AGE,
  ],
  selectableFields: { type: (secret) => text(secret, 'type') },
  strategy: {
    completeDefaults: encoded,
    prepareForCreate: encoded,
    prepareForUpdate: encoded,
    validate: secretProblems,
    validateUpdate: secretUpdateProblems,
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

/** The required keys of each Secret type (ValidateSecret of pkg/apis/core/validation). */
const NEEDED_KEYS: Readonly<Record<string, readonly string[]>> = {
  'kubernetes.io/tls': ['tls.crt', 'tls.key'],
  'kubernetes.io/dockercfg': ['.dockercfg'],
  'kubernetes.io/dockerconfigjson': ['.dockerconfigjson'],
  'kubernetes.io/ssh-auth': ['ssh-privatekey'],
};
const JSON_KEYS = ['.dockercfg', '.dockerconfigjson'];

function secretProblems(secret: ApiObject): readonly Cause[] {
  const data = stringMap(secret, 'data');
  const size = Object.values(data).reduce((sum, value) => sum + Buffer.from(value, 'base64').length, 0);
  return [
    ...Object.keys(data).flatMap((key) => {
      const problem = configKeyProblem(key);
      return problem === undefined ? [] : [invalidValue(`data[${key}]`, key, problem)];
    }),
    ...(size > MAX_DATA ? [tooLong('data', MAX_DATA)] : []),
    ...typeProblems(secret, text(secret, 'type'), data),
  ];
}

function typeProblems(
  secret: ApiObject,
  type: string,
  data: Readonly<Record<string, string>>,
): readonly Cause[] {
  switch (type) {
    case 'kubernetes.io/service-account-token': {
      const annotation = 'kubernetes.io/service-account.name';
      const name = ownValue(secret.metadata.annotations ?? {}, annotation) ?? '';
      return name === '' ? [requiredValue(`metadata.annotations[${annotation}]`)] : [];
    }
    case 'kubernetes.io/basic-auth': {
      // One of the two is enough.
      const either = ['username', 'password'];
      return either.some((key) => Object.hasOwn(data, key))
        ? []
        : either.map((key) => requiredValue(`data[${key}]`));
    }
    default:
      return (Object.hasOwn(NEEDED_KEYS, type) ? (NEEDED_KEYS[type] ?? []) : []).flatMap((key) =>
        keyProblems(key, Object.hasOwn(data, key) ? data[key] : undefined),
      );
  }
}

function keyProblems(key: string, value: string | undefined): readonly Cause[] {
  if (value === undefined) return [requiredValue(`data[${key}]`)];
  if (!JSON_KEYS.includes(key) || isJsonText(Buffer.from(value, 'base64').toString())) return [];
  return [invalidValue(`data[${key}]`, '<secret contents redacted>', 'invalid character in JSON input')];
}

function isJsonText(text: string): boolean {
  try {
    parseJson(text);
    return true;
  } catch {
    return false;
  }
}

function secretUpdateProblems(secret: ApiObject, old: ApiObject): readonly Cause[] {
  const type = text(secret, 'type');
  return [
    ...(type === text(old, 'type') ? [] : [invalidValue('type', type, 'field is immutable')]),
    ...frozenProblems(secret, old, ['data']),
  ];
}
