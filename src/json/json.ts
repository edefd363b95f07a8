import { endOfString, hasEscapedKey, hasUnsafeInteger } from './json-scan.ts';
import { setOwn } from './objects.ts';

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
    switch (text.charAt(at)) {
      case '{':
        enter({});
        at += 1;
        break;
      case '[':
        enter([]);
        at += 1;
        break;
      case '}':
      case ']':
        open.pop();
        at += 1;
        break;
      case '"': {
        const end = endOfString(text, at) + 1;
        const value = stringOf(text.slice(at, end));
        const container = open.at(-1);
        if (container === undefined || Array.isArray(container) || key !== undefined) add(value);
        else key = value;
        at = end;
        break;
      }
      case 't':
      case 'f':
      case 'n': {
        const [literal = ''] = /[a-z]+/.exec(text.slice(at, at + 'false'.length)) ?? [];
        add(JSON.parse(literal));
        at += literal.length;
        break;
      }
      case ',':
      case ':':
      case ' ':
      case '\t':
      case '\n':
      case '\r':
        at += 1;
        break;
      default: {
        const token = numberAt(text, at);
        add(numberOf(token));
        at += token.length;
      }
    }
  }
  return root;
}

function stringOf(quoted: string): string {
  return quoted.includes('\\') ? String(JSON.parse(quoted)) : quoted.slice(1, -1);
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
