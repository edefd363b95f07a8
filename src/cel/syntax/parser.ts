/** The state of the parser, and the steps that all rules of the grammar share. */
import { CelError, positionOf, syntaxError } from '../cel-error.ts';
import { shorten } from '../../json/printable.ts';
import type { Expression, Identifier } from './expression.ts';
import { type Token, tokenAt } from './lexer.ts';

/** Users write expressions: refuse long or deep ones at compile time, not at runtime. */
const MOST_NODES = 10_000;
/** As in cel-go: of nested expressions, and of operators or selections in a row. */
const MOST_LEVELS = 250;
/** Both together: compilation and evaluation are recursive. */
const MOST_DEPTH = 600;

export interface Parser {
  readonly source: string;
  /** The next token, not consumed yet. */
  token: Token;
  /** Where the last consumed token ends. */
  consumed: number;
  /** From where to where complete expressions reach, such as arguments, items and conditions. */
  readonly spans: Map<Expression, readonly [start: number, end: number]>;
  /** Of nested expressions. */
  level: number;
  /** Of the syntax tree, including chains. */
  depth: number;
  /** Of the arithmetic and comparisons around the next operand. */
  operators: number;
  nodes: number;
  readonly identifiers: Set<Identifier>;
}

export const fail = ({ source }: Parser, message: string, at: number) =>
  new CelError(message, { position: positionOf(source, at) });

export function unexpected({ source, token }: Parser, expected?: string): CelError {
  const wanted = expected === undefined ? '' : `, expected ${expected}`;
  return syntaxError(source, `unexpected ${shownToken(source, token)}${wanted}`, token.at);
}

function shownToken(source: string, token: Token): string {
  if (token.kind === 'end') return 'end of expression';
  if (token.kind === 'literal' && typeof token.value !== 'boolean' && token.value !== null) return 'string';
  return `'${shorten(source.slice(token.at, token.end), 64)}'`;
}

export function advance(parser: Parser): void {
  parser.consumed = parser.token.end;
  parser.token = tokenAt(parser.source, parser.consumed);
}

export const isSymbol = ({ token }: Parser, text: string) => token.kind === 'symbol' && token.text === text;

/** Consumes the symbol if it comes next. */
export function accept(parser: Parser, text: string): boolean {
  if (!isSymbol(parser, text)) return false;
  advance(parser);
  return true;
}

export function expectSymbol(parser: Parser, text: string): void {
  if (!accept(parser, text)) throw unexpected(parser, `'${text}'`);
}

export function expectName(parser: Parser): string {
  const { token } = parser;
  if (token.kind !== 'name') throw unexpected(parser, 'a name');
  advance(parser);
  return token.text;
}

/** Counts an expression. */
export function node<Kind extends Expression>(parser: Parser, expression: Kind): Kind {
  parser.nodes += 1;
  if (parser.nodes > MOST_NODES) {
    throw fail(parser, `the expression has more than ${MOST_NODES} parts`, expression.at);
  }
  return expression;
}

/** Remembers the text of a complete part, which starts at the given position and ends here. */
export function complete(parser: Parser, start: number, part: Expression): Expression {
  parser.spans.set(part, [start, parser.consumed]);
  return part;
}

export function textIn({ source, spans }: Parser, part: Expression): string | undefined {
  const span = spans.get(part);
  return span && source.slice(...span);
}

export function deepen(parser: Parser): void {
  parser.level += 1;
  checkDepth(parser, parser.level);
}

/** @param level of nested expressions, or the length of a chain such as `a.b.c` or `1 + 2 + 3` */
export function checkDepth(parser: Parser, level: number): void {
  parser.depth += 1;
  if (level > MOST_LEVELS || parser.depth > MOST_DEPTH)
    throw fail(parser, `the expression nests more than ${MOST_LEVELS} levels deep`, parser.token.at);
}

/** Parses comma-separated items, with an optional trailing comma, which can also be alone: `[,]`. */
export function parseItems<T>(parser: Parser, close: string, parseItem: () => T): readonly T[] {
  const items: T[] = [];
  if (accept(parser, ',')) {
    expectSymbol(parser, close);
    return items;
  }
  while (!accept(parser, close)) {
    if (items.length > 0) expectSymbol(parser, ',');
    if (items.length > 0 && accept(parser, close)) break;
    items.push(parseItem());
  }
  return items;
}
