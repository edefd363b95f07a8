import type { CelError, CelPosition } from '../../../cel/cel.ts';
import type { UnknownName } from '../../../cel/cel-error.ts';
import { nearest } from '../../../cel/compile/compile-select.ts';
import { functions } from '../../../cel/library/all-functions.ts';

type Habit = Readonly<{ pattern: RegExp; hint: string }>;

const OPTIONAL = 'an optional field is x.?field';
const TERNARY = 'write condition ? a : b';

const hintIn = (habits: readonly Habit[], text: string): string | undefined =>
  habits.find(({ pattern }) => pattern.test(text))?.hint;

/** Operators whose first characters are an operator of CEL. */
const OPERATORS: readonly Habit[] = [
  { pattern: /^[=!]==$/, hint: 'CEL compares by == and !=' },
  { pattern: /^->$/, hint: 'a macro takes a name and an expression: list.all(x, x > 0)' },
];

const HABITS: readonly Habit[] = [
  { pattern: /^=>/, hint: 'a macro takes a name and an expression: list.all(x, x > 0)' },
  { pattern: /^=/, hint: 'CEL compares by ==' },
  { pattern: /^&/, hint: 'write &&' },
  { pattern: /^\|/, hint: 'write ||' },
  { pattern: /^and\b/i, hint: 'write &&' },
  { pattern: /^or\b/i, hint: 'write ||' },
  { pattern: /^not\b/i, hint: 'write !(…)' },
  { pattern: /^\*/, hint: 'for the elements of a list, use all(), exists() or map()' },
  { pattern: /^#/, hint: 'a comment begins with //' },
  { pattern: /^\$/, hint: 'write the expression without $' },
  { pattern: /^[\u201C\u201D\u2018\u2019]/, hint: 'write straight quotes' },
  { pattern: /^\?\./, hint: OPTIONAL },
  { pattern: /^;/, hint: 'an expression ends without a semicolon' },
  { pattern: /^`/, hint: 'strings have single or double quotes' },
];

function syntaxHint(message: string, expression: string, { line, column }: CelPosition): string | undefined {
  const reserved = /^reserved identifier: (\w+)$/.exec(message)?.[1];
  if (reserved === 'namespace') return 'write object.metadata.namespace or request.namespace';
  if (message === 'invalid argument to has() macro') return 'has() takes a field, such as has(object.spec.x)';
  if (reserved === 'if') return TERNARY;
  if (message.startsWith('Syntax error: invalid escape')) return 'double the backslash, or write r"…"';
  if (!message.startsWith('Syntax error: unexpected')) return undefined;
  const text = expression.split('\n')[line - 1] ?? '';
  if (message.endsWith("expected ':'")) return text.includes('?.') ? OPTIONAL : TERNARY;
  if (/\bnot\s+$/i.test(text.slice(0, column - 1))) return 'write !';
  const found = [column - 3, column - 2].map((at) => text.slice(Math.max(0, at), column));
  const operator = OPERATORS.find(({ pattern }) => found.some((rest) => pattern.test(rest)));
  return operator?.hint ?? hintIn(HABITS, text.slice(column - 1));
}

export interface ExpressionPlace extends CelPosition {
  readonly expression: string;
}

export interface KnownNames {
  readonly names: readonly string[];
  readonly variables: readonly string[];
  readonly references: readonly string[];
}

export function explainCel(error: CelError, expression: string, known: KnownNames) {
  const { position = { line: 1, column: 1 }, unknown, message } = error;
  const at = unknown === undefined ? position : startOf(unknown, expression, position);
  const place: ExpressionPlace = { expression, ...at };
  const before = (expression.split('\n')[at.line - 1] ?? '').slice(0, at.column - 1);
  if (unknown?.kind === 'variable' && /[\w\])][-/]$/.test(before))
    return {
      message: `variable ${unknown.name} not found: a key with - or / needs brackets: x["a/b"]`,
      place,
    };
  if (unknown !== undefined) return { message: unknownName(unknown, known), place };
  return { message: hintFor(message, expression, position) ?? message, place };
}

/** The start of the name: errors about calls are at the parenthesis, errors about fields at the dot. */
function startOf({ kind, name }: UnknownName, expression: string, position: CelPosition): CelPosition {
  const { line, column } = position;
  const text = expression.split('\n')[line - 1] ?? '';
  const last = name.split('.').at(-1) ?? name;
  const at = kind === 'function' ? text.lastIndexOf(last, column - 1) : text.indexOf(last, column - 1);
  return at < 0 ? position : { line, column: at + 1 };
}

const suggestion = (meant: string | undefined): string =>
  meant === undefined ? '' : `: did you mean ${meant}?`;

function unknownName({ kind, name, known, of = 'the object' }: UnknownName, names: KnownNames): string {
  switch (kind) {
    case 'field':
      return noField(of, name, of === 'request' ? [...known, ...names.names] : known);
    case 'function':
      // Known, so the arguments are wrong.
      if (known.includes(name))
        return `${name} is a macro: write list.${name}(x, …) with a name and an expression`;
      return `function ${name} not found${suggestion(meantFunction(name, known))}`;
    case 'variable':
      return `variable ${name} ${ADVICE.get(name) ?? `not found${suggestion(meantVariable(name, names))}`}`;
  }
}

export function noField(of: string, name: string, known: readonly string[]): string {
  if (name === '$') return 'a path starts with a field such as spec, without $';
  const deeper = known.filter((one) => one.endsWith(`.${name}`));
  const meant = deeper.find((one) => one === `spec.${name}`) ?? deeper[0];
  const method = METHODS.has(name) ? `${name}()` : undefined;
  const longer = known.find((one) => one.startsWith(name));
  return `field ${name} not found in ${of}${suggestion(meant ?? nearest(name, known) ?? longer ?? method)}`;
}

const METHODS: ReadonlySet<string> = new Set(
  [...functions].flatMap(([name, overloads]) =>
    overloads.some(({ member, parameters }) => member && parameters.length === 1) ? [name] : [],
  ),
);

const ELSEWHERE: ReadonlyMap<string, string> = new Map([
  ['any', 'exists'],
  ['concat', '+'],
  ['count', 'size'],
  ['every', 'all'],
  ['hasPrefix', 'startsWith'],
  ['hasSuffix', 'endsWith'],
  ['includes', 'contains'],
  ['isEmpty', 'size() == 0'],
  ['len', 'size'],
  ['length', 'size'],
  ['not', '!'],
  ['number', 'double'],
  ['orElse', 'orValue'],
  ['parseInt', 'int'],
  ['regex', 'matches'],
  ['some', 'exists'],
  ['str', 'string'],
  ['substr', 'substring'],
  ['test', 'matches'],
  ['toLower', 'lowerAscii'],
  ['toLowerCase', 'lowerAscii'],
  ['toString', 'string'],
  ['toUpper', 'upperAscii'],
  ['toUpperCase', 'upperAscii'],
  ['typeof', 'type'],
]);

function meantFunction(name: string, known: readonly string[]): string | undefined {
  const last = name.split('.').at(-1) ?? name;
  const callable = known.filter((one) => /^[A-Za-z]{3}/.test(one));
  return ELSEWHERE.get(last) ?? nearest(last, callable) ?? nearest(name, callable);
}

const ADVICE: ReadonlyMap<string, string> = new Map([
  [
    'authorizer',
    'is not available here: only rules, warnings, audit annotations, variables and match conditions can use it',
  ],
  ['params', 'not found: name the object in spec.params; match conditions cannot use it'],
  [
    'refs',
    'is not available here: defaults, mutations and match conditions run before references are checked',
  ],
  ['variables', 'is not available here: match conditions cannot use them'],
]);

const VARIABLES_ELSEWHERE: ReadonlyMap<string, string> = new Map([
  ['False', 'false'],
  ['None', 'null'],
  ['True', 'true'],
  ['metadata', 'object.metadata'],
  ['name', 'object.metadata.name'],
  ['new', 'object'],
  ['nil', 'null'],
  ['old', 'oldObject'],
  ['oldSelf', 'oldObject'],
  ['operation', 'request.operation'],
  ['self', 'object'],
  ['spec', 'object.spec'],
  ['status', 'object.status'],
  ['undefined', 'null'],
  ['user', 'request.userInfo'],
  ['userInfo', 'request.userInfo'],
  ['username', 'request.userInfo.username'],
]);

function meantVariable(name: string, { names, variables, references }: KnownNames): string | undefined {
  if (variables.includes(name)) return `variables.${name}`;
  if (references.includes(name)) return `refs.${name}`;
  const variable = nearest(name, variables);
  return (
    VARIABLES_ELSEWHERE.get(name) ??
    nearest(name, names) ??
    (variable === undefined ? undefined : `variables.${variable}`)
  );
}

const OVERLOAD = /^found no matching overload for '(\S+)' applied to '(.*)'$/s;

const RESULT = /^must evaluate to (\w+) but got (.*)$/s;

const SELECTION = /^type '(.*)' does not support field selection$/s;

/** Replaces a message of the API server; undefined if its own words are good. */
function hintFor(message: string, expression: string, position: CelPosition): string | undefined {
  const [, wanted, found] = RESULT.exec(message) ?? [];
  if (wanted === 'bool' && found === 'dyn')
    return 'yields a value whose type is not known, but only true or false count here: write a comparison';
  if (wanted === 'bool') {
    const hint = hintIn(RESULTS, found ?? '') ?? 'write a comparison';
    return `yields ${a(found)}, but only true or false count here: ${hint}`;
  }
  if (wanted !== undefined) return `yields ${a(found)}, but ${a(wanted)} is needed here`;
  const [, name, types] = OVERLOAD.exec(message) ?? [];
  if (name !== undefined && types !== undefined) return overloadHint(name, types);
  const [, type] = SELECTION.exec(message) ?? [];
  if (type?.startsWith('list') === true)
    return 'a list does not have fields: select an element such as [0], or use all() or exists()';
  if (type !== undefined) return `${a(type)} does not have fields`;
  const hint = LITERALS.get(message) ?? syntaxHint(message, expression, position);
  return hint === undefined ? undefined : `${message}: ${hint}`;
}

const RESULTS: readonly Habit[] = [
  { pattern: /Decision$/, hint: 'add .allowed()' },
  { pattern: /^optional_type/, hint: 'add .orValue(false)' },
  { pattern: /^list/, hint: 'use all() or exists()' },
];

const LITERALS: ReadonlyMap<string, string> = new Map([
  ['invalid duration argument', 'write numbers with units, such as 24h or 1h30m'],
  ['invalid timestamp argument', 'write it as in RFC 3339: 2026-01-31T12:00:00Z'],
]);

const a = (type = 'a value'): string => (/^(int|object|optional)/.test(type) ? `an ${type}` : `a ${type}`);

const OPERATOR = /^_(\W+)_$/;

const COMPARISONS = ['==', '!=', '<', '<=', '>', '>='];

const OPERANDS: readonly Habit[] = [
  { pattern: /optional_type/, hint: 'add .orValue(…) to an optional field' },
  { pattern: /Quantity/, hint: 'quantities have isGreaterThan(), isLessThan(), compareTo() and add()' },
  { pattern: /timestamp/, hint: 'convert with timestamp(…); a time span is duration("1h")' },
  { pattern: /duration/, hint: 'write duration("1h")' },
];

const COMPARED: readonly Habit[] = [
  { pattern: /net\.IP/, hint: 'write ip(…)' },
  { pattern: /null/, hint: 'has(x) tells whether a field is set' },
  { pattern: /^type\(/, hint: 'a type has no quotes: type(x) == int' },
  { pattern: /list\(/, hint: 'write x in list, or use all() or exists()' },
  { pattern: /(^|, )(object|spec|status|metadata)\b/, hint: 'compare one of its fields' },
];

function overloadHint(name: string, applied: string): string {
  const types = applied.replace(/^.*\.\(|^\(|\)$/g, '');
  const [, operator] = OPERATOR.exec(name) ?? [];
  if (operator !== undefined && COMPARISONS.includes(operator)) {
    const chain = /[<>]/.test(operator) && types.startsWith('bool, ');
    const hint = chain ? 'write a < b && b < c' : hintIn([...OPERANDS, ...COMPARED], types);
    return `${operator} cannot compare (${types}): ${hint ?? 'convert one side, e.g. by int() or string()'}`;
  }
  if (operator === '&&' || operator === '||') return `${operator} needs Booleans, but got (${types})`;
  if (operator === '+')
    return `+ cannot add (${types}): ${hintIn(OPERANDS, types) ?? 'convert one side, e.g. by string()'}`;
  if (operator !== undefined && operator !== '[' && operator !== '?')
    return `${operator} does not apply to (${types})`;
  if (name === '@in' && /, (list|map)\(/.test(types))
    return `in cannot compare (${types}): write a value of the type of the elements`;
  if (name === '@in')
    return `in needs a list or a map on its right side, but got (${types}): a string has contains()`;
  if (name === '!_') return `! needs a Boolean, but got (${types})`;
  if (name === '-_') return `- needs a number, but got (${types})`;
  if (name === '_?_:_' && !/^(bool|dyn), /.test(types))
    return `the condition of ?: needs a Boolean, but got (${types})`;
  if (name === '_?_:_') return `both branches of ?: need the same type, but got (${types})`;
  if (name === '_[_]' || name === '_[?_]') return `the index does not fit: got (${types})`;
  const [, receiver] = /^(.*)\.\(/s.exec(applied) ?? [];
  const isMember = receiver !== undefined;
  const overloads = functions.get(name) ?? [];
  if (overloads.every(({ member }) => member !== isMember))
    return isMember ? `${name} is not a method: write ${name}(…)` : `${name} is a method: write x.${name}(…)`;
  if (receiver?.startsWith('list') === true && name === 'contains')
    return `contains is not a method of ${receiver}: write x in list`;
  return `${name} does not take (${types})${isMember ? ` on ${a(receiver)}` : ''}`;
}
