import { syntaxError } from '../cel-error.ts';
import { uint, type CelUint } from '../values/values.ts';

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

/** The start of a string or bytes literal. Positions count UTF-16 units. */
interface TextStart {
  readonly at: number;
  /** After the opening quotes. */
  readonly open: number;
  readonly quotes: string;
  readonly isBytes: boolean;
  readonly isRaw: boolean;
}

/**
 * The value of a string or bytes literal, and the end of the literal.
 *
 * @throws CelError if it is not terminated, or if an escape is malformed
 */
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
  throw syntaxError(source, `the string has no closing ${quotes}`, at);
}

const ESCAPE =
  /\\(?:([abfnrtv\\?"'`])|[xX]([0-9A-Fa-f]{2})|([0-3][0-7]{2})|u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|[^])/gu;

const CHARACTERS: ReadonlyMap<string, string> = new Map([
  ['a', '\x07'],
  ['b', '\b'],
  ['f', '\f'],
  ['n', '\n'],
  ['r', '\r'],
  ['t', '\t'],
  ['v', '\v'],
]);

/** Plain text, and the code point of each escape. In a bytes literal, a code point is one byte. */
function partsOf(
  source: string,
  { open, quotes, isBytes, isRaw }: TextStart,
  close: number,
): readonly (string | number)[] {
  const written = source.slice(open, close);
  // All line breaks become \n, as in cel-go.
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
