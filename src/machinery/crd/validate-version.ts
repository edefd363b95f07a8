import type { Cause } from '../failure.ts';
import { duplicateValue, forbiddenValue, invalidValue, requiredValue, tooMany } from '../schema/causes.ts';
import { schemaToJson, type Schema } from '../schema/schema.ts';
import { structuralProblems } from '../schema/structural.ts';
import type { DefinitionColumn, DefinitionScale } from './definition.ts';

const MAX_SELECTABLE_FIELDS = 8;
const MAX_DEPRECATION_WARNING = 256; // bytes

/** Each check below covers one part of a version; `path` is where the API server reports that part. */
export function schemaProblems(schema: Schema, path: string, hasStatus: boolean): readonly Cause[] {
  const field = `${path}.openAPIV3Schema`;
  return [
    ...(hasStatus ? rootProblems(schema, field) : []),
    ...(schema.nullable === true
      ? [forbiddenValue(`${field}.nullable`, 'nullable cannot be true at the root')]
      : []),
    ...structuralProblems(schema, field),
  ];
}

// Go spelling, because the message lists these names.
const ALLOWED_AT_ROOT = [
  'Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems',
  'UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations',
].join(' ');

const goName = (keyword: string) =>
  keyword
    .replace(/^x-kubernetes/, 'x')
    .split('-')
    .map((word) => word.slice(0, 1).toUpperCase() + word.slice(1))
    .join('');

/** With a status subresource, the root may hold only keywords that leave validation to `properties.status`. */
function rootProblems(schema: Schema, field: string): readonly Cause[] {
  if (schema.type !== undefined && schema.type !== 'object') {
    const why =
      'only "object" is allowed as the type at the root of the schema if the status subresource is enabled';
    return [invalidValue(`${field}.type`, schema.type, why)];
  }
  const allowed = ALLOWED_AT_ROOT.split(' ');
  if (Object.keys(schema).every((keyword) => allowed.includes(goName(keyword)))) return [];
  const why = `only [${ALLOWED_AT_ROOT}] fields are allowed at the root of the schema if the status subresource is enabled`;
  return [invalidValue(field, schemaToJson(schema), why)];
}

export function scaleProblems(scale: DefinitionScale | undefined, path: string): readonly Cause[] {
  if (scale === undefined) return [];
  const { specReplicasPath, statusReplicasPath, labelSelectorPath } = scale;
  const field = (name: string) => `${path}.scale.${name}`;
  return [
    ...scalePathProblems(specReplicasPath, field('specReplicasPath'), ['.spec']),
    ...scalePathProblems(statusReplicasPath, field('statusReplicasPath'), ['.status']),
    ...(labelSelectorPath === undefined
      ? []
      : scalePathProblems(labelSelectorPath, field('labelSelectorPath'), ['.spec', '.status'])),
  ];
}

function scalePathProblems(value: string, field: string, roots: readonly string[]): readonly Cause[] {
  if (value === '') return [requiredValue(field)];
  if (!value.startsWith('.')) return [notSimplePath(field, value)];
  if (roots.some((root) => value.startsWith(`${root}.`))) return [];
  const where = roots.length === 1 ? roots.join() : `either ${roots.join(' or ')}`;
  return [invalidValue(field, value, `should be a json path under ${where}`)];
}

const notSimplePath = (field: string, value: string) =>
  invalidValue(field, value, 'must be a simple json path starting with .');

const COLUMN_TYPES = ['boolean', 'date', 'integer', 'number', 'string'];
const COLUMN_FORMATS = ['byte', 'date', 'date-time', 'double', 'float', 'int32', 'int64', 'password'];

export function columnProblems(columns: readonly DefinitionColumn[], path: string): readonly Cause[] {
  const types = `must be one of ${COLUMN_TYPES.join(',')}`;
  return columns.flatMap(({ name, type, format, jsonPath }, index) => {
    const field = (key: string) => `${path}[${index}].${key}`;
    const causes: Cause[] = [];
    if (name === '') causes.push(requiredValue(field('name')));
    if (type === '') causes.push(requiredValue(field('type'), types));
    else if (!COLUMN_TYPES.includes(type)) causes.push(invalidValue(field('type'), type, types));
    if (format !== '' && !COLUMN_FORMATS.includes(format)) {
      causes.push(invalidValue(field('format'), format, `must be one of ${COLUMN_FORMATS.join(',')}`));
    }
    // The API server spells this field as in its internal type.
    if (jsonPath === '') causes.push(requiredValue(field('JSONPath')));
    else if (!jsonPath.startsWith('.')) causes.push(notSimplePath(field('JSONPath'), jsonPath));
    return causes;
  });
}

export function selectableFieldProblems(
  paths: readonly string[],
  schema: Schema | undefined,
  path: string,
): readonly Cause[] {
  const unique = new Set(paths);
  const each = paths.flatMap((value, index) => {
    const field = `${path}[${index}].jsonPath`;
    if (value === '') return [requiredValue(field)];
    const found = schemaAt(schema, value);
    if (found === undefined) {
      return [invalidValue(field, value, 'is an invalid path: does not refer to a valid field')];
    }
    return [
      ...(value.startsWith('.metadata.')
        ? [invalidValue(field, value, 'must not point to fields in metadata')]
        : []),
      ...(['string', 'boolean', 'integer'].includes(found.type ?? '')
        ? []
        : [
            invalidValue(
              field,
              value,
              'must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.',
            ),
          ]),
      ...(paths.indexOf(value) < index ? [duplicateValue(field, value)] : []),
    ];
  });
  return unique.size > MAX_SELECTABLE_FIELDS
    ? [...each, tooMany(path, unique.size, MAX_SELECTABLE_FIELDS)]
    : each;
}

function schemaAt(root: Schema | undefined, path: string): Schema | undefined {
  const [first, ...keys] = path.split('.');
  if (first !== '' || keys.length === 0) return undefined;
  return keys.reduce<Schema | undefined>((schema, key) => {
    if (schema?.properties !== undefined && Object.hasOwn(schema.properties, key))
      return schema.properties[key];
    return typeof schema?.additionalProperties === 'object' ? schema.additionalProperties : undefined;
  }, root);
}

export function deprecationProblems(
  { deprecated, deprecationWarning }: { readonly deprecated: boolean; readonly deprecationWarning?: string },
  path: string,
): readonly Cause[] {
  if (deprecationWarning === undefined) return [];
  const invalid = (why: string) => invalidValue(`${path}.deprecationWarning`, deprecationWarning, why);
  if (!deprecated) return [invalid('can only be set for deprecated versions')];
  const causes: Cause[] = [];
  if (Buffer.byteLength(deprecationWarning) > MAX_DEPRECATION_WARNING) {
    causes.push(invalid(`must be <= ${MAX_DEPRECATION_WARNING} characters long`));
  }
  if (deprecationWarning === '') causes.push(invalid('must not be an empty string'));
  const unprintable = deprecationWarning.search(/\p{C}/u);
  if (unprintable >= 0) {
    causes.push(
      invalid(
        `must only contain printable UTF-8 characters; non-printable character found at index ${unprintable}`,
      ),
    );
  }
  return causes;
}
