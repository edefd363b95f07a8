import { syntaxError } from '../cel-error.ts';
import { type CelUint, uint } from '../values/values.ts';
import { textLiteral } from './text-literal.ts';

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

const CONSTANTS: ReadonlyMap<string, unknown> = new Map<string, unknown>([
  ['true', true],
  ['false', false],
  ['null', null],
]);

/**
 * The next token at or after this position.
 *
 * @throws CelError if no token can start there, or if a literal is malformed
 * @see https://github.com/google/cel-spec/blob/master/doc/langdef.md#syntax
 */
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

/** The end of the pattern's match at `at`; `at` if it does not match. */
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
