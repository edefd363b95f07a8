import { CelError } from '../cel-error.ts';
import { MOST_INT, MOST_UINT, type CelUint } from '../values/values.ts';
import type { Entry, Expression, Identifier, Item, MessageField } from './expression.ts';
import {
  accept,
  advance,
  checkDepth,
  complete,
  deepen,
  expectName,
  expectSymbol,
  fail,
  isSymbol,
  node,
  parseItems,
  type Parser,
  textIn,
  type Token,
  tokenAt,
  unexpected,
} from './parser.ts';
import { expandMacro } from './macros.ts';

/** Like cel-go, gives all comparisons one precedence. @throws CelError */
export function parseExpression(source: string) {
  refuseTooLong(source);
  const parser: Parser = {
    source,
    token: tokenAt(source, 0),
    consumed: 0,
    spans: new Map(),
    level: 0,
    depth: 0,
    operators: 0,
    nodes: 0,
    identifiers: new Set(),
  };
  const expression = parseConditional(parser);
  if (parser.token.kind !== 'end') throw unexpected(parser);
  return {
    expression,
    names: new Set(Array.from(parser.identifiers, ({ name }) => name)),
    /** The text of a part that is complete: the whole, an item, an entry, an argument, or a part of a conditional. */
    textOf: (part: Expression) => textIn(parser, part),
  };
}

const MOST_CODE_POINTS = 100_000;

function refuseTooLong(source: string): void {
  const size = source.length <= MOST_CODE_POINTS ? 0 : Array.from(source).length;
  if (size > MOST_CODE_POINTS)
    throw new CelError(`expression code point size exceeds limit: size: ${size}, limit ${MOST_CODE_POINTS}`);
}

const call = (parser: Parser, name: string, parts: readonly Expression[], at: number): Expression =>
  node(parser, { kind: 'call', name, target: undefined, arguments: parts, at });

function parseConditional(parser: Parser): Expression {
  const { depth, token } = parser;
  deepen(parser);
  const condition = parseBranch(parser);
  const { at } = parser.token;
  const expression = accept(parser, '?')
    ? call(parser, '_?_:_', [condition, ...parseBranches(parser)], at)
    : condition;
  parser.level -= 1;
  parser.depth = depth;
  return complete(parser, token.at, expression);
}

function parseBranch(parser: Parser): Expression {
  const { at } = parser.token;
  return complete(parser, at, parseBinary(parser, 1));
}

function parseBranches(parser: Parser): readonly [Expression, Expression] {
  const whenTrue = parseBranch(parser);
  expectSymbol(parser, ':');
  return [whenTrue, parseConditional(parser)];
}

const BINARY: ReadonlyMap<string, { readonly precedence: number; readonly name: string }> = new Map(
  [['||'], ['&&'], ['==', '!=', '<', '<=', '>', '>=', 'in'], ['+', '-'], ['*', '/', '%']].flatMap(
    (operators, index) =>
      operators.map((operator) => [
        operator,
        { precedence: index + 1, name: operator === 'in' ? '@in' : `_${operator}_` },
      ]),
  ),
);

const LOGICAL = 2;

/** Operators of equal precedence are left-associative. */
function parseBinary(parser: Parser, least: number): Expression {
  let left = parseUnary(parser);
  const { depth } = parser;
  for (let chain = 1; ; chain += 1) {
    const { token } = parser;
    const operator = token.kind === 'symbol' ? BINARY.get(token.text) : undefined;
    if (operator === undefined || operator.precedence < least) {
      parser.depth = depth;
      return left;
    }
    // cel-go balances chains of && and ||.
    const counts = operator.precedence > LOGICAL ? 1 : 0;
    if (counts > 0) checkDepth(parser, parser.operators + chain + 1);
    advance(parser);
    parser.operators += counts;
    const right = parseBinary(parser, operator.precedence + 1);
    parser.operators -= counts;
    left = call(parser, operator.name, [left, right], token.at);
  }
}

/** Like cel-go, drops pairs of the same operator. */
function parseUnary(parser: Parser): Expression {
  const { at } = parser.token;
  const operator = isSymbol(parser, '!') ? '!' : '-';
  let count = 0;
  while (accept(parser, operator)) count += 1;
  if (count === 1 && operator === '-' && isSigned(parser.token)) return parseMember(parser, at);
  const operand = parseMember(parser);
  return count % 2 === 0 ? operand : call(parser, `${operator}_`, [operand], at);
}

const isSigned = (token: Token): boolean => token.kind === 'number' && typeof token.value !== 'object';

function parseMember(parser: Parser, minusAt?: number): Expression {
  let operand = parsePrimary(parser, minusAt);
  const { depth } = parser;
  for (let chain = 1; isSymbol(parser, '.') || isSymbol(parser, '['); chain += 1) {
    checkDepth(parser, chain + 1);
    const { at } = parser.token;
    operand = accept(parser, '.') ? parseSelection(parser, operand, at) : parseIndex(parser, operand, at);
  }
  parser.depth = depth;
  const name = isSymbol(parser, '{') ? messageName(parser.identifiers, operand) : undefined;
  return name === undefined ? operand : parseMessage(parser, name);
}

