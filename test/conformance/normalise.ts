/** Removes values from a transcript that differ between runs, or that the sandbox leaves out. */
import type { Transcript } from './transcript.ts';

type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
type JsonMap = Readonly<Record<string, Json>>;

export interface NormaliseOptions {
  /** The unique word of the case in names; it becomes `case`. */
  readonly id: string;
  readonly keepManagedFields: boolean;
}

/** Fields that no case is about. */
const VOLATILE_FIELDS = new Set(['storageVersionHash']);

/** Fields that are removed when they become empty. */
const EMPTIED = new Set(['labels', 'warning', 'headers']);

/** Kinds whose resourceVersion is that of the whole storage, which parallel cases change. */
const STORAGE_VERSIONED = /(List|Table)$/;

export function normalise(transcript: Transcript, options: NormaliseOptions): Json {
  const raw = JSON.parse(JSON.stringify(transcript)) as Json; // the result of JSON.parse
  const names = createNames(options.id, generatedNames(raw));
  const versions = numbered('version');

  const walk = (value: Json, key: string): Json => {
    if (typeof value === 'string') return names(key, value);
    if (isList(value)) return value.map((item) => walk(item, key));
    if (!isMap(value)) return value;
    // Sorted, so that numbering does not depend on the server's key order.
    const entries = Object.entries(withVersion(value, versions))
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .filter(([name, item]) => !VOLATILE_FIELDS.has(name) && !isNothing(name, item))
      .filter(([name]) => options.keepManagedFields || name !== 'managedFields')
      .map(([name, item]): [string, Json] => [names('', name), tidy(name, item, walk)]);
    return Object.fromEntries(entries.filter(([name, item]) => !(EMPTIED.has(name) && isEmpty(item))));
  };
  return walk(raw, '');
}

/** Go's zero values, which some releases write and others omit. */
const isNothing = (name: string, item: Json): boolean =>
  (name === 'continue' && item === '') || (/^(creationTimestamp|eventTime)$/.test(name) && item === null);

/** Special treatment for the values of some keys. */
function tidy(key: string, value: Json, walk: (value: Json, key: string) => Json): Json {
  if (key === 'columnDefinitions' && isList(value))
    // Descriptions are documentation, which changes often.
    return value.map((column) => (isMap(column) ? without(column, 'description') : column));
  // Servers evaluate a rule a different number of times.
  if (key === 'causes' && isList(value)) return walk(withoutRepetition(value), key);
  if (key === 'nodePort') return '<port>';
  return walk(value, key);
}

function withVersion(value: JsonMap, versions: (version: string) => string): JsonMap {
  const { metadata, kind, type, object } = value;
  if (type === 'BOOKMARK' && isMap(object) && isMap(object.metadata))
    return {
      ...value,
      object: { ...object, metadata: { ...object.metadata, resourceVersion: '<storage>' } },
    };
  if (!isMap(metadata) || typeof metadata.resourceVersion !== 'string') return value;
  const version = metadata.resourceVersion;
  if (!/^\d+$/.test(version)) return value;
  const shown = typeof kind === 'string' && STORAGE_VERSIONED.test(kind) ? '<storage>' : versions(version);
  return { ...value, metadata: { ...metadata, resourceVersion: shown } };
}

/** Names that the server made from a generateName. */
function generatedNames(value: Json): ReadonlyMap<string, string> {
  const found = new Map<string, string>();
  const look = (item: Json): void => {
    if (isList(item)) item.forEach(look);
    else if (isMap(item)) {
      const { name, generateName } = item;
      if (typeof name === 'string' && typeof generateName === 'string' && name.startsWith(generateName))
        found.set(name, `${generateName}<generated>`);
      Object.values(item).forEach(look);
    }
  };
  look(value);
  return found;
}

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;

/** Replaces the parts of a string that differ between runs with placeholders. */
function createNames(id: string, generated: ReadonlyMap<string, string>) {
  const uids = numbered('uid');
  return (key: string, text: string): string => {
    if (key === 'continue') return '<continue>';
    if (key === 'resourceVersion' && /^\d+$/.test(text)) return '<version>';
    let named = text;
    for (const [name, shown] of generated) named = named.replaceAll(name, shown);
    named = withoutGoSyntax(named)
      .replaceAll(UUID, (uid) => (/^[0-]+[01]?$/.test(uid) ? uid : uids(uid)))
      .replaceAll(id, 'case');
    for (const [pattern, shown] of [...OF_A_RUN, ...LEFT_OUT]) named = named.replaceAll(pattern, shown);
    return named;
  };
}

