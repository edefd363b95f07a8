import type { Cause } from '../failure.ts';
import { compilePattern } from '../../cel/regular-expression.ts';
import { isEqual } from '../../json/json.ts';
import { forbiddenValue, invalidValue, requiredValue, when } from './causes.ts';
import { defaultProblems, invalidOrMissing, keywordProblems } from './keyword-problems.ts';
import { ruleProblems } from './rules/rule-problems.ts';
import { branchesOf, schemaToJson, type Schema } from './schema.ts';

/** The reasons to refuse a CRD's schema: its structure, keywords, defaults, patterns or rules. */
export function structuralProblems(schema: Schema, path: string): readonly Cause[] {
  const keywords = keywordProblems(schema, path);
  const problems = [...keywords, ...sorted(invariants(schema, path, 'root'))];
  // The other checks require a well-formed schema.
  return problems.length > 0 ? problems : [...ruleProblems(schema, path), ...defaultProblems(schema, path)];
}

const sorted = (causes: readonly Cause[]) =>
  causes.toSorted((left, right) => (text(left) < text(right) ? -1 : 1));

const text = ({ field, message }: Cause) => `${field}: ${message}`;

type Level = 'root' | 'item' | 'field';

const TYPE_REQUIRED: Readonly<Record<Level, string>> = {
  root: 'must not be empty at the root',
  item: 'must not be empty for specified array items',
  field: 'must not be empty for specified object fields',
};

function invariants(schema: Schema, path: string, level: Level): readonly Cause[] {
  const { items, properties = {}, additionalProperties } = schema;
  return [
    ...when(
      schema.type === 'array' && items === undefined,
      requiredValue(`${path}.items`, 'must be specified'),
    ),
    ...(items === undefined || Array.isArray(items) ? [] : invariants(items, `${path}.items`, 'item')),
    ...Object.entries(properties).flatMap(([name, child]) =>
      invariants(child, `${path}.properties[${name}]`, 'field'),
    ),
    ...when(
      additionalProperties !== undefined && level === 'root',
      forbiddenValue(`${path}.additionalProperties`, 'must not be used at the root'),
    ),
    ...(typeof additionalProperties === 'object'
      ? invariants(additionalProperties, `${path}.additionalProperties`, 'field')
      : []),
    ...extensionProblems(schema, path),
    ...branchProblems(schema, path, pattern(schema)),
    ...typeProblems(schema, path, level),
    ...metadataProblems(schema, path, level),
  ];
}

function extensionProblems(schema: Schema, path: string): readonly Cause[] {
  if (schema['x-kubernetes-int-or-string'] !== true) return [];
  const detail = 'must be false if x-kubernetes-int-or-string is true';
  return (['x-kubernetes-preserve-unknown-fields', 'x-kubernetes-embedded-resource'] as const).flatMap(
    (extension) => when(schema[extension] === true, invalidValue(`${path}.${extension}`, true, detail)),
  );
}

function typeProblems(schema: Schema, path: string, level: Level): readonly Cause[] {
  const { type, additionalProperties, properties = {} } = schema;
  const embedded = schema['x-kubernetes-embedded-resource'] === true;
  const preserves = schema['x-kubernetes-preserve-unknown-fields'] === true;
  const isFree = schema['x-kubernetes-int-or-string'] === true || preserves;
  const field = `${path}.type`;
  const noProperties =
    'must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields';
  return [
    ...when(
      embedded && type !== 'object',
      invalidOrMissing(field, type, 'must be object if x-kubernetes-embedded-resource is true'),
    ),
    ...when(!embedded && type === undefined && !isFree, requiredValue(field, TYPE_REQUIRED[level])),
    ...when(
      embedded && additionalProperties !== undefined,
      forbiddenValue(
        `${path}.additionalProperties`,
        'must not be used if x-kubernetes-embedded-resource is set',
      ),
    ),
    ...when(
      level === 'root' && type !== undefined && type !== 'object',
      invalidValue(field, type ?? '', 'must be object at the root'),
    ),
    ...when(
      embedded && !preserves && Object.keys(properties).length === 0,
      requiredValue(`${path}.properties`, noProperties),
    ),
  ];
}

