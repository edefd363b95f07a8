/** A JSON value. Integers beyond 2^53 are bigint, to keep their exact value. */
export type JsonValue = null | boolean | number | bigint | string | JsonArray | JsonObject;
export type JsonArray = readonly JsonValue[];
/** Read a key with {@link ownValue}: `object['constructor']` would read the prototype. */
export interface JsonObject {
  readonly [key: string]: JsonValue;
}

export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

export function isJsonArray(value: unknown): value is JsonArray {
  return Array.isArray(value);
}

export function ownValue(object: object, key: string): unknown {
  return Object.hasOwn(object, key) ? (object as Readonly<Record<string, unknown>>)[key] : undefined; // own key
}

/** The value at a path of own keys; undefined if a key is missing, or if a parent is not an object. */
export function valueIn(value: unknown, ...keys: readonly string[]): JsonValue | undefined {
  let found = value;
  for (const key of keys) found = isJsonObject(found) ? ownValue(found, key) : undefined;
  return found as JsonValue | undefined; // a value in JSON is JSON
}

/** Like {@link valueIn}, for text; empty if the value is not a string. */
export function textIn(value: unknown, ...keys: readonly string[]): string {
  const text = valueIn(value, ...keys);
  return typeof text === 'string' ? text : '';
}

/** Like {@link valueIn}, for a list; empty if the value is not a list. */
export function listIn(value: unknown, ...keys: readonly string[]): JsonArray {
  const list = valueIn(value, ...keys);
  return isJsonArray(list) ? list : [];
}

/** Like {@link valueIn}, for an object; empty if the value is not an object. */
export function objectIn(value: unknown, ...keys: readonly string[]): JsonObject {
  const object = valueIn(value, ...keys);
  return isJsonObject(object) ? object : {};
}

/** Keeps every int64 exact. `__proto__` and `constructor` are plain data. @throws SyntaxError if `text` is not JSON */
export function parseJson(text: string, bytes: Uint8Array = Buffer.from(text)): JsonValue {
  const value: unknown = JSON.parse(text); // needed even before the exact parser, which relies on valid text
  return (hasUnsafeInteger(bytes) || hasEscapedKey(text) ? parseExact(text) : value) as JsonValue; // both return JSON
}

/** For text of users: undefined if it is not JSON. */
export function jsonIn(text: string): JsonValue | undefined {
  try {
    return parseJson(text);
  } catch {
    return undefined;
  }
}

type OpenContainer = unknown[] | Record<string, unknown>;

const NUMBER = /-?[\d.eE+]+(?:-\d+)?/y;
const INTEGER = /^-?\d+$/;
/** An int64 has at most 19 digits and a sign. */
const MAX_INT64_LENGTH = 20;

/** A reviver would overflow the stack some thousand levels deep, where JSON.parse itself works. */
function parseExact(text: string): unknown {
  const open: OpenContainer[] = [];
  let root: unknown = null;
  let key: string | undefined; // the last key of the innermost object, still without its value

  function add(value: unknown): void {
    const container = open.at(-1);
    if (container === undefined) root = value;
    else if (Array.isArray(container)) container.push(value);
    else setOwn(container, key ?? '', value);
    key = undefined;
  }

  function enter(container: OpenContainer): void {
    add(container);
    open.push(container);
  }

  let at = 0;
  while (at < text.length) {
    let end = at + 1;
    switch (text.charAt(at)) {
      case '{':
        enter({});
        break;
      case '[':
        enter([]);
        break;
      case '}':
      case ']':
        open.pop();
        break;
      case '"': {
        end = endOfString(text, at) + 1;
        const quoted = text.slice(at, end);
        const value = quoted.includes('\\') ? String(JSON.parse(quoted)) : quoted.slice(1, -1);
        const container = open.at(-1);
        if (container === undefined || Array.isArray(container) || key !== undefined) add(value);
        else key = value;
        break;
      }
      case 't':
      case 'f':
      case 'n': {
        const [literal = ''] = /[a-z]+/.exec(text.slice(at, at + 'false'.length)) ?? [];
        add(JSON.parse(literal));
        end = at + literal.length;
        break;
      }
      case ',':
      case ':':
      case ' ':
      case '\t':
      case '\n':
      case '\r':
        break;
      default: {
        const token = numberAt(text, at);
        add(numberOf(token));
        end = at + token.length;
      }
    }
    at = end;
  }
  return root;
}

function numberAt(text: string, at: number): string {
  NUMBER.lastIndex = at;
  const token = NUMBER.exec(text)?.[0];
  if (token === undefined) throw new SyntaxError(`not JSON: unexpected ${text[at] ?? 'end'} at ${at}`);
  return token;
}

