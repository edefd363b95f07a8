/** Properties of JSON text, found before parsing in a fraction of the time. */

/** Of an integer that a double might change: 2^53 has as many. */
const DIGITS = 16;

const [QUOTE, BACKSLASH, ZERO, NINE, MINUS] = [34, 92, 48, 57, 45];
const COLON = 58;
const SPACE: ReadonlySet<number> = new Set(Buffer.from(' \n\r\t'));
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [91, 93, 123, 125];

/**
 * Whether a number in JSON text, given as UTF-8, is an integer beyond 2^53. May take digits within a string for one, though not
 * those of a hash or an identifier: where all of the text says "yes", reading it exactly takes ten times as long.
 */
export function hasUnsafeInteger(utf8: Uint8Array): boolean {
  const { length } = utf8;
  // A run of 16 digits covers one of these places, wherever it begins.
  for (let at = DIGITS - 1; at < length; at += DIGITS) {
    if (!isDigit(utf8[at])) continue;
    let start = at;
    while (start > 0 && isDigit(utf8[start - 1])) start -= 1;
    let end = at + 1;
    while (end < length && isDigit(utf8[end])) end += 1;
    if (end - start >= DIGITS && isUnsafe(utf8, start, end)) return true;
    at += DIGITS * Math.floor((end - at - 1) / DIGITS); // no run is walked through twice
  }
  return false;
}

const isDigit = (code: number | undefined): boolean => code !== undefined && code >= ZERO && code <= NINE;

/** The characters before and after a number that is a JSON value, not a part of a string. */
const BEFORE = codesOf(':,[ \n\r\t');
const BEHIND = codesOf(',]} \n\r\t');

/** With what stands before and behind any text. */
function codesOf(characters: string): ReadonlySet<number | undefined> {
  return new Set([undefined, ...Buffer.from(characters)]);
}

function isUnsafe(utf8: Uint8Array, start: number, end: number): boolean {
  const before = utf8[start - 1] === MINUS ? start - 2 : start - 1;
  return (
    BEFORE.has(utf8[before]) &&
    BEHIND.has(utf8[end]) &&
    !Number.isSafeInteger(Number(Buffer.from(utf8.subarray(start, end)).toString('latin1')))
  );
}

/** Whether containers are nested in one another more than `levels` deep. `text` need not be JSON. */
export function isDeeperThan(levels: number, text: string): boolean {
  if (text.length <= levels) return false;
  // Hardly any text has so many containers in all that it has to be walked through.
  return countOf('{', text, levels) + countOf('[', text, levels) > levels && depthExceeds(levels, text);
}

function countOf(character: string, text: string, most: number): number {
  let count = 0;
  for (let at = text.indexOf(character); at >= 0 && count <= most; at = text.indexOf(character, at + 1)) {
    count += 1;
  }
  return count;
}

function depthExceeds(levels: number, text: string): boolean {
  let depth = 0;
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    else if (code === CLOSE_LIST || code === CLOSE_OBJECT) depth -= 1;
    else if (code === OPEN_LIST || code === OPEN_OBJECT) {
      depth += 1;
      if (depth > levels) return true;
    }
  }
  return false;
}

/** The place of the closing quote; behind the text where there is none. */
function endOfString(text: string, start: number): number {
  for (let at = start + 1; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) return at;
    if (code === BACKSLASH) at += 1;
  }
  return text.length;
}

/**
 * Whether a key in JSON text is written with an escape, such as `"a\u003cb"`, which is how Go writes `a<b`.
 *
 * V8's `JSON.parse` (13.6, of Node 24) may take such a key for one that it has seen in its place before: it compares that with the
 * text as it is written. After `{"\\":1}` it reads the key `\` in `{"\"":1}`.
 */
export function hasEscapedKey(text: string): boolean {
  // A backslash occurs in strings only.
  for (let at = text.indexOf('\\'); at >= 0;) {
    const end = endOfString(text, at - 1);
    if (nextAfterSpace(text, end + 1) === COLON) return true;
    at = text.indexOf('\\', end + 1);
  }
  return false;
}

function nextAfterSpace(text: string, start: number): number {
  let at = start;
  while (SPACE.has(text.charCodeAt(at))) at += 1;
  return text.charCodeAt(at);
}