/** A schema must not redefine apiVersion, kind and metadata; at the root it may restrict names. */
function metadataProblems(schema: Schema, path: string, level: Level): readonly Cause[] {
  if (level !== 'root' && schema['x-kubernetes-embedded-resource'] !== true) return [];
  const { apiVersion, kind, metadata } = schema.properties ?? {};
  const wrongType = (name: string, child: Schema | undefined, type: string) =>
    child === undefined || child.type === type
      ? []
      : [invalidValue(`${path}.properties[${name}].type`, child.type ?? '', `must be ${type}`)];
  return [
    ...wrongType('kind', kind, 'string'),
    ...wrongType('apiVersion', apiVersion, 'string'),
    ...wrongType('metadata', metadata, 'object'),
    ...when(
      level === 'root' && metadata !== undefined && !restrictsNamesOnly(metadata),
      forbiddenValue(
        `${path}.properties[metadata]`,
        'must not specify anything other than name and generateName, but metadata is implicitly specified',
      ),
    ),
  ];
}

/** `type` and `default` are checked elsewhere. */
function restrictsNamesOnly(metadata: Schema): boolean {
  const names = Object.keys(metadata.properties ?? {});
  return (
    Object.keys(metadata).every((keyword) => ['type', 'default', 'properties'].includes(keyword)) &&
    names.every((name) => name === 'name' || name === 'generateName')
  );
}

/** Where `anyOf: [{type: integer}, {type: string}]` may stand for an int-or-string. */
type IntOrStringPattern = 'anyOf' | 'allOf' | 'none';

const INT_OR_STRING = [{ type: 'integer' }, { type: 'string' }];

function pattern({ anyOf, allOf }: Schema): IntOrStringPattern {
  if (isEqual(anyOf, INT_OR_STRING)) return 'anyOf';
  return isEqual(allOf?.[0]?.anyOf, INT_OR_STRING) ? 'allOf' : 'none';
}

function branchProblems(schema: Schema, path: string, excused: IntOrStringPattern): readonly Cause[] {
  const nested = branchesOf(schema).filter(([, place]) => excused !== 'anyOf' || !place.startsWith('anyOf'));
  return [
    ...nested.flatMap(([branch, place]) => {
      const isPattern = excused === 'allOf' && place === 'allOf[0]';
      return nestedProblems(branch, `${path}.${place}`, isPattern ? 'anyOf' : 'none');
    }),
    ...patternProblems(schema, path),
  ];
}

function patternProblems({ pattern: expression }: Schema, path: string): readonly Cause[] {
  if (expression === undefined) return [];
  try {
    compilePattern(expression);
    return [];
  } catch (error) {
    const why = error instanceof Error ? error.message : '';
    const detail = `must be a valid regular expression, but isn't: ${why}`;
    return [invalidValue(`${path}.pattern`, expression, detail)];
  }
}

/** Keywords that a branch of allOf, anyOf, oneOf or not must not use, because branches only validate values. */
const FORBIDDEN_IN_BRANCHES = {
  empty: ['type', 'title', 'description', 'x-kubernetes-list-map-keys', 'x-kubernetes-validations'],
  false: [
    'nullable',
    'x-kubernetes-preserve-unknown-fields',
    'x-kubernetes-embedded-resource',
    'x-kubernetes-int-or-string',
  ],
  undefined: [
    ...['additionalProperties', 'default', 'externalDocs'],
    ...['x-kubernetes-list-type', 'x-kubernetes-map-type'],
  ],
};

function nestedProblems(schema: Schema, path: string, excused: IntOrStringPattern): readonly Cause[] {
  const { items, properties = {} } = schema;
  const json = schemaToJson(schema);
  return [
    ...branchProblems(schema, path, excused),
    ...(items === undefined ? [] : nestedProblems(items, `${path}.items`, 'none')),
    ...Object.entries(properties).flatMap(([name, child]) =>
      nestedProblems(child, `${path}.properties[${name}]`, 'none'),
    ),
    ...Object.entries(FORBIDDEN_IN_BRANCHES).flatMap(([mustBe, keywords]) =>
      keywords
        .filter((keyword) => json[keyword] !== undefined && json[keyword] !== false)
        .map((keyword) => forbiddenValue(`${path}.${keyword}`, `must be ${mustBe} to be structural`)),
    ),
    ...when(
      Object.hasOwn(properties, 'metadata'),
      forbiddenValue(`${path}.properties[metadata]`, 'must not be specified in a nested context'),
    ),
  ];
}
