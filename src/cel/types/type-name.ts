import {
  BOOL,
  BYTES,
  type CelType,
  DOUBLE,
  DURATION,
  DYN,
  INT,
  listOf,
  mapOf,
  NULL,
  optionalOf,
  STRING,
  TIMESTAMP,
  typeOf,
  UINT,
} from './type.ts';

const NAMED: ReadonlyMap<string, CelType> = new Map<string, CelType>([
  ['dyn', DYN],
  ['bool', BOOL],
  ['int', INT],
  ['uint', UINT],
  ['double', DOUBLE],
  ['string', STRING],
  ['bytes', BYTES],
  ['null', NULL],
  ['null_type', NULL],
  ['timestamp', TIMESTAMP],
  ['google.protobuf.Timestamp', TIMESTAMP],
  ['duration', DURATION],
  ['google.protobuf.Duration', DURATION],
  ['list', listOf(DYN)],
  ['map', mapOf(DYN, DYN)],
  ['type', typeOf(DYN)],
]);

/** The types of the Kubernetes libraries, by a short name for signatures. */
const KUBERNETES: ReadonlyMap<string, CelType> = new Map<string, CelType>(
  [
    ['quantity', 'kubernetes.Quantity'],
    ['url', 'kubernetes.URL'],
    ['ip', 'net.IP'],
    ['cidr', 'net.CIDR'],
    ['semver', 'kubernetes.Semver'],
    ['format', 'kubernetes.NamedFormat'],
    ['authorizer', 'kubernetes.authorization.Authorizer'],
    ['pathCheck', 'kubernetes.authorization.PathCheck'],
    ['groupCheck', 'kubernetes.authorization.GroupCheck'],
    ['resourceCheck', 'kubernetes.authorization.ResourceCheck'],
    ['decision', 'kubernetes.authorization.Decision'],
  ].map(([word = '', name = '']) => [word, { kind: 'named', name }]),
);

/** Types that expressions can name, as in `type(x) == int`. */
export const nameableTypes: ReadonlyMap<string, CelType> = new Map<string, CelType>([
  ...[...NAMED].filter(([name]) => !['null', 'timestamp', 'duration', 'dyn'].includes(name)),
  ...[...KUBERNETES.values()].map((type): [string, CelType] => [
    type.kind === 'named' ? type.name : '',
    type,
  ]),
]);

const PARAMETERISED = /^(list|map|optional|optional_type|type)[<(](.+)[>)]$/;
const VARIABLE = /^[A-Z]$/;

/**
 * Parses a type such as `string`, `list<int>` or `map<string, dyn>`. Accepts parentheses instead of angle brackets.
 *
 * @throws Error if the type does not exist
 */
export function parseType(text: string): CelType {
  const name = text.trim();
  const known = NAMED.get(name) ?? KUBERNETES.get(name) ?? nameableTypes.get(name);
  if (known !== undefined) return known;
  if (VARIABLE.test(name)) return { kind: 'variable', name };
  const [, kind, inner = ''] = PARAMETERISED.exec(name) ?? [];
  const [first, second] = splitTopLevel(inner).map(parseType);
  if (first !== undefined) {
    if (kind === 'map' && second !== undefined) return mapOf(first, second);
    if (kind === 'list' && second === undefined) return listOf(first);
    if (kind === 'type' && second === undefined) return typeOf(first);
    if (kind !== 'map' && second === undefined) return optionalOf(first);
  }
  throw new Error(`there is no CEL type "${name}"`);
}

/** Splits at commas outside of brackets. Empty text has no parts. */
export function splitTopLevel(text: string): readonly string[] {
  if (text.trim() === '') return [];
  const parts: string[] = [];
  let depth = 0;
  let start = 0;
  for (const [index, character] of text.split('').entries()) {
    if ('<('.includes(character)) depth += 1;
    else if ('>)'.includes(character)) depth -= 1;
    else if (character === ',' && depth === 0) {
      parts.push(text.slice(start, index));
      start = index + 1;
    }
  }
  return [...parts, text.slice(start)].map((part) => part.trim());
}
