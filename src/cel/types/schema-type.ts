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
  STRING,
  TIMESTAMP,
} from './type.ts';

/** CEL keywords that cannot be field names. */
const RESERVED = new Set(
  'true false null in as break const continue else for function if import let loop package namespace return var void while'.split(
    ' ',
  ),
);

const ESCAPES: readonly (readonly [RegExp, string])[] = [
  [/__/g, '__underscores__'],
  [/\./g, '__dot__'],
  [/-/g, '__dash__'],
  [/\//g, '__slash__'],
];

/**
 * The escaped name of a property in expressions over a known schema: `a-b` is `a__dash__b`, `in` is `__in__`.
 * @see
 * https://kubernetes.io/docs/tasks/extend-kubernetes/custom-resources/custom-resource-definitions/#validation-rules
 */
export function fieldName(property: string): string {
  if (RESERVED.has(property)) return `__${property}__`;
  return ESCAPES.reduce((name, [character, escape]) => name.replaceAll(character, escape), property);
}

/**
 * The type of an object with the structural OpenAPI schema of its CRD. `apiVersion`, `kind` and `metadata` always
 * exist.
 *
 * Values are unconverted JSON, so a text is a string whatever its format. Where the schema allows several types, the
 * type is dyn.
 */
export function objectType(schema: JsonObject): CelType {
  const type = schemaType(schema, 'the object');
  if (type.kind !== 'object') return type;
  return { ...type, fields: new Map([...type.fields, ...rootFields()]) };
}

function rootFields(): readonly (readonly [string, ObjectField])[] {
  return [
    ['apiVersion', field('apiVersion', STRING)],
    ['kind', field('kind', STRING)],
    ['metadata', field('metadata', METADATA)],
  ];
}

/** @param path for messages, e.g. `spec.template` */
function schemaType(schema: JsonObject, path: string): CelType {
  if (schema['x-kubernetes-int-or-string'] === true) return DYN;
  if (schema['x-kubernetes-embedded-resource'] === true) return embeddedType(schema, path);
  const type = structureOf(schema, path);
  // An object type includes null. Other nullable values can be compared with null only as dyn.
  return schema.nullable === true && type.kind !== 'object' ? DYN : type;
}

function structureOf(schema: JsonObject, path: string): CelType {
  const type: unknown = schema.type;
  switch (type) {
    case 'string':
      return STRING;
    case 'timestamp': // not in CRDs: the type checks of admission policies ask for it
      return TIMESTAMP;
    case 'integer':
      return INT;
    case 'number':
      return DOUBLE;
    case 'boolean':
      return BOOL;
    case 'array':
      return isJsonObject(schema.items) ? listOf(schemaType(schema.items, `${path}[]`)) : listOf(DYN);
    case 'object':
      return mapOrObject(schema, path);
  }
  return DYN;
}

function mapOrObject(schema: JsonObject, path: string): CelType {
  const further = schema.additionalProperties;
  if (isJsonObject(further)) return mapOf(STRING, schemaType(further, `${path}{}`));
  const open = schema['x-kubernetes-preserve-unknown-fields'] === true || further === true;
  const { properties } = schema;
  if (!isJsonObject(properties)) return open ? DYN : objectOf(path, {}, false);
  return objectOf(path, properties, open);
}

function objectOf(path: string, properties: JsonObject, open: boolean): CelType {
  const fields = new Map<string, ObjectField>();
  for (const property of Object.keys(properties)) {
    const schema = ownValue(properties, property);
    const type = isJsonObject(schema) ? schemaType(schema, below(path, property)) : DYN;
    // Words such as `namespace` cannot name variables, but can name fields.
    for (const name of new Set([fieldName(property), property])) fields.set(name, field(property, type));
  }
  return { kind: 'object', name: path, fields, open };
}

const below = (path: string, property: string) => (path === 'the object' ? property : `${path}.${property}`);

const field = (property: string, type: CelType): ObjectField => ({ property, type });

function embeddedType(schema: JsonObject, path: string): CelType {
  const type = structureOf({ ...schema, type: 'object' }, path);
  const own =
    type.kind === 'object'
      ? type
      : { kind: 'object' as const, name: path, fields: new Map<string, ObjectField>(), open: true };
  return { ...own, fields: new Map([...own.fields, ...rootFields()]) };
}

const owner: CelType = {
  kind: 'object',
  name: 'metadata.ownerReferences[]',
  open: false,
  fields: fieldsOf({
    apiVersion: STRING,
    kind: STRING,
    name: STRING,
    uid: STRING,
    controller: BOOL,
    blockOwnerDeletion: BOOL,
  }),
};

/** The fields of every object, whatever its schema. */
const METADATA: CelType = {
  kind: 'object',
  name: 'metadata',
  open: false,
  fields: fieldsOf({
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
    ownerReferences: listOf(owner),
    managedFields: listOf(DYN),
  }),
};

function fieldsOf(types: Readonly<Record<string, CelType>>): ReadonlyMap<string, ObjectField> {
  return new Map(
    Object.entries(types).flatMap(([property, type]) =>
      [...new Set([fieldName(property), property])].map((name) => [name, field(property, type)]),
    ),
  );
}