function messageName(identifiers: Set<Identifier>, operand: Expression): string | undefined {
  if (operand.kind === 'identifier') return identifiers.delete(operand) ? operand.name : undefined;
  if (operand.kind !== 'select' || operand.mode !== 'read') return undefined;
  const container = messageName(identifiers, operand.operand);
  return container === undefined ? undefined : `${container}.${operand.field}`;
}

function parseMessage(parser: Parser, name: string): Expression {
  const { at } = parser.token;
  expectSymbol(parser, '{');
  const fields = parseItems(parser, '}', (): MessageField => {
    const optional = accept(parser, '?');
    const field = expectName(parser);
    const colon = parser.token.at;
    expectSymbol(parser, ':');
    return { optional, name: field, at: colon, value: parseConditional(parser) };
  });
  return node(parser, { kind: 'message', name, fields, at });
}

function parseSelection(parser: Parser, operand: Expression, at: number): Expression {
  const optional = accept(parser, '?');
  const field = expectName(parser);
  if (!optional && isSymbol(parser, '(')) return parseCall(parser, field, operand);
  return node(parser, { kind: 'select', operand, field, mode: optional ? 'optional' : 'read', at });
}

function parseIndex(parser: Parser, operand: Expression, at: number): Expression {
  expectSymbol(parser, '[');
  const name = accept(parser, '?') ? '_[?_]' : '_[_]';
  const index = parseConditional(parser);
  expectSymbol(parser, ']');
  return call(parser, name, [operand, index], at);
}

function parseCall(parser: Parser, name: string, target: Expression | undefined): Expression {
  const { at } = parser.token;
  expectSymbol(parser, '(');
  const parts: Expression[] = [];
  if (!isSymbol(parser, ')')) {
    do parts.push(parseConditional(parser));
    while (accept(parser, ','));
  }
  expectSymbol(parser, ')');
  const expression = expandMacro(
    { kind: 'call', name, target, arguments: parts, at },
    {
      fail: (message, place) => fail(parser, message, place),
      declare: (identifier) => parser.identifiers.delete(identifier),
    },
  );
  return node(parser, expression);
}

/** Reserved words. They can be names of fields, but not of variables or functions. */
export const RESERVED_WORDS: ReadonlySet<string> = new Set(
  'as break const continue else for function if import let loop package namespace return var void while'.split(
    ' ',
  ),
);

function parsePrimary(parser: Parser, minusAt: number | undefined): Expression {
  const { token } = parser;
  switch (token.kind) {
    case 'literal':
      advance(parser);
      return node(parser, { kind: 'literal', value: token.value, at: token.at });
    case 'number':
      advance(parser);
      return node(parser, numberLiteral(parser, token.value, minusAt, token.at));
    case 'name':
      return parseName(parser);
    case 'symbol':
      return parseGroup(parser, token.at);
    case 'end':
      throw unexpected(parser);
  }
}

function parseName(parser: Parser): Expression {
  const { at } = parser.token;
  const name = expectName(parser);
  if (RESERVED_WORDS.has(name)) throw fail(parser, `reserved identifier: ${name}`, at);
  return isSymbol(parser, '(') ? parseCall(parser, name, undefined) : identifier(parser, name, at);
}

function identifier(parser: Parser, name: string, at: number): Identifier {
  const expression = node(parser, { kind: 'identifier' as const, name, at });
  parser.identifiers.add(expression);
  return expression;
}

/** The smallest int is in range only together with its minus sign. */
function numberLiteral(
  parser: Parser,
  value: number | bigint | CelUint,
  minusAt: number | undefined,
  numberAt: number,
): Expression {
  const at = minusAt ?? numberAt;
  const isNegative = minusAt !== undefined;
  if (typeof value === 'object') {
    if (value.value > MOST_UINT) throw fail(parser, 'invalid uint literal', at);
    return { kind: 'literal', value, at };
  }
  if (typeof value === 'bigint' && value > (isNegative ? MOST_INT + 1n : MOST_INT)) {
    throw fail(parser, 'invalid int literal', at);
  }
  if (typeof value === 'number' && !Number.isFinite(value)) throw fail(parser, 'invalid double literal', at);
  return { kind: 'literal', value: isNegative ? -value : value, at };
}

function parseGroup(parser: Parser, at: number): Expression {
  if (accept(parser, '(')) {
    const expression = parseConditional(parser);
    expectSymbol(parser, ')');
    return expression;
  }
  if (accept(parser, '[')) {
    const items = parseItems(parser, ']', (): Item => {
      const optional = accept(parser, '?');
      return { optional, value: parseConditional(parser) };
    });
    return node(parser, { kind: 'list', items, at });
  }
  if (accept(parser, '.')) return parseName(parser); // an absolute name; there are no namespaces
  if (!accept(parser, '{')) throw unexpected(parser);
  const entries = parseItems(parser, '}', (): Entry => {
    const optional = accept(parser, '?');
    const key = parseConditional(parser);
    expectSymbol(parser, ':');
    return { optional, key, value: parseConditional(parser) };
  });
  return node(parser, { kind: 'map', entries, at });
}
