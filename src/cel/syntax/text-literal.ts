import { syntaxError } from '../cel-error.ts';

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
export function textLiteral(
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
