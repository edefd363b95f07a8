import { durationOf, timestampOf } from './comparison.ts';
import { CelError } from '../cel-error.ts';
import type { CelDuration, CelTimestamp } from './values.ts';

const SECOND = 1_000_000_000n;
const MILLISECOND = 1_000_000n;

const RFC3339 =
  /^(\d{4})-(\d{2})-(\d{2})T(\d{1,2}):(\d{2}):(\d{2})(?:[.,](\d+))?(?:Z|([+-])(\d{2}):(\d{2}))$/;

/** Like Go's time.Parse, accepts an hour of one digit. @throws CelError unless the text is RFC 3339, with a year from 1 to 9999 */
export function parseTimestamp(text: string): CelTimestamp {
  const parts = RFC3339.exec(text)?.slice(1) ?? [];
  const [year = 0, month = 0, day = 0, hour = 0, minute = 0, second = 0] = parts.slice(0, 6).map(Number);
  const [fraction = '', sign, h, m] = parts.slice(6);
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  const isDate = day > 0 && date.getUTCDate() === day && date.getUTCMonth() === month - 1;
  const isOffset = sign === undefined || (Number(h) <= 24 && Number(m) < 60);
  if (!isDate || hour >= 24 || minute >= 60 || second >= 60 || !isOffset)
    throw conversionError('string', 'google.protobuf.Timestamp');
  const offset = sign === undefined ? undefined : (Number(h) * 60 + Number(m)) * (sign === '-' ? -1 : 1);
  const local = date.getTime() / 1000 + hour * 3600 + minute * 60 + second;
  const seconds = local - (offset ?? 0) * 60;
  return timestampOf(BigInt(seconds) * SECOND + BigInt(fraction.padEnd(9, '0').slice(0, 9)), offset);
}

export const conversionError = (from: string, to: string) =>
  new CelError(`type conversion error from '${from}' to '${to}'`);

export function showTimestamp({ nanos, offset = 0 }: CelTimestamp): string {
  const seconds = floorDivide(nanos, SECOND);
  const local = new Date(Number(seconds) * 1000 + offset * 60_000);
  const text = local.toISOString().slice(0, 'yyyy-mm-ddThh:mm:ss'.length);
  return `${text}${decimals(nanos - seconds * SECOND, 9)}${showOffset(offset)}`;
}

function showOffset(minutes: number): string {
  if (minutes === 0) return 'Z';
  const size = Math.abs(minutes);
  const parts = [Math.floor(size / 60), size % 60].map((part) => String(part).padStart(2, '0'));
  return `${minutes < 0 ? '-' : '+'}${parts.join(':')}`;
}

function decimals(value: bigint, digits: number): string {
  const text = value.toString().padStart(digits, '0').replace(/0+$/, '');
  return text === '' ? '' : `.${text}`;
}

export function floorDivide(value: bigint, by: bigint): bigint {
  const quotient = value / by;
  return value % by < 0n ? quotient - 1n : quotient;
}

const UNITS: Readonly<Record<string, bigint>> = {
  ns: 1n,
  us: 1000n,
  µs: 1000n,
  μs: 1000n,
  ms: MILLISECOND,
  s: SECOND,
  m: 60n * SECOND,
  h: 3600n * SECOND,
};
const DURATION = /^([+-]?)((?:(?:\d+(?:\.\d*)?|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+|0)$/;
const PART = /(\d*)(?:\.(\d*))?(ns|us|µs|μs|ms|s|m|h)/g;

export function parseDuration(text: string): CelDuration {
  const [match, sign = '', parts = ''] = text.length > LONGEST_DURATION ? [] : (DURATION.exec(text) ?? []);
  if (match === undefined) throw conversionError('string', 'google.protobuf.Duration');
  let nanos = 0n;
  for (const [, whole = '', fraction = '', unit = ''] of parts.matchAll(PART)) {
    const size = UNITS[unit] ?? 0n;
    nanos += BigInt(whole || '0') * size + (BigInt(fraction || '0') * size) / 10n ** BigInt(fraction.length);
  }
  return durationOf(sign === '-' ? -nanos : nanos);
}

/** Limits the cost of conversion: a hostile text can have many digits. */
const LONGEST_DURATION = 1000;

export function showSeconds({ nanos }: CelDuration): string {
  const size = nanos < 0n ? -nanos : nanos;
  const seconds = Number(size / SECOND) + Number(size % SECOND) / 1e9;
  // A number has at most 17 digits, and JavaScript writes an exponent below 10^-6.
  const text = seconds < 1e-6 ? `0${decimals(size, 9)}` : String(seconds);
  return `${nanos < 0n ? '-' : ''}${text}s`;
}

export function showDuration({ nanos }: CelDuration): string {
  const size = nanos < 0n ? -nanos : nanos;
  return `${nanos < 0n ? '-' : ''}${size < SECOND ? showFraction(size) : showWhole(size)}`;
}

function showWhole(size: bigint): string {
  const seconds = size / SECOND;
  const rest = `${seconds % 60n}${decimals(size % SECOND, 9)}s`;
  if (seconds < 60n) return rest;
  const minutes = `${(seconds / 60n) % 60n}m${rest}`;
  return seconds < 3600n ? minutes : `${seconds / 3600n}h${minutes}`;
}

function showFraction(size: bigint): string {
  if (size === 0n) return '0s';
  if (size < 1000n) return `${size}ns`;
  if (size < MILLISECOND) return `${size / 1000n}${decimals(size % 1000n, 3)}µs`;
  return `${size / MILLISECOND}${decimals(size % MILLISECOND, 6)}ms`;
}
