import { CelError } from '../cel-error.ts';
import {
  type CelList,
  charge,
  type Frame,
  isDuration,
  isList,
  isMap,
  isTimestamp,
  isTypeValue,
  isUint,
  mapGet,
  mapKeys,
  traversal,
  typeNameOf,
} from '../values/values.ts';
import { compareText } from '../values/comparison.ts';
import { showSeconds, showTimestamp } from '../values/time.ts';
import { defineWithFrame } from './define.ts';
import { type CelType, showType } from '../types/type.ts';
import { goQuote, quoteText, showDouble } from './text.ts';

const CLAUSE = /%(?:(%)|(?:\.(\d+))?(.?))/gsu;
const DEFAULT_PRECISION = 6;
const MOST_PRECISION = 100;

/** Replaces `%s`, `%d`, `%.2f` and the like, the way the strings library of Kubernetes' cel-go does. */
function formatText(frame: Frame, template: string, values: CelList): string {
  charge(frame, traversal(template.length));
  let next = 0;
  return template.replaceAll(CLAUSE, (_clause, percent?: string, precision?: string, verb?: string) => {
    if (percent !== undefined) return percent;
    if (next >= values.length) throw failure(`index ${next} out of range`);
    const text = clauseText(frame, verb ?? '', precision, values[next]);
    next += 1;
    charge(frame, traversal(text.length));
    return text;
  });
}

const failure = (why: string) => new CelError(`error during formatting: ${why}`);

/** The types that a clause accepts, and its message for others. `%s` accepts all. */
const CLAUSES: Readonly<Record<string, readonly [accepts: string, expected: string]>> = {
  d: ['int uint', 'decimal clause can only be used on integers'],
  o: ['int uint', 'octal clause can only be used on integers'],
  b: ['int uint bool', 'only integers and bools can be formatted as binary'],
  x: ['int uint string bytes', 'only integers, byte buffers, and strings can be formatted as hex'],
  X: ['int uint string bytes', 'only integers, byte buffers, and strings can be formatted as hex'],
  f: ['double string', 'fixed-point clause can only be used on doubles'],
  e: ['double string', 'scientific clause can only be used on doubles'],
};

const misfit = (verb: string, type: string): string =>
  `error during formatting: ${CLAUSES[verb]?.[1] ?? ''}, was given ${type}`;

const unrecognized = (verb: string): string =>
  verb === ''
    ? 'could not parse formatting clause: unexpected end of string'
    : `could not parse formatting clause: unrecognized formatting clause ${quoteText(verb)}`;

function clauseText(frame: Frame, verb: string, precision: string | undefined, value: unknown): string {
  switch (verb) {
    case 's':
      return textOf(frame, value);
    case 'd':
      return integerText(verb, value, 10);
    case 'o':
      return integerText(verb, value, 8);
    case 'b':
      return typeof value === 'boolean' ? String(Number(value)) : integerText(verb, value, 2);
    case 'x':
      return hexText(verb, value);
    case 'X':
      return hexText(verb, value).toUpperCase();
    case 'f':
      return fixedText(doubleOf(verb, value), precisionOf(precision));
    case 'e':
      return scientificText(doubleOf(verb, value));
    default:
      throw new CelError(unrecognized(verb));
  }
}

function precisionOf(written: string | undefined): number {
  const precision = written === undefined ? DEFAULT_PRECISION : Number(written);
  if (precision > MOST_PRECISION)
    throw failure(`precision must be at most ${MOST_PRECISION}, was ${precision}`);
  return precision;
}

function integerText(verb: string, value: unknown, base: number): string {
  const integer = isUint(value) ? value.value : value;
  if (typeof integer !== 'bigint') throw new CelError(misfit(verb, typeNameOf(value)));
  return integer.toString(base);
}

function hexText(verb: string, value: unknown): string {
  if (typeof value === 'string' || value instanceof Uint8Array) return Buffer.from(value).toString('hex');
  return integerText(verb, value, 16);
}

function doubleOf(verb: string, value: unknown): number {
  if (typeof value === 'number') return value;
  if (value === 'NaN' || value === 'Infinity' || value === '-Infinity') return Number(value);
  throw new CelError(misfit(verb, typeNameOf(value)));
}

const fixed = new Map<number, Intl.NumberFormat>();

