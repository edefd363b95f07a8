import { CelError } from '../cel-error.ts';
import { parsing } from '../frame.ts';
import { define } from './define.ts';
import {
  addQuantities,
  approximate,
  compareQuantities,
  integerOf,
  negateQuantity,
  parseQuantity,
  quantityOf,
} from './quantity-value.ts';
import { succeeds } from './succeeds.ts';

/** Kubernetes' quantities, e.g. of memory and CPU. */
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
  define('<quantity>.asApproximateFloat(): double', approximate),
  define('<quantity>.add(quantity): quantity', addQuantities),
  define('<quantity>.add(int): quantity', (self, other) => addQuantities(self, quantityOf(other))),
  define('<quantity>.sub(quantity): quantity', (self, other) => addQuantities(self, negateQuantity(other))),
  define('<quantity>.sub(int): quantity', (self, other) => addQuantities(self, quantityOf(-other))),
  define('<quantity>.isGreaterThan(quantity): bool', (self, other) => compareQuantities(self, other) > 0),
  define('<quantity>.isLessThan(quantity): bool', (self, other) => compareQuantities(self, other) < 0),
  define('<quantity>.compareTo(quantity): int', (self, other) => BigInt(compareQuantities(self, other))),
];
