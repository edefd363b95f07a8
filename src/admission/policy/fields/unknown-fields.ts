/** Checks the paths and values of a policy against the schemas of the governed kinds: a misspelt path would do nothing. */
import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import { objectType } from '../../../cel/types/schema-type.ts';
import type { CelType } from '../../../cel/types/type.ts';
import { type Segment, tryParsePath } from '../../../json/field-path.ts';
import { isJsonArray, isJsonObject, type JsonObject, memoizeWeak } from '../../../json/json.ts';
import { isKeptExactly } from '../defaults/defaults.ts';
import type { Report } from '../problem.ts';
import { isShapeList, isShapeObject, type Shape, typeAt, UNKNOWN, valueFlaw } from './field-flaw.ts';
import { CelError } from '../../../cel/cel.ts';
import { type Expression, withoutDyn } from '../../../cel/syntax/expression.ts';
import { parseExpression } from '../../../cel/syntax/parse.ts';

/** What an expression yields, as far as its text says: one shape for each branch of its conditionals. */
function shapesOf(text: string): readonly Shape[] {
  try {
    return branches(parseExpression(text).expression).map(shapeOf);
  } catch (error) {
    if (error instanceof CelError || error instanceof RangeError) return [];
    throw error;
  }
}

function branches(written: Expression): readonly Expression[] {
  const expression = withoutDyn(written);
  if (expression.kind !== 'call' || expression.name !== '_?_:_') return [expression];
  return expression.arguments.slice(1).flatMap(branches);
}

function shapeOf(written: Expression): Shape {
  const expression = withoutDyn(written);
  switch (expression.kind) {
    case 'literal':
      return literal(expression.value);
    case 'list':
      return expression.items.map(({ optional, value }) => (optional ? UNKNOWN : shapeOf(value)));
    case 'map':
      return Object.fromEntries(
        expression.entries.flatMap(({ key, optional, value }): readonly [string, Shape][] =>
          key.kind === 'literal' && typeof key.value === 'string'
            ? [[key.value, optional ? UNKNOWN : shapeOf(value)]]
            : [],
        ),
      );
    case 'call':
    case 'comprehension':
    case 'identifier':
    case 'message':
    case 'optionalMap':
    case 'select':
      return UNKNOWN;
  }
}

/** Unsigned integers and bytes become other JSON values. */
function literal(value: unknown): Shape {
  const isJson =
    value === null || typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean';
  return isJson || typeof value === 'bigint' ? value : UNKNOWN;
}

/** Something that a policy says about objects; `flawIn` says why it cannot be true of objects of this type. */
interface Claim {
  readonly where: string;
  readonly flawIn: (type: CelType) => string | undefined;
}

const typeOf = memoizeWeak((schema: JsonObject): CelType => objectType(schema));

/** A path is wrong if it fits none of the kinds and versions. @param schemas empty if any is unknown */
export function reportUnknownFields(
  spec: AdmissionPolicySpec,
  schemas: readonly JsonObject[],
  report: Report,
): void {
  if (schemas.length === 0) return;
  const types = schemas.map(typeOf);
  for (const { where, flawIn } of claimsOf(spec)) {
    const flaws = types.map(flawIn);
    const [first] = flaws;
    if (first === undefined || flaws.includes(undefined)) continue;
    report(where, first, 'UnknownField');
  }
}

function claimsOf({ defaults = [], mutations = [], validate = {} }: AdmissionPolicySpec): readonly Claim[] {
  const { references = [], unique = [], immutable = [], immutableFromCreation = [], rules = [] } = validate;
  const all = (texts: readonly string[], where: string) =>
    texts.flatMap((text, index) => pathClaim(text, `${where}[${index}]`));
  return [
    ...references.flatMap(({ path, namespacePath }, index) => [
      ...pathClaim(path, `spec.validate.references[${index}].path`),
      ...pathClaim(namespacePath, `spec.validate.references[${index}].namespacePath`),
    ]),
    ...unique.flatMap(({ paths }, index) => all(paths, `spec.validate.unique[${index}].paths`)),
    ...all(immutable, 'spec.validate.immutable'),
    ...all(immutableFromCreation, 'spec.validate.immutableFromCreation'),
    ...rules.flatMap(({ fieldPath }, index) =>
      pathClaim(fieldPath, `spec.validate.rules[${index}].fieldPath`),
    ),
    ...(isJsonObject(validate.schema) ? schemaClaims(validate.schema, [], 'spec.validate.schema') : []),
    ...defaults.flatMap((rule, index) => defaultClaims(rule, `spec.defaults[${index}]`)),
    ...mutations.flatMap((mutation, index) =>
      mutationClaims(mutation, `spec.mutations[${index}].expression`),
    ),
  ];
}