function fixedText(value: number, precision: number): string {
  const known = fixed.get(precision);
  if (known !== undefined) return known.format(value);
  const digits = { minimumFractionDigits: precision, maximumFractionDigits: precision };
  const format = new Intl.NumberFormat('en-US', { ...digits, roundingMode: 'halfEven' });
  fixed.set(precision, format);
  return format.format(value);
}

const SUPERSCRIPTS = '⁰¹²³⁴⁵⁶⁷⁸⁹';

/** `1.050000×10⁰³`: the API server ignores the precision. */
function scientificText(value: number): string {
  if (!Number.isFinite(value)) return fixedText(value, DEFAULT_PRECISION);
  const [mantissa = '', exponent = ''] = value.toExponential(DEFAULT_PRECISION).split('e');
  const digits = Array.from(exponent.slice(1).padStart(2, '0'), (digit) =>
    SUPERSCRIPTS.charAt(Number(digit)),
  );
  return `${mantissa}×10${exponent.startsWith('-') ? '⁻' : ''}${digits.join('')}`;
}

function textOf(frame: Frame, value: unknown): string {
  if (typeof value === 'string') return value;
  if (typeof value === 'number') return showDouble(value);
  if (value instanceof Uint8Array) return Buffer.from(value).toString();
  if (isTimestamp(value)) return showTimestamp(value);
  if (isDuration(value)) return showSeconds(value);
  return literalOf(frame, value);
}

function literalOf(frame: Frame, value: unknown): string {
  charge(frame, 1);
  if (value === null) return 'null';
  if (typeof value === 'boolean' || typeof value === 'bigint') return String(value);
  if (typeof value === 'string') return charged(frame, goQuote(value));
  if (typeof value === 'number') return doubleLiteral(value);
  if (isUint(value)) return value.value.toString();
  if (value instanceof Uint8Array) return charged(frame, `b${quoteText(Buffer.from(value).toString())}`);
  if (isTimestamp(value)) return `timestamp(${quoteText(showTimestamp(value))})`;
  if (isDuration(value)) return `duration(${quoteText(showSeconds(value))})`;
  if (isTypeValue(value)) return value.name;
  if (isList(value)) return `[${value.map((item) => literalOf(frame, item)).join(', ')}]`;
  if (isMap(value)) return mapLiteral(frame, value);
  const kinds = 'strings, bools, bytes, ints, doubles, maps, lists, types, durations, and timestamps';
  throw failure(`string clause can only be used on ${kinds}, was given ${typeNameOf(value)}`);
}

function doubleLiteral(value: number): string {
  if (!Number.isFinite(value)) return quoteText(showDouble(value));
  return Math.abs(value) < 1e21
    ? value.toFixed(DEFAULT_PRECISION)
    : `${BigInt(value)}.${'0'.repeat(DEFAULT_PRECISION)}`;
}

function mapLiteral(frame: Frame, map: object): string {
  const entries = mapKeys(map).map((key): [string, string] => [
    literalOf(frame, key),
    literalOf(frame, mapGet(map, key)),
  ]);
  const sorted = entries.sort(([left], [right]) => compareText(left, right));
  return `{${sorted.map(([key, value]) => `${key}:${value}`).join(', ')}}`;
}

function charged(frame: Frame, text: string): string {
  charge(frame, traversal(text.length));
  return text;
}

/** Undefined: nothing is wrong, as far as the types are known. */
export function formatProblem(
  template: string,
  types: readonly CelType[],
): readonly [problem: string, index?: number] | undefined {
  let next = 0;
  for (const [, percent, , verb = ''] of template.matchAll(CLAUSE)) {
    if (percent !== undefined) continue;
    const clause = CLAUSES[verb];
    if (clause === undefined && verb !== 's') return [unrecognized(verb)];
    const type = types[next];
    if (type === undefined) return [`index ${next} out of range`];
    const isKnown = type.kind !== 'dyn' && type.kind !== 'variable';
    const isAccepted = type.kind === 'named' && clause?.[0].split(' ').includes(type.name);
    if (clause !== undefined && isKnown && isAccepted !== true) return [misfit(verb, showType(type)), next];
    next += 1;
  }
  if (next < types.length)
    return [`too many arguments supplied to string.format (expected ${next}, got ${types.length})`];
  return undefined;
}

export const stringFormat = [defineWithFrame('<string>.format(list<dyn>): string', formatText)];
