/** Drafts: copies of objects that handlers may change, and checks of the result. */
import { formatPath } from '../../json/field-path.ts';
import {
  isJsonObject,
  type JsonObject,
  type JsonValue,
  ownValue,
  setOwn,
  textIn,
  valueIn,
} from '../../json/json.ts';
import { quote } from '../../json/printable.ts';

/** The draft is not JSON. The message contains the field. */
export class InvalidDraft extends Error {
  override readonly name = 'InvalidDraft';
}

/** The depth limit of the API server's JSON parser. */
const DEEPEST = 10_000;
/** The API server accepts writes of up to 3 MiB: even `[0,0,…]` has fewer values. A shared value counts each time. */
const MOST_VALUES = 1_600_000;
/** As many as the largest review can have. Longer answers exhaust the memory of Gatehouse and of the API server. */
const MOST_CHARACTERS = 20 * 1024 * 1024;

type OpenContainer = JsonValue[] | Record<string, JsonValue>;

interface Level {
  readonly source: object;
  readonly copy: OpenContainer;
  readonly keys: readonly (string | number)[];
  next: number;
}

/** Keeps a stack, because objects can be ten thousand levels deep. @throws InvalidDraft for a value that is not JSON */
export function copyJson(value: object): JsonObject {
  const levels: Level[] = [];
  const fail = (what: string) => invalid(pathTo(levels), what);
  const ancestors = new Set<object>();
  const enter = (source: object): OpenContainer => {
    if (ancestors.has(source)) throw fail('it contains itself, and JSON cannot represent a cycle');
    if (levels.length >= DEEPEST) throw fail(`it is more than ${DEEPEST} levels deep`);
    const level = levelOf(source, fail);
    ancestors.add(source);
    levels.push(level);
    return level.copy;
  };

  const root = enter(value);
  let values = 0;
  let characters = 0;
  for (let level = levels.at(-1); level !== undefined; level = levels.at(-1)) {
    const key = level.keys[level.next];
    if (key === undefined) {
      ancestors.delete(level.source);
      levels.pop();
      continue;
    }
    level.next += 1;
    const item: unknown = Reflect.get(level.source, key);
    values += 1;
    characters += lengthOf(key) + lengthOf(item);
    if (values > MOST_VALUES || characters > MOST_CHARACTERS) throw fail('the object is too large to send');
    const copied = typeof item === 'object' && item !== null ? enter(item) : scalarOf(item, fail);
    if (Array.isArray(level.copy)) level.copy.push(copied);
    else setOwn(level.copy, String(key), copied);
  }
  if (Array.isArray(root)) throw fail('it is a list, not an object');
  return root;
}

const lengthOf = (value: unknown): number => (typeof value === 'string' ? value.length : 0);

type Fail = (what: string) => InvalidDraft;

function levelOf(source: object, fail: Fail): Level {
  if (Array.isArray(source)) {
    if (source.length > MOST_VALUES) throw fail('the list is too long to send');
    return { source, copy: [], keys: [...source.keys()], next: 0 };
  }
  const prototype: unknown = Object.getPrototypeOf(source);
  if (prototype !== Object.prototype && prototype !== null)
    throw fail(`it is a ${classOf(source)}, not a plain object; write what the API expects in JSON`);
  return { source, copy: {}, keys: Object.keys(source), next: 0 };
}

function classOf(source: object): string {
  const { constructor } = source;
  return typeof constructor === 'function' && constructor.name !== '' ? constructor.name : 'class instance';
}

const MOST_INT64 = 2n ** 63n - 1n;

function scalarOf(item: unknown, fail: Fail): JsonValue {
  switch (typeof item) {
    case 'string':
    case 'boolean':
      return item;
    case 'number':
      if (!Number.isFinite(item)) throw fail(`it is ${item}, and JSON has only finite numbers`);
      return item;
    case 'bigint':
      if (item > MOST_INT64 || item < -MOST_INT64 - 1n) throw fail('it is an integer longer than 64 bits');
      return item;
    case 'undefined':
      throw fail('it is undefined; delete the field, or write null');
    case 'object':
      return null;
    case 'function':
    case 'symbol':
      throw fail(`it is a ${typeof item}, which JSON cannot represent`);
  }
}

const pathTo = (levels: readonly Level[]): readonly (string | number)[] =>
  levels.flatMap(({ keys, next }) => keys[next - 1] ?? []);

function invalid(path: readonly (string | number)[], what: string): InvalidDraft {
  // Cut the path: the end of a very long path is not useful.
  const shown = path.length > 64 ? `${formatPath(path.slice(0, 64))}…` : formatPath(path);
  return new InvalidDraft(`${path.length === 0 ? 'the draft' : shown}: ${what}`);
}

/** The API server cannot decode an object with such a problem, and fails the request even under `Ignore`. */
export function shapeProblem(before: JsonObject, after: JsonObject): string | undefined {
  for (const field of ['apiVersion', 'kind']) {
    if (ownValue(before, field) !== ownValue(after, field)) return `${field}: it cannot be changed`;
  }
  for (const field of ['name', 'namespace', 'uid']) {
    const old = textIn(before, 'metadata', field);
    // With `generateName`, a new object has no name yet.
    if (old !== '' && old !== valueIn(after, 'metadata', field))
      return `metadata.${field}: it is ${quote(old)}, and cannot be changed`;
  }
  const metadata = ownValue(after, 'metadata');
  if (metadata === undefined) return undefined;
  if (!isJsonObject(metadata)) return 'metadata: it is not an object';
  return mapProblem(metadata, 'labels') ?? mapProblem(metadata, 'annotations');
}

function mapProblem(metadata: JsonObject, field: string): string | undefined {
  const map = ownValue(metadata, field);
  if (map === undefined || map === null) return undefined;
  if (!isJsonObject(map)) return `metadata.${field}: it is not an object`;
  const wrong = Object.keys(map).find((key) => typeof ownValue(map, key) !== 'string');
  return wrong === undefined
    ? undefined
    : `metadata.${field}[${quote(wrong)}]: it is ${quote(ownValue(map, wrong))}, not a string; write "…" around it`;
}
