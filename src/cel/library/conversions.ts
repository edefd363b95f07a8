import { intOf, timestampOf, uintOf } from '../values/comparison.ts';
import { CelError } from '../cel-error.ts';
import {
  type CelMap,
  charge,
  type Frame,
  LEAST_INT,
  mapSize,
  MOST_INT,
  MOST_UINT,
  parsing,
  traversal,
  typeNameOf,
  typeValue,
} from '../values/values.ts';
import {
  conversionError,
  floorDivide,
  parseDuration,
  parseTimestamp,
  showSeconds,
  showTimestamp,
} from '../values/time.ts';
import { showCidr, showIp } from './network.ts';
import { define, defineWithFrame } from './define.ts';
import { showDouble, textSize } from './text.ts';

const SECOND = 1_000_000_000n;
const once = (text: string) => traversal(text.length);

const INTEGER = /^[+-]?\d{1,30}$/;

function parseInteger(text: string, type: string, least: bigint, most: bigint): bigint {
  const value = INTEGER.test(text) ? BigInt(text.replace(/^\+/, '')) : undefined;
  if (value === undefined || value < least || value > most) throw conversionError('string', type);
  return value;
}

function parseUint64(text: string) {
  if (/^[+-]/.test(text)) throw conversionError('string', 'uint');
  return uintOf(parseInteger(text, 'uint', 0n, MOST_UINT));
}

function intOfDouble(value: number): bigint {
  if (!(value > -(2 ** 63) && value < 2 ** 63)) throw new CelError('integer overflow');
  return BigInt(Math.trunc(value));
}

function uintOfDouble(value: number) {
  if (!(value >= 0 && value < 2 ** 64)) throw new CelError('unsigned integer overflow');
  return uintOf(BigInt(Math.trunc(value)));
}

const DOUBLE = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i;
/** Go parses hexadecimal floating-point numbers: `0x1p-2` is 0.25. */
const HEX_DOUBLE = /^([+-]?)0x([0-9a-f]*)(?:\.([0-9a-f]*))?p([+-]?\d{1,6})$/i;
const SPECIAL_DOUBLES = new Map(Object.entries({ nan: Number.NaN, inf: Infinity, infinity: Infinity }));

function parseDouble(text: string): number {
  const special = SPECIAL_DOUBLES.get(text.toLowerCase().replace(/^[+-]/, ''));
  if (special !== undefined) return text.startsWith('-') ? -special : special;
  const value = DOUBLE.test(text) ? Number(text) : parseHexDouble(text);
  if (!Number.isFinite(value)) throw conversionError('string', 'double');
  return value;
}

function parseHexDouble(text: string): number {
  const [match, sign, whole = '', fraction = '', power] = HEX_DOUBLE.exec(text) ?? [];
  if (match === undefined || whole + fraction === '') return Number.NaN;
  const value = Number(`0x${whole}${fraction}`) * 2 ** (Number(power) - 4 * fraction.length);
  return sign === '-' ? -value : value;
}

const BOOLS: ReadonlyMap<string, boolean> = new Map([
  ...['1', 't', 'T', 'TRUE', 'true', 'True'].map((text): [string, boolean] => [text, true]),
  ...['0', 'f', 'F', 'FALSE', 'false', 'False'].map((text): [string, boolean] => [text, false]),
]);

function parseBool(text: string): boolean {
  const value = BOOLS.get(text);
  if (value === undefined) throw conversionError('string', 'bool');
  return value;
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true });

function decode(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes);
  } catch (cause) {
    throw new CelError('invalid UTF-8 in bytes, cannot convert to string', { cause });
  }
}

const toNumber = (value: bigint) => Number(value);

export const conversions = [
  ...['bool', 'bytes', 'double', 'duration', 'int', 'string', 'timestamp', 'uint'].map((type) =>
    define(`${type}(${type}): ${type}`, (value) => value),
  ),
  define('bool(string): bool', parseBool),
  define('bytes(string): bytes', (text) => new Uint8Array(Buffer.from(text)), once),
  define('double(int): double', toNumber),
  define('double(uint): double', ({ value }) => toNumber(value)),
  define('double(string): double', parseDouble, once),
  define('duration(string): duration', parseDuration, parsing),
  define('dyn(A): dyn', (value) => value),
  define('int(double): int', intOfDouble),
  define('int(uint): int', ({ value }) => intOf(value)),
  define('int(string): int', (text) => parseInteger(text, 'int', LEAST_INT, MOST_INT)),
  define('int(timestamp): int', ({ nanos }) => floorDivide(nanos, SECOND)),
  define('int(duration): int', ({ nanos }) => nanos),
  define('string(bool): string', (value) => String(value)),
  define('string(int): string', (value) => value.toString()),
  define('string(uint): string', ({ value }) => value.toString()),
  define('string(double): string', showDouble),
  define('string(bytes): string', decode, (bytes) => traversal(bytes.length)),
  define('string(timestamp): string', showTimestamp, () => 10),
  define('string(duration): string', showSeconds, () => 5),
  define('string(ip): string', showIp, () => 10),
  define('string(cidr): string', showCidr, () => 10),
  define('timestamp(int): timestamp', (seconds) => timestampOf(seconds * SECOND)),
  define('timestamp(string): timestamp', parseTimestamp, parsing),
  define('uint(int): uint', uintOf),
  define('uint(double): uint', uintOfDouble),
  define('uint(string): uint', parseUint64),
  define('type(A): type<A>', (value) => typeValue(typeNameOf(value))),
];

/** The API server charges 1. JavaScript has to search for surrogate pairs, and to count characters if there are any. */
function sizeOfText(frame: Frame, text: string): bigint {
  const size = textSize(text);
  charge(frame, size === text.length ? 1 + Math.floor(text.length / 50) : traversal(text.length));
  return BigInt(size);
}

function sizeOfMap(frame: Frame, map: CelMap): bigint {
  const size = mapSize(map);
  charge(frame, 1 + (map instanceof Map ? 0 : size));
  return BigInt(size);
}

export const basics = [
  defineWithFrame('size(string): int', sizeOfText),
  define('size(bytes): int', (bytes) => BigInt(bytes.length)),
  define('size(list<A>): int', (list) => BigInt(list.length)),
  defineWithFrame('size(map): int', sizeOfMap),
  defineWithFrame('<string>.size(): int', sizeOfText),
  define('<bytes>.size(): int', (bytes) => BigInt(bytes.length)),
  define('<list<A>>.size(): int', (list) => BigInt(list.length)),
  defineWithFrame('<map>.size(): int', sizeOfMap),
  define(
    '<string>.contains(string): bool',
    (text, part) => text.includes(part),
    (text, part) => once(text) * once(part),
  ),
  define('<string>.startsWith(string): bool', (text, part) => text.startsWith(part), once),
  define('<string>.endsWith(string): bool', (text, part) => text.endsWith(part), once),
];