/** Undefined if the text is no path: that is another problem. */
const segmentsOf = (text: string | undefined): readonly Segment[] | undefined =>
  text === undefined ? undefined : tryParsePath(text)?.segments;

const segmentsClaim = (where: string, segments: readonly Segment[]): Claim => ({
  where,
  flawIn: (type) => {
    const at = typeAt(type, segments);
    return at.kind === 'flaw' ? at.message : undefined;
  },
});

function pathClaim(text: string | undefined, where: string): readonly Claim[] {
  const segments = segmentsOf(text);
  return segments === undefined ? [] : [segmentsClaim(where, segments)];
}

/** `path` has been checked: the value fits there, if it fits anywhere. */
const shapeClaim = (where: string, path: readonly Segment[], shape: Shape): Claim => ({
  where,
  flawIn: (type) => {
    const at = typeAt(type, path);
    return at.kind === 'flaw' ? undefined : valueFlaw(at.type, shape, path);
  },
});

function defaultClaims(
  { path: text, value, expression }: NonNullable<AdmissionPolicySpec['defaults']>[number],
  where: string,
): readonly Claim[] {
  const path = segmentsOf(text);
  if (path === undefined) return [];
  const shapes = expression === undefined ? [] : shapesOf(expression);
  return [
    segmentsClaim(`${where}.path`, path),
    ...(isKeptExactly(value) ? [shapeClaim(`${where}.value`, path, value)] : []),
    ...shapes.map((shape) => shapeClaim(`${where}.expression`, path, shape)),
  ];
}

function mutationClaims(
  { type = 'Merge', expression }: NonNullable<AdmissionPolicySpec['mutations']>[number],
  where: string,
): readonly Claim[] {
  const shapes = shapesOf(expression);
  if (type === 'Merge') return shapes.map((shape) => shapeClaim(where, [], shape));
  return shapes
    .flatMap((shape) => (isShapeList(shape) ? shape : []))
    .flatMap((operation) => (isShapeObject(operation) ? operationClaims(operation, where) : []));
}

function operationClaims(
  { path: pointer, value }: Readonly<Record<string, Shape>>,
  where: string,
): readonly Claim[] {
  if (typeof pointer !== 'string' || !pointer.startsWith('/')) return [];
  const path = pointer.slice(1).split('/').map(segmentOfToken);
  return [segmentsClaim(where, path), ...(value === undefined ? [] : [shapeClaim(where, path, value)])];
}

function segmentOfToken(token: string): Segment {
  if (token === '-') return { kind: 'each' };
  if (/^\d+$/.test(token)) return { kind: 'index', index: Number(token) };
  return { kind: 'field', name: token.replaceAll('~1', '/').replaceAll('~0', '~') };
}

/** A misspelt property would not be checked, and a misspelt required one would refuse every object. */
function schemaClaims(schema: JsonObject, path: readonly Segment[], where: string): readonly Claim[] {
  const { properties, items, required } = schema;
  const named = isJsonArray(required) ? required.filter((name) => typeof name === 'string') : [];
  return [
    ...Object.entries(isJsonObject(properties) ? properties : {}).flatMap(([name, below]) => {
      const at: readonly Segment[] = [...path, { kind: 'field', name }];
      const claim = segmentsClaim(`${where}.properties.${name}`, at);
      return [claim, ...(isJsonObject(below) ? schemaClaims(below, at, claim.where) : [])];
    }),
    ...named.map((name) => segmentsClaim(`${where}.required`, [...path, { kind: 'field', name }])),
    ...(isJsonObject(items) ? schemaClaims(items, [...path, { kind: 'each' }], `${where}.items`) : []),
  ];
}
