import { isJsonObject, type JsonObject, ownValue } from '../../json/json.ts';
import {
  BOOL,
  type CelType,
  DOUBLE,
  DYN,
  INT,
  listOf,
  mapOf,
  type ObjectField,
  type ObjectType,
  STRING,
  TIMESTAMP,
} from './type.ts';
import { RESERVED_WORDS } from '../syntax/parse.ts';

const RESERVED = new Set([...RESERVED_WORDS, 'true', 'false', 'null', 'in']);

/** Characters of property names, and their escapes in field names. */
const ESCAPES = [
  ['__', '__underscores__'],
  ['.', '__dot__'],
  ['-', '__dash__'],
  ['/', '__slash__'],
] as const;

/** Escaped as in validation rules of CRDs: `a-b` is `a__dash__b`, `in` is `__in__`. */
export function fieldName(property: string): string {
  if (RESERVED.has(property)) return `__${property}__`;
  return ESCAPES.reduce((name, [character, escape]) => name.replaceAll(character, escape), property);
}

export function propertyName(field: string): string {
  const [, word = ''] = /^__(\w+)__$/.exec(field) ?? [];
  if (RESERVED.has(word)) return word;
  return field.replaceAll(
    /__(?:underscores|dot|dash|slash)__/g,
    (found) => ESCAPES.find(([, escape]) => escape === found)?.[0] ?? found,
  );
}

/** The type of a structural schema. Values are unconverted JSON. `number` is the type of its numbers. Where several types are allowed, the type is dyn. */
export function objectType(schema: JsonObject, number = DOUBLE): CelType {
  const type = schemaType(schema, 'the object', number);
  if (type.kind !== 'object') return type;
  return { ...type, fields: new Map([...type.fields, ...ROOT_FIELDS]) };
}

function schemaType(schema: JsonObject, path: string, number: CelType): CelType {
  if (schema['x-kubernetes-int-or-string'] === true) return DYN;
  if (schema['x-kubernetes-embedded-resource'] === true) return embeddedType(schema, path, number);
  const type = structureOf(schema, path, number);
  // An object type includes null. Other nullable values can be compared with null only as dyn.
  return schema.nullable === true && type.kind !== 'object' ? DYN : type;
}

const SCALARS: ReadonlyMap<unknown, CelType> = new Map<unknown, CelType>([
  ['string', STRING],
  ['timestamp', TIMESTAMP], // never in CRDs: the type checks of admission policies use it
  ['integer', INT],
  ['boolean', BOOL],
]);

function structureOf(schema: JsonObject, path: string, number: CelType): CelType {
  const { type, items } = schema;
  if (type === 'array') return listOf(isJsonObject(items) ? schemaType(items, `${path}[]`, number) : DYN);
  if (type === 'object') return mapOrObject(schema, path, number);
  return type === 'number' ? number : (SCALARS.get(type) ?? DYN);
}

function mapOrObject(schema: JsonObject, path: string, number: CelType): CelType {
  const further = schema.additionalProperties;
  if (isJsonObject(further)) return mapOf(STRING, schemaType(further, `${path}{}`, number));
  const open = schema['x-kubernetes-preserve-unknown-fields'] === true || further === true;
  const { properties } = schema;
  if (!isJsonObject(properties)) return open ? DYN : objectOf(path, {}, false, number);
  return objectOf(path, properties, open, number);
}

function objectOf(path: string, properties: JsonObject, open: boolean, number: CelType): ObjectType {
  const types = Object.keys(properties).map((property) => {
    const schema = ownValue(properties, property);
    const inner = path === 'the object' ? property : `${path}.${property}`;
    return [property, isJsonObject(schema) ? schemaType(schema, inner, number) : DYN] as const;
  });
  return { kind: 'object', name: path, fields: fieldsOf(types), open };
}

/** Words such as `namespace` cannot name variables, but can name fields. */
function fieldsOf(types: readonly (readonly [string, CelType])[]): ReadonlyMap<string, ObjectField> {
  return new Map(
    types.flatMap(([property, type]) =>
      [fieldName(property), property].map((name) => [name, { property, type }] as const),
    ),
  );
}

function embeddedType(schema: JsonObject, path: string, number: CelType): CelType {
  const type = structureOf({ ...schema, type: 'object' }, path, number);
  const own = type.kind === 'object' ? type : objectOf(path, {}, true, number);
  return { ...own, fields: new Map([...own.fields, ...ROOT_FIELDS]) };
}

const closed = (name: string, types: Readonly<Record<string, CelType>>): CelType => ({
  kind: 'object',
  name,
  open: false,
  fields: fieldsOf(Object.entries(types)),
});

const OWNER = closed('metadata.ownerReferences[]', {
  apiVersion: STRING,
  kind: STRING,
  name: STRING,
  uid: STRING,
  controller: BOOL,
  blockOwnerDeletion: BOOL,
});

const ROOT_FIELDS = fieldsOf([
  ['apiVersion', STRING],
  ['kind', STRING],
  [
    'metadata',
    closed('metadata', {
      name: STRING,
      generateName: STRING,
      namespace: STRING,
      selfLink: STRING,
      uid: STRING,
      resourceVersion: STRING,
      generation: INT,
      creationTimestamp: STRING,
      deletionTimestamp: STRING,
      deletionGracePeriodSeconds: INT,
      labels: mapOf(STRING, STRING),
      annotations: mapOf(STRING, STRING),
      finalizers: listOf(STRING),
      ownerReferences: listOf(OWNER),
      managedFields: listOf(DYN),
    }),
  ],
]);
