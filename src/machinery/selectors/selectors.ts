import type { ApiObject } from '../api-object.ts';
import { badRequest } from '../failure.ts';
import { parseLabelRequirements, type LabelRequirement } from './label-requirements.ts';

type Labels = Readonly<Record<string, string>>;

/**
 * The predicate of a `labelSelector` parameter; an empty one accepts everything.
 * @throws ApiFailure 400 in the API server's words
 */
export function parseLabelSelector(text: string): (labels: Labels | undefined) => boolean {
  const requirements = parseLabelRequirements(text);
  return (labels = {}) => requirements.every((requirement) => meets(labels, requirement));
}

function meets(labels: Labels, { key, operator, values }: LabelRequirement): boolean {
  const value = Object.hasOwn(labels, key) ? labels[key] : undefined;
  switch (operator) {
    case 'in':
      return value !== undefined && values.includes(value);
    case 'notin':
      return value === undefined || !values.includes(value);
    case 'exists':
      return value !== undefined;
    case '!':
      return value === undefined;
    case 'gt':
    case 'lt': {
      if (value === undefined || !/^[+-]?\d+$/.test(value)) return false;
      const [found, bound] = [BigInt(value), BigInt(values[0] ?? '0')];
      return operator === 'gt' ? found > bound : found < bound;
    }
  }
}

/**
 * The predicate of a `fieldSelector` parameter; an empty one accepts everything.
 * @param fields the selectable fields: `metadata.name`, `type` → value of the field, empty if absent
 * @param custom whether the selector is for custom resources, whose error message differs
 * @throws ApiFailure 400 in the API server's words
 */
export function parseFieldSelector(
  text: string,
  fields: Readonly<Record<string, (object: ApiObject) => string>>,
  custom = false,
): (object: ApiObject) => boolean {
  const terms = splitTerms(text)
    .filter((term) => term !== '')
    .map((term) => {
      const [, label = '', operator = '', escaped = ''] = TERM.exec(term) ?? [];
      if (operator === '') throw badRequest(`invalid selector: '${text}'; can't understand '${term}'`);
      return { label, wanted: operator !== '!=', expected: unescape(escaped) };
    });
  // A lone `=` has no field and no value, and the API server ignores it.
  const asked = terms.filter(({ label, expected }) => label !== '' || expected !== '');
  const tests = asked.map(({ label, wanted, expected }) => {
    const read = Object.hasOwn(fields, label) ? fields[label] : undefined;
    if (read === undefined)
      throw unknownField(label, custom || Object.keys(fields).some((name) => !name.startsWith('metadata.')));
    return (object: ApiObject) => (read(object) === expected) === wanted;
  });
  return (object) => tests.every((test) => test(object));
}

/** Kinds that support only metadata fields have one message; other kinds and custom resources have another. */
const unknownField = (label: string, general: boolean) =>
  badRequest(
    general
      ? `field label not supported: ${label}`
      : `${JSON.stringify(label)} is not a known field selector: only "metadata.name", "metadata.namespace"`,
  );

/** The first operator splits the term; `!=` and `==` take precedence over the `=` in them. */
const TERM = /^(.*?)(!=|==|=)(.*)$/s;

/** Splits at commas that are not escaped. */
const splitTerms = (text: string) => text.match(/(?:\\.|[^\\,]|\\$)+/gs) ?? [];

/** In a value, `\`, `,` and `=` are escaped with a backslash. */
function unescape(value: string): string {
  return value.replace(/\\([\s\S]?)|[,=]/g, (found: string, escaped: string | undefined) => {
    if (escaped === undefined) {
      // The API server prints the code of the character.
      throw badRequest(`invalid field selector: unescaped character in value: ${found.charCodeAt(0)}`);
    }
    if (!['\\', ',', '='].includes(escaped)) {
      throw badRequest(`invalid field selector: invalid escape sequence: ${found}`);
    }
    return escaped;
  });
}
