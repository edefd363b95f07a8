/** Short texts for amounts: quantities, durations, sizes. */
import fc from 'fast-check';

import { CelError } from '../../../src/cel/cel-error.ts';
import {
  addQuantities,
  compareQuantities,
  subtractQuantities,
  parseQuantity,
} from '../../../src/cel/library/quantity.ts';
import type { CelQuantity } from '../../../src/cel/library/define.ts';
import { parseDuration as parseApiDuration } from '../../../src/api/duration.ts';
import { parseBytes, parseDuration } from '../../../src/config/quantities.ts';
import { mutatedText } from '../mutated.ts';
import { answerOf, fuzzTarget, hold, isDeliberate } from '../target.ts';

const QUANTITIES = '1 100m 1.5Gi -12e6 +0.000000001 3E 9223372036854775807 1n .5k 4.Ki 0u'.split(' ');

const written = fc
  .tuple(
    fc.constantFrom('', '-', '+'),
    fc.oneof(fc.bigInt({ min: 0n, max: 2n ** 70n }), fc.bigInt({ min: 0n, max: 2_000n })),
    fc.option(fc.nat({ max: 1_000_000 }), { nil: undefined }),
    fc.constantFrom('', ...'n u m k M G T P E Ki Mi Gi Ti Pi Ei e3 E-4 e+2'.split(' ')),
  )
  .map(
    ([sign, digits, decimals, suffix]) =>
      `${sign}${digits}${decimals === undefined ? '' : `.${decimals}`}${suffix}`,
  );

const DECIMAL = new Map(['n', 'u', 'm'].map((suffix, index) => [suffix, -9 + 3 * index]));
const LARGE = new Map(['k', 'M', 'G', 'T', 'P', 'E'].map((suffix, index) => [suffix, 3 * (index + 1)]));
const BINARY = new Map(
  ['K', 'M', 'G', 'T', 'P', 'E'].map((suffix, index) => [`${suffix}i`, 10n * BigInt(index + 1)]),
);
const NANOS = 10n ** 9n;
const MOST_BINARY = (2n ** 63n - 1n) * NANOS;

/** An independent parser: the value as a fraction; undefined if this parser does not support the text. */
function fractionOf(
  text: string,
): { readonly over: bigint; readonly under: bigint; readonly binary: boolean } | undefined {
  const [, sign, whole, decimals = '', suffix = ''] = /^([+-]?)(\d+)(?:\.(\d+))?(\D.*)?$/.exec(text) ?? [];
  if (whole === undefined) return undefined;
  const digits = BigInt(whole + decimals) * (sign === '-' ? -1n : 1n);
  const under = 10n ** BigInt(decimals.length);
  const shift = BINARY.get(suffix);
  if (shift !== undefined) return { over: digits << shift, under, binary: true };
  const exponent =
    suffix === ''
      ? 0
      : (DECIMAL.get(suffix) ?? LARGE.get(suffix) ?? Number(/^[eE]([+-]?\d{1,2})$/.exec(suffix)?.[1]));
  if (Number.isNaN(exponent)) return undefined;
  const ten = 10n ** BigInt(Math.abs(exponent));
  return exponent < 0
    ? { over: digits, under: under * ten, binary: false }
    : { over: digits * ten, under, binary: false };
}

const isCelError = (error: unknown) => error instanceof CelError;

const sums = fc.tuple(fc.oneof(written, mutatedText(QUANTITIES)), written);

export const quantities = fuzzTarget('quantity', 40, sums, ([text, other]) => {
  const quantity = answerOf(() => parseQuantity(text), isCelError);
  if (quantity === undefined) return;
  const second = parseQuantity(other);
  const fraction = fractionOf(text);
  if (fraction !== undefined) hold(isRoundedUp(quantity, fraction), `${text} has another value`);
  hold(
    compareQuantities(quantity, second) === -compareQuantities(second, quantity) + 0,
    'the order is not antisymmetric',
  );
  const sum = addQuantities(quantity, second);
  const back = subtractQuantities(sum, second);
  hold(compareQuantities(back, quantity) === 0, `${text} + ${other} - ${other} is another one`);
});

/** Quantities are rounded away from zero to whole nanos. Binary quantities are limited to int64. */
function isRoundedUp(
  { value, scale }: CelQuantity,
  { over, under, binary }: { readonly over: bigint; readonly under: bigint; readonly binary: boolean },
): boolean {
  const nanos = value * 10n ** BigInt(scale + 9);
  const exact = over * NANOS;
  const rest = exact % under;
  const wanted = exact / under + (rest === 0n ? 0n : rest > 0n ? 1n : -1n);
  if (!binary) return nanos === wanted;
  return nanos === (wanted > MOST_BINARY ? MOST_BINARY : wanted < -MOST_BINARY ? -MOST_BINARY : wanted);
}

const AMOUNTS = '10s|1.5h|500ms|90d|64MiB|512 KiB|1048576|1h30m0s|2160h|0s|1G'.split('|');

/** The parser returns a finite amount of at least zero, or an error that quotes the input. */
export const amounts = fuzzTarget('duration and size', 30, mutatedText(AMOUNTS), (text) => {
  for (const parse of [parseDuration, parseBytes]) {
    const isAnswer = (error: unknown) => isDeliberate(error) && String(error).includes(text);
    const amount = answerOf(() => parse(text), isAnswer);
    hold(amount === undefined || (Number.isFinite(amount) && amount >= 0), `${text} is ${String(amount)}`);
  }
  const duration = parseApiDuration(text);
  hold(
    duration === undefined || (Number.isSafeInteger(duration) && duration >= 0),
    `${text} is ${String(duration)}`,
  );
});
