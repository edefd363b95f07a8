import { isJsonArray, isJsonObject, type JsonObject, type JsonValue } from './json.ts';

interface Open {
  readonly container: JsonObject | readonly JsonValue[];
  readonly keys: readonly string[] | undefined;
  readonly length: number;
  next: number;
}

/** Like `stringifyJson`, for JSON values only: faster without bigints, and at any depth. */
export function toJsonText(value: JsonValue): string {
  try {
    return JSON.stringify(value);
  } catch {
    return writeDeep(value, Object.keys); // it has a bigint, or is thousands of levels deep
  }
}

/** Keeps its open containers in a list, not on the stack. */
function writeDeep(root: JsonValue, keysOf: (object: JsonObject) => readonly string[]): string {
  const parts: string[] = [];
  const open: Open[] = [];
  const write = (value: JsonValue): void => {
    if (isJsonArray(value)) {
      parts.push('[');
      open.push({ container: value, keys: undefined, length: value.length, next: 0 });
    } else if (isJsonObject(value)) {
      const keys = keysOf(value);
      parts.push('{');
      open.push({ container: value, keys, length: keys.length, next: 0 });
    } else {
      parts.push(typeof value === 'bigint' ? value.toString() : JSON.stringify(value));
    }
  };
  write(root);
  for (let current = open.at(-1); current !== undefined; current = open.at(-1)) {
    const { container, keys, length, next } = current;
    if (next === length) {
      parts.push(keys === undefined ? ']' : '}');
      open.pop();
      continue;
    }
    current.next += 1;
    if (next > 0) parts.push(',');
    const key = keys?.[next];
    if (key !== undefined) parts.push(JSON.stringify(key), ':');
    write(Reflect.get(container, key ?? next) as JsonValue); // a value in JSON is JSON
  }
  return parts.join('');
}

/** JSON text with sorted keys: two values have the same text if and only if they are equal. Works at any depth. */
export function toCanonicalText(root: JsonValue): string {
  return writeDeep(root, (object) => Object.keys(object).sort());
}
