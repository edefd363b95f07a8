/** Fast checks of JSON before parsing. */

/** The number of digits of 2^53: a double may change integers with this many. */
const DIGITS = 16;

const [QUOTE, ZERO, NINE] = [34, 48, 57];
const MINUS = 45;
const COLON = 58;
const COMMA = 44;
const SPACE: ReadonlySet<number> = new Set(Buffer.from(' \n\r\t'));
const [OPEN_LIST, CLOSE_LIST, OPEN_OBJECT, CLOSE_OBJECT] = [91, 93, 123, 125];

/** Digits within a string can cause a false positive. @param json in UTF-8: a string takes twice as long to read */
export function hasUnsafeInteger(json: Uint8Array): boolean {
  const { length } = json;
  let last = DIGITS - 1;
  while (last < length) {
    // Read the last possible digit of a run first and go back from there, so that most positions are never read.
    if (!isDigit(json[last])) {
      last += DIGITS;
      continue;
    }
    let digits = 1;
    while (digits < DIGITS && isDigit(json[last - digits])) digits += 1;
    if (digits < DIGITS) {
      last += DIGITS - digits;
      continue;
    }
    let start = last + 1 - DIGITS;
    while (isDigit(json[start - 1])) start -= 1;
    let end = last + 1;
    while (isDigit(json[end])) end += 1;
    if (isUnsafe(json, start, end)) return true;
    last = end + DIGITS;
  }
  return false;
}

const isDigit = (code: number | undefined): boolean => code !== undefined && code >= ZERO && code <= NINE;

/** The characters before and after a number that is a JSON value, not a part of a string. Undefined: the end of the text. */
const BEFORE: ReadonlySet<number | undefined> = new Set([...Buffer.from(':,[ \n\r\t'), undefined]);
const AFTER: ReadonlySet<number | undefined> = new Set([...Buffer.from(',]} \n\r\t'), undefined]);

function isUnsafe(json: Uint8Array, start: number, end: number): boolean {
  const before = json[start - 1] === MINUS ? start - 2 : start - 1;
  return (
    BEFORE.has(json[before]) &&
    AFTER.has(json[end]) &&
    !Number.isSafeInteger(Number(Buffer.from(json.subarray(start, end)).toString('latin1')))
  );
}

/** Whether containers are nested more than `levels` deep. `text` may be invalid JSON. */
export function isDeeperThan(levels: number, text: string): boolean {
  if (text.length <= levels) return false;
  // Fast path: few texts have more containers than `levels` at all.
  const left = levels - countOf('[', text, levels);
  return (left < 0 || mayHaveMoreObjects(left, text)) && depthExceeds(levels, text);
}

/** The characters of an object in which another one may be: `{"":` and `}`. */
const MIN_OBJECT = 5;

/** Stops where the rest of the text is too short for so many objects within each other. */
function mayHaveMoreObjects(most: number, text: string): boolean {
  let count = 0;
  for (let at = text.indexOf('{'); at >= 0; at = text.indexOf('{', at + 1)) {
    if (count + (text.length - at) / MIN_OBJECT <= most) return false;
    count += 1;
  }
  return count > most;
}

/** Whether there are more than `most` values and containers. `text` may be invalid JSON. */
export function hasMoreValues(most: number, text: string): boolean {
  if (text.length <= most) return false;
  // Fast path: long strings rarely contain that many of these characters.
  const commas = countOf(',', text, most);
  return commas + countOf('{', text, most) + countOf('[', text, most) > most && valuesExceed(most, text);
}

function valuesExceed(most: number, text: string): boolean {
  let values = 0;
  for (let at = 0; at < text.length && values <= most; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    else if (code === COMMA || code === OPEN_LIST || code === OPEN_OBJECT) values += 1;
  }
  return values > most;
}

function countOf(character: string, text: string, most: number): number {
  let count = 0;
  for (let at = text.indexOf(character); at >= 0 && count <= most; at = text.indexOf(character, at + 1))
    count += 1;
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

export function endOfString(text: string, start: number): number {
  let quote = text.indexOf('"', start + 1);
  while (quote !== -1 && isEscaped(text, quote)) quote = text.indexOf('"', quote + 1);
  return quote === -1 ? text.length : quote;
}

function isEscaped(text: string, at: number): boolean {
  let backslashes = 0;
  while (text[at - 1 - backslashes] === '\\') backslashes += 1;
  return backslashes % 2 === 1;
}

/**
 * Whether a key in JSON text contains an escape, such as `"a\u003cb"`, which is how Go writes `a<b`. V8's `JSON.parse`
 * (13.6, Node 24) can confuse such a key with an earlier key at the same position, because it compares with the source
 * text. After `{"\\":1}` it reads the key `\` in `{"\"":1}`.
 */
export function hasEscapedKey(text: string): boolean {
  for (let at = text.indexOf('\\'); at >= 0;) {
    const end = endOfString(text, at - 1);
    if (nextAfterSpace(text, end + 1) === COLON) return true;
    at = text.indexOf('\\', end + 1);
  }
  return false;
}

export function nextAfterSpace(text: string, start: number): number {
  let at = start;
  while (SPACE.has(text.charCodeAt(at))) at += 1;
  return text.charCodeAt(at);
}
