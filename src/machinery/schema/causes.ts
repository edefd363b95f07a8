import { counted } from '../../json/counted.ts';
import { toCanonicalText } from '../../json/json-text.ts';
import type { JsonValue } from '../../json/json.ts';
import type { Cause } from '../failure.ts';

// Messages follow apimachinery's validation/field of Kubernetes 1.36. The path '' is the object, which Go prints as <nil>.

/** The placeholder for an object or list, which would be too long to print. */
export const OMITTED = Symbol('a value that is not shown');

type Shown = JsonValue | typeof OMITTED;

const cause = (reason: string, field: string, message: string): Cause => ({
  reason,
  message,
  field: field === '' ? '<nil>' : field,
});

const withDetail = (text: string, detail: string) => (detail === '' ? text : `${text}: ${detail}`);

function withValue(text: string, value: Shown): string {
  if (value === OMITTED) return text;
  const isFloat = typeof value === 'number' && !Number.isInteger(value);
  return `${text}: ${isFloat ? goFloat(value) : toCanonicalText(value)}`;
}

export const requiredValue = (field: string, detail = '') =>
  cause('FieldValueRequired', field, withDetail('Required value', detail));

export const forbiddenValue = (field: string, detail: string) =>
  cause('FieldValueForbidden', field, withDetail('Forbidden', detail));

export const invalidValue = (field: string, value: Shown, detail: string) =>
  cause('FieldValueInvalid', field, withDetail(withValue('Invalid value', value), detail));

export const invalidType = (field: string, typeFound: string, detail: string) =>
  cause('FieldValueTypeInvalid', field, withDetail(withValue('Invalid value', typeFound), detail));

export const duplicateValue = (field: string, value: Shown) =>
  cause('FieldValueDuplicate', field, withValue('Duplicate value', value));

export const unsupportedValue = (field: string, value: JsonValue, supported: readonly JsonValue[]) =>
  cause(
    'FieldValueNotSupported',
    field,
    withDetail(
      withValue('Unsupported value', value),
      supported.length === 0 ? '' : `supported values: ${supported.map(quotedValue).join(', ')}`,
    ),
  );

export const when = (condition: boolean, ...causes: readonly Cause[]): readonly Cause[] =>
  condition ? causes : [];

export const invalidIf = (field: string, value: Shown, problem: string | undefined): readonly Cause[] =>
  problem === undefined ? [] : [invalidValue(field, value, problem)];

export const invalidValues = (field: string, value: Shown, problems: readonly string[]): readonly Cause[] =>
  problems.map((problem) => invalidValue(field, value, problem));

export const notAmong = (field: string, value: string, supported: readonly string[]): readonly Cause[] =>
  when(!supported.includes(value), unsupportedValue(field, value, supported));

/** The same for a required value, which counts as absent if it is empty. */
export const requiredAmong = (
  field: string,
  value: string,
  supported: readonly string[],
): readonly Cause[] => (value === '' ? [requiredValue(field)] : notAmong(field, value, supported));

/** `most` counts characters, although the message says bytes. */
export const tooLong = (field: string, most: number) =>
  cause('FieldValueTooLong', field, `Too long: may not be more than ${counted(most, 'byte')}`);

export const tooMany = (field: string, found: number, most: number) =>
  cause('FieldValueTooMany', field, `Too many: ${found}: must have at most ${counted(most, 'item')}`);

const quotedValue = (value: JsonValue) =>
  JSON.stringify(typeof value === 'string' ? value : toCanonicalText(value));

/** Like Go's `%v`: with an exponent of at least two digits for 1e6 and more or less than 1e-4. */
export function goFloat(value: number): string {
  const size = Math.abs(value);
  if (value === 0 || (size >= 1e-4 && size < 1e6)) return String(value);
  return value.toExponential().replace(/(?<=e[+-])(?=\d$)/, '0');
}
