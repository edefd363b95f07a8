import { CelError } from '../cel-error.ts';

const SURROGATE = /[\ud800-\udfff]/;

export const codePoints = (text: string): readonly string[] =>
  SURROGATE.test(text) ? Array.from(text) : text.split('');

export function textSize(text: string): number {
  if (!SURROGATE.test(text)) return text.length;
  let size = 0;
  for (let unit = 0; unit < text.length; unit += widthAt(text, unit)) size += 1;
  return size;
}

/** The number of UTF-16 units of the first `characters` code points; undefined if the text has fewer. */
export function unitsOf(text: string, characters: number): number | undefined {
  if (!SURROGATE.test(text)) return characters <= text.length ? characters : undefined;
  let unit = 0;
  for (let passed = 0; passed < characters; passed += 1) {
    if (unit >= text.length) return undefined;
    unit += widthAt(text, unit);
  }
  return unit;
}

export const widthAt = (text: string, unit: number): number =>
  (text.codePointAt(unit) ?? 0) > 0xffff ? 2 : 1;

/** Unicode white space as in Go's TrimSpace. JavaScript's trim also removes the byte order mark. */
const SPACES = new Set(
  '\t\n\v\f\r \u0085\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000',
);

export function trimSpace(text: string): string {
  let start = 0;
  let end = text.length;
  while (start < end && SPACES.has(text.charAt(start))) start += 1;
  while (end > start && SPACES.has(text.charAt(end - 1))) end -= 1;
  return text.slice(start, end);
}

const ESCAPES: ReadonlyMap<string, string> = new Map([
  ['\x07', '\\a'],
  ['\b', '\\b'],
  ['\f', '\\f'],
  ['\n', '\\n'],
  ['\r', '\\r'],
  ['\t', '\\t'],
  ['\v', '\\v'],
  ['\\', '\\\\'],
  ['"', '\\"'],
]);

function quoted(text: string, other: (character: string) => string): string {
  const escaped = codePoints(text.toWellFormed()).map((one) => ESCAPES.get(one) ?? other(one));
  return `"${escaped.join('')}"`;
}

export const quoteText = (text: string): string => quoted(text, (character) => character);

// eslint-disable-next-line no-control-regex -- what Go escapes
const UNPRINTABLE = /[\x00-\x1f\x7f]/;

/** As Go's strconv.Quote, for ASCII: control characters have escapes. */
export const goQuote = (text: string): string =>
  quoted(text, (character) =>
    UNPRINTABLE.test(character) ? `\\x${character.charCodeAt(0).toString(16).padStart(2, '0')}` : character,
  );

export const succeeds =
  (parse: (text: string) => unknown) =>
  (text: string): boolean => {
    try {
      parse(text);
      return true;
    } catch (error) {
      if (error instanceof CelError) return false;
      throw error;
    }
  };

/** Formats a double as Go's `%g` does: the shortest exact digits, with an exponent below 10^-4 and from 10^6. */
export function showDouble(value: number): string {
  if (Number.isNaN(value)) return 'NaN';
  if (!Number.isFinite(value)) return value > 0 ? '+Inf' : '-Inf';
  if (Object.is(value, -0)) return '-0';
  const [mantissa = '', exponent = '0'] = value.toExponential().split('e');
  const power = Number(exponent);
  if (power >= -4 && power < 6) return String(value); // JavaScript uses an exponent only below 10^-6
  return `${mantissa}e${power < 0 ? '-' : '+'}${String(Math.abs(power)).padStart(2, '0')}`;
}
