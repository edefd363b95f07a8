import { CelError } from '../cel-error.ts';
import { CEL_TYPE, isInt64, LEAST_INT, MOST_INT, parsing } from '../values/values.ts';
import { type CelQuantity, define } from './define.ts';
import { succeeds } from './text.ts';

const NANO = -9;
/** The API server assumes that a value with at most this many digits fits into an int64. */
const SURE_DIGITS = 18;
const MOST_EXPONENT = 300;
const MOST_DIGITS = 300;

const QUANTITY = /^([+-]?)(\d*)(?:\.(\d*))?([eEinumkKMGTP]*[-+]?\d*)$/;
const EXPONENT = /^[eE]([+-]?\d+)$/;

const DECIMAL = new Map(
  Object.entries({ n: -9, u: -6, m: -3, '': 0, k: 3, M: 6, G: 9, T: 12, P: 15, E: 18 }),
);

const BINARY = new Map(Object.entries({ Ki: 10, Mi: 20, Gi: 30, Ti: 40, Pi: 50, Ei: 60 }));

const tenTo = (exponent: number) => 10n ** BigInt(exponent);

const make = (value: bigint, scale: number, small: boolean): CelQuantity => ({
  [CEL_TYPE]: 'kubernetes.Quantity',
  value,
  scale,
  small,
  identity: value * tenTo(scale - NANO),
});

export function parseQuantity(text: string): CelQuantity {
  const [match, sign = '', whole = '', fraction = '', suffix = ''] = QUANTITY.exec(text) ?? [];
  if (match === undefined || text === '') {
    throw new CelError(
      "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
    );
  }
  if (text.length > MOST_DIGITS) throw new CelError('unable to parse numeric part of quantity');
  const digits = (whole.replace(/^0+/, '') || '0') + fraction;
  const unsigned = BigInt(digits);
  const value = sign === '-' ? -unsigned : unsigned;
  const binary = BINARY.get(suffix);
  if (binary !== undefined) return ofBinary(value, digits.length, fraction.length, binary);
  const exponent = DECIMAL.get(suffix) ?? exponentOf(suffix);
  return ofDecimal(value, digits.length, exponent - fraction.length);
}

function exponentOf(suffix: string): number {
  const exponent = Number(EXPONENT.exec(suffix)?.[1] ?? Number.NaN);
  if (Number.isNaN(exponent) || exponent > MOST_EXPONENT) {
    throw new CelError("unable to parse quantity's suffix");
  }
  return Math.max(exponent, -MOST_EXPONENT);
}

function ofDecimal(value: bigint, digits: number, scale: number): CelQuantity {
  if (scale < NANO) return make(roundUp(value, NANO - scale), NANO, false);
  return make(value, scale, digits <= SURE_DIGITS);
}

function ofBinary(value: bigint, digits: number, decimals: number, exponent: number): CelQuantity {
  const shifted = value << BigInt(exponent);
  const sure = 15 - digits - Math.trunc((exponent * 3) / 10) - 1 >= 0;
  if (decimals === 0 && sure && isInt64(shifted)) return make(shifted, 0, true);
  if (decimals > -NANO) return make(capped(roundUp(shifted, decimals + NANO), NANO), NANO, false);
  return make(capped(shifted, -decimals), -decimals, false);
}

/** Caps binary quantities at the largest int64. */
function capped(value: bigint, scale: number): bigint {
  const most = MOST_INT * tenTo(-scale);
  return value > most ? most : value < -most ? -most : value;
}

/** Drops the last digits and rounds away from zero: a small request must not become zero. */
function roundUp(value: bigint, digits: number): bigint {
  const unit = tenTo(digits);
  const rest = value % unit;
  return value / unit + (rest === 0n ? 0n : rest > 0n ? 1n : -1n);
}

const quantityOf = (value: bigint): CelQuantity => make(value, 0, true);

function integerOf({ value, scale, small }: CelQuantity): bigint | undefined {
  if (!small || scale < 0) return undefined;
  const integer = value * tenTo(scale);
  return isInt64(integer) ? integer : undefined;
}

export function addQuantities(left: CelQuantity, right: CelQuantity): CelQuantity {
  const small = left.small && right.small;
  if (small && right.value === 0n) return left;
  if (small && left.value === 0n) return right;
  const scale = Math.min(left.scale, right.scale);
  const [a, b] = [atScale(left, scale), atScale(right, scale)];
  return make(a + b, scale, small && [a, b, a + b].every(isInt64));
}

/** The API server negates an int64 without checking its range: the smallest one remains negative while the result fits. */
export function subtractQuantities(self: CelQuantity, { value, scale, small }: CelQuantity): CelQuantity {
  const wrapped = small && value === LEAST_INT ? addQuantities(self, make(value, scale, small)) : undefined;
  return wrapped?.small === true ? wrapped : addQuantities(self, make(-value, scale, small));
}

const computed = (quantity: CelQuantity): CelQuantity => ({ ...quantity, isComputed: true });

export function compareQuantities(left: CelQuantity, right: CelQuantity): number {
  const scale = Math.min(left.scale, right.scale);
  const difference = atScale(left, scale) - atScale(right, scale);
  return difference < 0n ? -1 : difference > 0n ? 1 : 0;
}

const atScale = ({ value, scale }: CelQuantity, wanted: number) => value * tenTo(scale - wanted);

export const quantity = [
  define('quantity(string): quantity', parseQuantity, parsing),
  define('isQuantity(string): bool', succeeds(parseQuantity), parsing),
  define('sign(quantity): int', ({ value }) => (value < 0n ? -1n : value > 0n ? 1n : 0n)),
  define('<quantity>.isInteger(): bool', (self) => integerOf(self) !== undefined),
  define('<quantity>.asInteger(): int', (self) => {
    const integer = integerOf(self);
    if (integer === undefined) throw new CelError('cannot convert value to integer');
    return integer;
  }),
  // The nearest double to the digits, times a power of ten, as the API server calculates it.
  define(
    '<quantity>.asApproximateFloat(): double',
    ({ value, scale }) => Number(value) * Number(`1e${scale}`),
  ),
  define('<quantity>.add(quantity): quantity', (self, other) => computed(addQuantities(self, other))),
  define('<quantity>.add(int): quantity', (self, other) => computed(addQuantities(self, quantityOf(other)))),
  define('<quantity>.sub(quantity): quantity', (self, other) => computed(subtractQuantities(self, other))),
  define('<quantity>.sub(int): quantity', (self, other) =>
    computed(subtractQuantities(self, quantityOf(other))),
  ),
  define('<quantity>.isGreaterThan(quantity): bool', (self, other) => compareQuantities(self, other) > 0),
  define('<quantity>.isLessThan(quantity): bool', (self, other) => compareQuantities(self, other) < 0),
  define('<quantity>.compareTo(quantity): int', (self, other) => BigInt(compareQuantities(self, other))),
];
