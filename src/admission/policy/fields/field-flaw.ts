/** Whether a path or a value fits the type of an object. */
import { type CelType, parameter, showType } from '../../../cel/types/type.ts';
import { formatPath, type Segment } from '../../../json/field-path.ts';
import { isJsonArray, isJsonObject, type JsonValue } from '../../../json/json.ts';
import { quote } from '../../../json/printable.ts';
import { noField } from '../expressions/explain-cel.ts';

/** A part of a value that is known only when an expression is evaluated. */
export const UNKNOWN: unique symbol = Symbol('unknown');

/** A JSON value with unknown parts. */
export type Shape = JsonValue | typeof UNKNOWN | readonly Shape[] | { readonly [key: string]: Shape };

/** The type at a path, or why there is none. */
type Found =
  { readonly kind: 'type'; readonly type: CelType } | { readonly kind: 'flaw'; readonly message: string };

const flaw = (message: string): Found => ({ kind: 'flaw', message });
const found = (type: CelType): Found => ({ kind: 'type', type });

export function typeAt(type: CelType, segments: readonly Segment[]): Found {
  let at: Found = found(type);
  for (const [depth, segment] of segments.entries()) {
    if (at.kind === 'flaw') return at;
    at = step(at.type, segment, pathText(segments.slice(0, depth)));
  }
  return at;
}

const ROOT = 'the object';

const pathText = (segments: readonly Segment[]): string =>
  segments.length === 0
    ? ROOT
    : segments.reduce((text, segment) => {
        if (segment.kind === 'each') return `${text}[*]`;
        if (segment.kind === 'index') return `${text}[${segment.index}]`;
        const name = formatPath([segment.name]);
        return text === '' || name.startsWith('[') ? text + name : `${text}.${name}`;
      }, '');

function step(type: CelType, segment: Segment, path: string): Found {
  switch (type.kind) {
    case 'dyn':
    case 'variable':
      return found(type);
    case 'object':
      return segment.kind === 'field'
        ? fieldOf(type, segment.name)
        : flaw(`${path} is an object, not a list`);
    case 'map':
      // A JSON pointer does not say whether a number is an index or a key.
      return segment.kind === 'each' ? flaw(`${path} is a map, not a list`) : found(parameter(type, 1));
    case 'list':
      if (segment.kind !== 'field') return found(parameter(type));
      return flaw(`${path} is a list: write ${path}[*].${segment.name} for its elements`);
    case 'named':
    case 'optional':
    case 'type':
      return flaw(
        `${path} is a ${showType(type)} and does not have ${segment.kind === 'field' ? 'fields' : 'elements'}`,
      );
  }
}

function fieldOf(type: Extract<CelType, { kind: 'object' }>, name: string): Found {
  const fields = [...type.fields.values()];
  const field = fields.find(({ property }) => property === name);
  if (field !== undefined) return found(field.type);
  if (type.open) return found({ kind: 'dyn' });
  // A field at a wrong level, such as `tenant` instead of `spec.tenant`.
  const deeper = fields
    .filter(({ type: inner }) => inner.kind === 'object' && inner.fields.has(name))
    .map(({ property }) => `${type.name === ROOT ? '' : `${type.name}.`}${property}.${name}`);
  const known = deeper.length > 0 ? deeper : fields.map(({ property }) => property);
  return flaw(noField(type.name, name, known));
}

const PLAIN: Readonly<Record<string, (value: JsonValue) => boolean>> = {
  bool: (value) => typeof value === 'boolean',
  double: (value) => typeof value === 'number' || typeof value === 'bigint',
  int: (value) => typeof value === 'bigint' || Number.isInteger(value),
  string: (value) => typeof value === 'string',
};

/** Why the API server would refuse or drop the value at `path`; undefined if it would not, as far as is known. */
export function valueFlaw(type: CelType, value: Shape, path: readonly Segment[]): string | undefined {
  if (value === UNKNOWN || value === null) return undefined;
  if (isShapeList(value)) {
    if (type.kind === 'list')
      return firstOf(value, (item) => valueFlaw(parameter(type), item, [...path, EACH]));
    return takesAnything(type) ? undefined : mismatch(type, 'a list', path);
  }
  if (isShapeObject(value)) {
    if (type.kind !== 'object' && type.kind !== 'map')
      return takesAnything(type) ? undefined : mismatch(type, 'an object', path);
    return firstOf(Object.entries(value), ([name, item]) => {
      const at = step(type, { kind: 'field', name }, pathText(path));
      return at.kind === 'flaw' ? at.message : valueFlaw(at.type, item, [...path, { kind: 'field', name }]);
    });
  }
  if (takesAnything(type)) return undefined;
  const fits = type.kind === 'named' ? PLAIN[type.name] : () => false;
  return fits === undefined || fits(value) ? undefined : mismatch(type, quote(value), path);
}

const EACH: Segment = { kind: 'each' };
const takesAnything = ({ kind }: CelType): boolean => kind === 'dyn' || kind === 'variable';
export const isShapeList = (value: Shape): value is readonly Shape[] => isJsonArray(value);
export const isShapeObject = (value: Shape): value is Readonly<Record<string, Shape>> => isJsonObject(value);

function firstOf<T>(items: readonly T[], find: (item: T) => string | undefined): string | undefined {
  for (const item of items) {
    const message = find(item);
    if (message !== undefined) return message;
  }
  return undefined;
}

const mismatch = (type: CelType, given: string, path: readonly Segment[]): string =>
  `${pathText(path)} is ${NAMES[type.kind === 'named' ? type.name : type.kind] ?? `a ${showType(type)}`}, so ${given} does not fit`;

const NAMES: Readonly<Record<string, string>> = {
  bool: 'true or false',
  double: 'a number',
  int: 'an integer',
  list: 'a list',
  map: 'a map',
  object: 'an object',
  string: 'a string',
};