/** Parses a number as the API server does: an integer that fits is an int64, every other number is a double. */
function numberOf(token: string): number | bigint {
  const number = Number(token);
  if (Number.isSafeInteger(number) || token.length > MAX_INT64_LENGTH || !INTEGER.test(token)) return number;
  const integer = BigInt(token);
  return BigInt.asIntN(64, integer) === integer ? integer : number;
}

/** The inverse of {@link parseJson}: writes a bigint as an integer. @param indent the spaces per level */
export function stringifyJson(value: unknown, indent?: number): string {
  const exact = (_key: string, item: unknown) =>
    typeof item === 'bigint' ? JSON.rawJSON(item.toString()) : item;
  return JSON.stringify(value, exact, indent);
}

/** Iterative: a stack overflow would refuse the request or, under `failurePolicy: Ignore`, bypass the policy. */
export function isEqual(left: unknown, right: unknown): boolean {
  const lefts: unknown[] = [left];
  const rights: unknown[] = [right];
  while (lefts.length > 0) {
    const a = lefts.pop();
    const b = rights.pop();
    if (a === b) continue;
    if (isJsonArray(a) && isJsonArray(b)) {
      if (a.length !== b.length) return false;
      for (let index = 0; index < a.length; index += 1) {
        if (a[index] === b[index]) continue; // the usual case: a change shares what it leaves as it is
        lefts.push(a[index]);
        rights.push(b[index]);
      }
    } else if (isJsonObject(a) && isJsonObject(b)) {
      const keys = Object.keys(a);
      if (keys.length !== Object.keys(b).length) return false;
      for (const key of keys) {
        if (!Object.hasOwn(b, key)) return false;
        if (a[key] === b[key]) continue;
        lefts.push(a[key]);
        rights.push(b[key]);
      }
    } else {
      return false;
    }
  }
  return true;
}

declare global {
  interface JSON {
    /** Text that JSON.stringify writes unchanged (V8 11.4 and newer; not yet in TypeScript's ES2024 library). */
    rawJSON(text: string): unknown;
  }
}

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

/**
 * Whether there are more than `most` values and containers. `text` may be invalid JSON.
 * @param level counts each container inside so many others separately
 */
export function hasMoreValues(most: number, text: string, level = -1): boolean {
  if (text.length <= most) return false;
  // Fast path: long strings rarely contain that many of these characters.
  const commas = countOf(',', text, most);
  return (
    commas + countOf('{', text, most) + countOf('[', text, most) > most && valuesExceed(most, text, level)
  );
}

function valuesExceed(most: number, text: string, level: number): boolean {
  let values = 0;
  let depth = 0;
  for (let at = 0; at < text.length && values <= most; at += 1) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) at = endOfString(text, at);
    else if (code === CLOSE_LIST || code === CLOSE_OBJECT) {
      depth -= 1;
      if (depth === level) values = 0;
    } else if (code === COMMA) values += 1;
    else if (code === OPEN_LIST || code === OPEN_OBJECT) {
      depth += 1;
      values += 1;
    }
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

/** An assignment to `__proto__` would change the prototype. Not for all keys: V8 would make it a slow dictionary. */
export function setOwn<T>(object: Record<string, T>, key: string, value: T): void {
  if (key === '__proto__') {
    Object.defineProperty(object, key, { value, enumerable: true, configurable: true, writable: true });
  } else {
    object[key] = value;
  }
}

/** The named fields of an object that are present. A store keeps no other fields. */
export function pick<T extends object, Key extends keyof T>(
  object: T,
  ...keys: readonly Key[]
): Pick<T, Key> {
  const entries = keys.flatMap((key) => (object[key] === undefined ? [] : [[key, object[key]] as const]));
  return Object.fromEntries(entries) as Pick<T, Key>; // only optional fields are absent
}

/** A frozen object counts as deeply frozen. Iterative: users can nest objects ten thousand levels deep. */
export function deepFreeze<T>(value: T): T {
  const pending: unknown[] = [value];
  while (pending.length > 0) {
    const next = pending.pop();
    if (typeof next !== 'object' || next === null || Object.isFrozen(next)) continue;
    Object.freeze(next);
    for (const inner of Object.values(next)) pending.push(inner);
  }
  return value;
}

/** One item of each key: the last, at the place of the first. */
export const uniqueBy = <T>(items: readonly T[], keyOf: (item: T) => string): readonly T[] => [
  ...new Map(items.map((item) => [keyOf(item), item])).values(),
];

/** Orders texts by their code units, as Go orders ASCII. */
export const compareText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0);

/** Memoises a function of an object, for as long as the object lives. */
export function memoizeWeak<Key extends object, Value>(compute: (key: Key) => Value): (key: Key) => Value {
  const known = new WeakMap<Key, { readonly value: Value }>();
  return (key) => {
    const entry = known.get(key) ?? { value: compute(key) };
    known.set(key, entry);
    return entry.value;
  };
}
