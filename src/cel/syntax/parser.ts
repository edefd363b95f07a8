/** The state of the parser, and the steps that all rules of the grammar share. */
import { CelError, positionOf, syntaxError } from '../cel-error.ts';
import { shorten } from '../../json/printable.ts';
import type { Expression, Identifier } from './expression.ts';
import { type CelUint, uint } from '../values/values.ts';

/** Users write expressions: refuse long or deep ones at compile time, not at runtime. */
const MOST_NODES = 10_000;
/** cel-go's limit, both for nested expressions and for operators or selections in a row. */
const MOST_LEVELS = 250;
/** The limit for both together, because compilation and evaluation are recursive. */
const MOST_DEPTH = 600;

export interface Parser {
  readonly source: string;
  token: Token;
  consumed: number;
  /** The start and end of complete expressions, such as arguments, items and conditions. */
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

export function node<Kind extends Expression>(parser: Parser, expression: Kind): Kind {
  parser.nodes += 1;
  if (parser.nodes > MOST_NODES) {
    throw fail(parser, `the expression has more than ${MOST_NODES} parts`, expression.at);
  }
  return expression;
}

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

/** A token of an expression. `at` and `end` count UTF-16 units. */
export type Token =
  | { readonly kind: 'name' | 'symbol'; readonly text: string; readonly at: number; readonly end: number }
  | { readonly kind: 'literal'; readonly value: unknown; readonly at: number; readonly end: number }
  /** A number without its sign. It may be out of range: the parser knows the sign. */
  | {
      readonly kind: 'number';
      readonly value: number | bigint | CelUint;
      readonly at: number;
      readonly end: number;
    }
  | { readonly kind: 'end'; readonly at: number; readonly end: number };

const SPACE = /(?:[ \t\n\f\r]|\/\/[^\n]*)*/y;

const TEXT_START = /([bB]?)([rR]?)("""|'''|"|')/y;

const WORD = /[A-Za-z_][A-Za-z0-9_]*/y;

const NUMBER =
  /0x([0-9A-Fa-f]+)([uU]?)|(\d+\.\d+(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\.\d+(?:[eE][+-]?\d+)?)|(\d+)([uU]?)/y;

const SYMBOL = /&&|\|\||[=!<>]=|[-+*/%<>!?:.,()[\]{}]/y;

/** The possible first characters: a cheap test before the pattern. */
const SPACE_STARTS = new Set(' \t\n\f\r/');

const TEXT_STARTS = new Set('"\'bBrR');

const NUMBER_STARTS = new Set('.0123456789');

const CONSTANTS = new Map<string, unknown>(Object.entries({ true: true, false: false, null: null }));

/** @throws CelError if no token can start there, or if a literal is malformed */
export function tokenAt(source: string, from: number): Token {
  const at = SPACE_STARTS.has(source.charAt(from)) ? endOf(SPACE, source, from) : from;
  if (at >= source.length) return { kind: 'end', at, end: at };
  const first = source.charAt(at);
  const text = TEXT_STARTS.has(first) ? match(TEXT_START, source, at) : undefined;
  if (text !== undefined) {
    const [start, bytes, raw, quotes = ''] = text;
    const literal = { at, open: at + start.length, quotes, isBytes: bytes !== '', isRaw: raw !== '' };
    return { kind: 'literal', ...textLiteral(source, literal), at };
  }
  const endOfWord = endOf(WORD, source, at);
  if (endOfWord > at) return wordToken(source.slice(at, endOfWord), at);
  const number = NUMBER_STARTS.has(first) ? match(NUMBER, source, at) : undefined;
  if (number !== undefined) return numberToken(number, at);
  const end = endOf(SYMBOL, source, at);
  if (end > at) return { kind: 'symbol', text: source.slice(at, end), at, end };
  throw syntaxError(source, `unexpected character ${shownCharacter(source.codePointAt(at) ?? 0)}`, at);
}

const shownCharacter = (code: number) =>
  code > 0x20 && code < 0x7f
    ? `'${String.fromCodePoint(code)}'`
    : `U+${code.toString(16).toUpperCase().padStart(4, '0')}`;

function endOf(pattern: RegExp, source: string, at: number): number {
  pattern.lastIndex = at;
  return pattern.test(source) ? pattern.lastIndex : at;
}

function match(pattern: RegExp, source: string, at: number): RegExpExecArray | undefined {
  pattern.lastIndex = at;
  return pattern.exec(source) ?? undefined;
}

function wordToken(word: string, at: number): Token {
  const end = at + word.length;
  if (word === 'in') return { kind: 'symbol', text: word, at, end };
  return CONSTANTS.has(word)
    ? { kind: 'literal', value: CONSTANTS.get(word), at, end }
    : { kind: 'name', text: word, at, end };
}

/** More digits than any 64-bit integer has, but few enough for a fast conversion. */
const LONGEST_INTEGER = 100;

const OUT_OF_RANGE = 2n ** 64n;

function numberToken([text, hex, hexSuffix, double, decimal, suffix]: RegExpExecArray, at: number): Token {
  const end = at + text.length;
  if (double !== undefined) return { kind: 'number', value: Number(double), at, end };
  const digits = hex === undefined ? (decimal ?? '') : `0x${hex}`;
  const value = digits.length > LONGEST_INTEGER ? OUT_OF_RANGE : BigInt(digits);
  const isUnsigned = (hexSuffix ?? suffix ?? '') !== '';
  return { kind: 'number', value: isUnsigned ? uint(value) : value, at, end };
}

interface TextStart {
  readonly at: number;
  /** After the opening quotes. */
  readonly open: number;
  readonly quotes: string;
  readonly isBytes: boolean;
  readonly isRaw: boolean;
}

/** @throws CelError if it is not terminated, or if an escape is malformed */
function textLiteral(
  source: string,
  start: TextStart,
): { readonly value: string | Uint8Array; readonly end: number } {
  const close = closingQuotes(source, start);
  const end = close + start.quotes.length;
  const parts = partsOf(source, start, close);
  if (!start.isBytes) {
    return {
      value: parts.map((part) => (typeof part === 'string' ? part : String.fromCodePoint(part))).join(''),
      end,
    };
  }
  const bytes = parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : Buffer.of(part)));
  return { value: new Uint8Array(Buffer.concat(bytes)), end };
}

function closingQuotes(source: string, { at, open, quotes, isRaw }: TextStart): number {
  for (let next = open; next < source.length; next += 1) {
    const character = source.charAt(next);
    if (character === quotes[0] && source.startsWith(quotes, next)) return next;
    if (quotes.length === 1 && (character === '\n' || character === '\r')) {
      throw syntaxError(source, 'a string with a line break needs triple quotes', next);
    }
    if (character === '\\' && !isRaw) next += 1;
  }
  throw syntaxError(source, `the string lacks a closing ${quotes}`, at);
}

const ESCAPE =
  /\\(?:([abfnrtv\\?"'`])|[xX]([0-9A-Fa-f]{2})|([0-3][0-7]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|[^])/gu;

const CHARACTERS = new Map(
  Object.entries({ a: '\x07', b: '\b', f: '\f', n: '\n', r: '\r', t: '\t', v: '\v' }),
);

/** Plain text, and the code point of each escape. In a bytes literal, a code point is one byte. */
function partsOf(
  source: string,
  { open, quotes, isBytes, isRaw }: TextStart,
  close: number,
): readonly (string | number)[] {
  const written = source.slice(open, close);
  // Like in cel-go, all line breaks become \n.
  const plain = (text: string) =>
    quotes.length === 3 && text.includes('\r') ? text.replace(/\r\n?/g, '\n') : text;
  if (isRaw || !written.includes('\\')) return [plain(written)];
  const parts: (string | number)[] = [];
  let end = 0;
  for (const found of written.matchAll(ESCAPE)) {
    const code = codePointOf(found);
    if (code === undefined || !(isBytes ? isByteEscape(found) : isCharacter(code))) {
      throw syntaxError(source, `invalid escape ${found[0]}`, open + found.index);
    }
    parts.push(plain(written.slice(end, found.index)), code);
    end = found.index + found[0].length;
  }
  return [...parts, plain(written.slice(end))];
}

function codePointOf([, character, hex, octal, short, long]: RegExpExecArray): number | undefined {
  if (character !== undefined) return (CHARACTERS.get(character) ?? character).charCodeAt(0);
  if (octal !== undefined) return Number.parseInt(octal, 8);
  const digits = hex ?? short ?? long;
  return digits === undefined ? undefined : Number.parseInt(digits, 16);
}

const isByteEscape = ([, , , , short, long]: RegExpExecArray) => short === undefined && long === undefined;

/** Unicode ends at 10FFFF, and surrogates are not characters. */
const isCharacter = (code: number) => code <= 0x10_ffff && !(code >= 0xd800 && code <= 0xdfff);
