import type { ApiObject } from '../api-object.ts';
import { badRequest, listed } from '../failure.ts';
import { labelKeyProblems, labelValueProblems } from '../../json/name-problems.ts';

type Labels = Readonly<Record<string, string>>;

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

export function parseFieldSelector(
  text: string,
  fields: Readonly<Record<string, (object: ApiObject) => string>>,
  custom = false,
): (object: ApiObject) => boolean {
  const terms = (text.match(/(?:\\.|[^\\,]|\\$)+/gs) ?? [])
    .filter((term) => term !== '')
    .map((term) => {
      const [, label = '', operator = '', escaped = ''] = TERM.exec(term) ?? [];
      if (operator === '') throw badRequest(`invalid selector: '${text}'; can't understand '${term}'`);
      return { label, wanted: operator !== '!=', expected: unescape(escaped) };
    });
  // The API server ignores a lone `=`, without field and value.
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

/** One requirement of a label selector. `=` and `==` become `in` with one value, `!=` becomes `notin` with one. */
interface LabelRequirement {
  readonly key: string;
  readonly operator: 'in' | 'notin' | 'exists' | '!' | 'gt' | 'lt';
  /** Empty for `exists` and `!`; one integer for `gt` and `lt`. */
  readonly values: readonly string[];
}

const OPERATORS: Readonly<Record<string, LabelRequirement['operator']>> = {
  in: 'in',
  notin: 'notin',
  '=': 'in',
  '==': 'in',
  '!=': 'notin',
  '>': 'gt',
  '<': 'lt',
};

/** The longest symbol wins. Like in the API server, a NUL ends the text. */
const TOKEN = /==|!=|[=!(),<>]|[^ \t\r\n=!(),<>]+/g;
const SYMBOLS = new Set(['==', '!=', '=', '!', '(', ')', ',', '<', '>']);
const END = '';

const isIdentifier = (token: string) => token !== END && !SYMBOLS.has(token);

/** The requirements of a label selector, which must all be met (labels/selector.go of apimachinery). */
export function parseLabelRequirements(text: string): readonly LabelRequirement[] {
  const tokens: Tokens = (text.split('\0')[0] ?? '').match(TOKEN) ?? [];
  const requirements: LabelRequirement[] = [];
  if (peek(tokens) === END) return requirements;
  if (!isIdentifier(peek(tokens)) && peek(tokens) !== '!') {
    throw unexpected(peek(tokens), ", expected: !, identifier, or 'end of string'");
  }
  for (;;) {
    requirements.push(parseRequirement(tokens));
    const separator = next(tokens);
    if (separator === END) return requirements;
    if (separator !== ',') throw unexpected(separator, ", expected: ',' or 'end of string'");
    const start = peek(tokens);
    if (!isIdentifier(start) && start !== '!') throw unexpected(start, ", expected: identifier after ','");
  }
}

type Tokens = string[];
const peek = (tokens: Tokens): string => tokens[0] ?? END;
const next = (tokens: Tokens): string => tokens.shift() ?? END;

const unexpected = (found: string, expected: string) => badRequest(`found '${found}'${expected}`);
const unparsable = (why: string) => badRequest(`unable to parse requirement: ${why}`);
const unparsableAt = (found: string, expected: string) => unparsable(`found '${found}'${expected}`);

function parseRequirement(tokens: Tokens): LabelRequirement {
  const absent = peek(tokens) === '!';
  if (absent) next(tokens);
  const key = next(tokens);
  if (!isIdentifier(key)) throw unparsableAt(key, ', expected: identifier');
  const problems = labelKeyProblems(key);
  // The API server omits the field path here.
  if (problems.length > 0) throw unparsable(invalidValue('<nil>', key, problems.join('; ')));

  if (absent) return { key, operator: '!', values: [] };
  if (peek(tokens) === END || peek(tokens) === ',') return { key, operator: 'exists', values: [] };

  const symbol = next(tokens);
  const operator = Object.hasOwn(OPERATORS, symbol) ? OPERATORS[symbol] : undefined;
  if (operator === undefined) throw unparsableAt(symbol, ', expected: in, notin, =, ==, !=, gt, lt');
  const values = symbol === 'in' || symbol === 'notin' ? parseValues(tokens) : [parseExactValue(tokens)];
  checkValues(key, operator, values);
  return { key, operator, values };
}

const invalidValue = (path: string, value: string, why: string) =>
  `${path}: Invalid value: ${JSON.stringify(value)}: ${why}`;

function checkValues(key: string, operator: LabelRequirement['operator'], values: readonly string[]): void {
  const integers = operator === 'gt' || operator === 'lt';
  const problems = [
    ...values.flatMap((value, index) =>
      integers && !isInt64(value)
        ? [invalidValue(`values[${index}]`, value, "for 'Gt', 'Lt' operators, the value must be an integer")]
        : [],
    ),
    ...values.flatMap((value, index) => {
      const wrong = labelValueProblems(value);
      return wrong.length === 0 ? [] : [invalidValue(`values[${index}][${key}]`, value, wrong.join('; '))];
    }),
  ];
  if (problems.length > 0) throw unparsable(listed(problems));
}

const isInt64 = (text: string) => /^[+-]?\d+$/.test(text) && BigInt.asIntN(64, BigInt(text)) === BigInt(text);

function parseExactValue(tokens: Tokens): string {
  if (peek(tokens) === END || peek(tokens) === ',') return '';
  const value = next(tokens);
  if (!isIdentifier(value)) throw unparsableAt(value, ', expected: identifier');
  return value;
}

/** `(a,,b)`: sorted and without duplicates; `()` and an empty item stand for the empty value. */
function parseValues(tokens: Tokens): readonly string[] {
  const open = next(tokens);
  if (open !== '(') throw unparsableAt(open, " expected: '('");
  const first = peek(tokens);
  if (!isIdentifier(first) && first !== ',' && first !== ')') {
    throw unparsableAt(first, ", expected: ',', ')' or identifier");
  }
  const values = new Set<string>();
  for (;;) {
    const value = isIdentifier(peek(tokens)) ? next(tokens) : '';
    values.add(value);
    const separator = next(tokens);
    if (separator === ')') return [...values].sort();
    if (separator !== ',') {
      throw unparsableAt(
        separator,
        value === '' ? ", expected: ',', or identifier" : ", expected: ',' or ')'",
      );
    }
  }
}