/** Replaces equal values by the same number, in order of first appearance. */
function numbered(what: string): (value: string) => string {
  const seen = new Map<string, string>();
  return (value) => {
    const shown = seen.get(value) ?? `<${what} ${seen.size + 1}>`;
    seen.set(value, shown);
    return shown;
  };
}

function withoutRepetition(items: readonly Json[]): readonly Json[] {
  const texts = items.map((item) => JSON.stringify(item));
  return items.filter((_item, index) => texts.indexOf(texts[index] ?? '') === index);
}

const isList = (value: Json | undefined): value is readonly Json[] => Array.isArray(value);

const isMap = (value: Json | undefined): value is JsonMap =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const isEmpty = (value: Json) => (isMap(value) || isList(value)) && Object.keys(value).length === 0;

const without = (value: JsonMap, key: string): JsonMap =>
  Object.fromEntries(Object.entries(value).filter(([name]) => name !== key));

type Replacement = readonly [pattern: RegExp, shown: string];

/** Values that differ between runs. */
const OF_A_RUN: readonly Replacement[] = [
  [/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, '<time>'],
  [/^\d+[smh]$/g, '<age>'],
  [/\b10\.\d+\.\d+\.\d+/g, '<cluster ip>'],
  [/(localhost|127\.0\.0\.1|\[::1\]|svc):\d{4,5}/g, '$1:<port>'],
  [/dial tcp \S+ /g, 'dial tcp <address> '],
  [/([?&]resourceVersion=)(?!0\b|1\b|9{6})\d+/g, '$1<version>'],
  [/([?&]continue=)[^&]{20,}/g, '$1<continue>'],
  [/(too old resource version: )\d+ \(\d+\)/g, '$1<version>'],
  [/(current: |ResourceVersion in object meta: )\d+/g, '$1<version>'],
  [/(not decodable revision=)\d+/g, '$1<version>'],
  [/(ResourceVersion in (?:the precondition|record)) \(\d+\)/g, '$1 (<version>)'],
];

/** What the sandbox leaves out on purpose: no case is about it. */
const LEFT_OUT: readonly Replacement[] = [
  [/, application\/(?:apply-patch\+)?cbor/g, ''],
  [/, application\/vnd\.kubernetes\.protobuf/g, ''],
  [/StorageError: .* AdditionalErrorMsg: /g, ''], // the protocol of etcd
];

const STARTS_A_VALUE = /(?:Invalid|Duplicate) value: (?=\[|\{|map\[|[a-z0-9]+\.[A-Z])/g;
const NAME_OF_A_TYPE = /(?:\[\]|map\[\w*\]|\*)*[\w.]*(?=\{)/y;

/**
 * Some errors print a whole object: in Go syntax with pointer addresses, or as JSON in later releases. Both become
 * `Invalid value: <object>: why`. A list of strings within a sentence becomes JSON.
 */
function withoutGoSyntax(message: string): string {
  const readable = message
    .replaceAll('interface {}', 'any')
    .replaceAll('[]string(nil)', '[]')
    .replaceAll(/\[\]string\{([^{}]*)\}/g, '[$1]')
    .replaceAll(/Invalid value: null\b/g, 'Invalid value: []');
  let result = '';
  let position = 0;
  for (const match of readable.matchAll(STARTS_A_VALUE)) {
    const from = match.index + match[0].length;
    if (from < position) continue; // inside a value that is already removed
    result += `${readable.slice(position, from)}<object>`;
    position = endOfValue(readable, from);
  }
  return result + readable.slice(position);
}

/** The index after the value that begins at `from`: after the bracket that closes its first bracket. */
function endOfValue(text: string, from: number): number {
  NAME_OF_A_TYPE.lastIndex = from;
  const start = from + (NAME_OF_A_TYPE.exec(text)?.[0].length ?? 0);
  let depth = 0;
  for (let index = start; index < text.length; index += 1) {
    if ('{['.includes(text.charAt(index))) depth += 1;
    if ('}]'.includes(text.charAt(index))) depth -= 1;
    if (depth === 0) return index + 1;
  }
  return text.length;
}
