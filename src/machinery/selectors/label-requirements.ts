import { badRequest } from '../failure.ts';
import { labelKeyProblems, labelValueProblems } from './label-syntax.ts';

/** One requirement of a label selector. `=` and `==` become `in` with one value, `!=` becomes `notin` with one. */
export interface LabelRequirement {
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

/** The longest symbol wins; a NUL ends the text, as in the API server. */
const TOKEN = /==|!=|[=!(),<>]|[^ \t\r\n=!(),<>]+/g;
const SYMBOLS = new Set(['==', '!=', '=', '!', '(', ')', ',', '<', '>']);
const END = '';

const isIdentifier = (token: string) => token !== END && !SYMBOLS.has(token);

/**
 * The requirements of a label selector, all of which must hold.
 * @throws ApiFailure 400
 * @see k8s.io/apimachinery/pkg/labels/selector.go for the grammar and the messages
 */
export function parseLabelRequirements(text: string): readonly LabelRequirement[] {
  const tokens = createTokens((text.split('\0')[0] ?? '').match(TOKEN) ?? []);
  const requirements: LabelRequirement[] = [];
  if (tokens.peek() === END) return requirements;
  if (!isIdentifier(tokens.peek()) && tokens.peek() !== '!') {
    throw unexpected(tokens.peek(), ", expected: !, identifier, or 'end of string'");
  }
  for (;;) {
    requirements.push(parseRequirement(tokens));
    const separator = tokens.next();
    if (separator === END) return requirements;
    if (separator !== ',') throw unexpected(separator, ", expected: ',' or 'end of string'");
    const start = tokens.peek();
    if (!isIdentifier(start) && start !== '!') throw unexpected(start, ", expected: identifier after ','");
  }
}

interface Tokens {
  /** The next token; END after the last one. */
  readonly peek: () => string;
  readonly next: () => string;
}

function createTokens(tokens: readonly string[]): Tokens {
  let position = 0;
  const peek = () => tokens[position] ?? END;
  return {
    peek,
    next: () => {
      const token = peek();
      position += 1;
      return token;
    },
  };
}

const unexpected = (found: string, expected: string) => badRequest(`found '${found}'${expected}`);
const unparsable = (why: string) => badRequest(`unable to parse requirement: ${why}`);
const unparsableAt = (found: string, expected: string) => unparsable(`found '${found}'${expected}`);

function parseRequirement(tokens: Tokens): LabelRequirement {
  const absent = tokens.peek() === '!';
  if (absent) tokens.next();
  const key = tokens.next();
  if (!isIdentifier(key)) throw unparsableAt(key, ', expected: identifier');
  const problems = labelKeyProblems(key);
  // The API server has no field path here.
  if (problems.length > 0) throw unparsable(invalidValue('<nil>', key, problems.join('; ')));

  if (absent) return { key, operator: '!', values: [] };
  if (tokens.peek() === END || tokens.peek() === ',') return { key, operator: 'exists', values: [] };

  const symbol = tokens.next();
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
  if (problems.length > 0) {
    throw unparsable(problems.length === 1 ? (problems[0] ?? '') : `[${problems.join(', ')}]`);
  }
}

const isInt64 = (text: string) => /^[+-]?\d+$/.test(text) && BigInt.asIntN(64, BigInt(text)) === BigInt(text);

function parseExactValue(tokens: Tokens): string {
  if (tokens.peek() === END || tokens.peek() === ',') return '';
  const value = tokens.next();
  if (!isIdentifier(value)) throw unparsableAt(value, ', expected: identifier');
  return value;
}

/** `(a,,b)`: sorted and without duplicates; `()` and an empty item stand for the empty value. */
function parseValues(tokens: Tokens): readonly string[] {
  const open = tokens.next();
  if (open !== '(') throw unparsableAt(open, " expected: '('");
  const first = tokens.peek();
  if (!isIdentifier(first) && first !== ',' && first !== ')') {
    throw unparsableAt(first, ", expected: ',', ')' or identifier");
  }
  const values = new Set<string>();
  for (;;) {
    const value = isIdentifier(tokens.peek()) ? tokens.next() : '';
    values.add(value);
    const separator = tokens.next();
    if (separator === ')') return [...values].sort();
    if (separator !== ',') {
      throw unparsableAt(
        separator,
        value === '' ? ", expected: ',', or identifier" : ", expected: ',' or ')'",
      );
    }
  }
}
