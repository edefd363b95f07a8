/** Removes values from a transcript that differ between runs. */
import type { Exchange } from './api.ts';

type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
type JsonMap = Readonly<Record<string, Json>>;

export interface NormaliseOptions {
  /** The unique word of the case in names; it becomes `case`. */
  readonly id: string;
  readonly keepManagedFields: boolean;
}

/** Fields that are removed when they become empty. */
const EMPTIED = new Set(['labels', 'warning', 'headers']);

export function normalise(transcript: readonly Exchange[], options: NormaliseOptions): Json {
  const raw = JSON.parse(JSON.stringify(transcript)) as Json; // the result of JSON.parse
  const names = createNames(options.id);
  const versions = numbered('version');

  const walk = (value: Json, key: string): Json => {
    if (typeof value === 'string') return names(key, value);
    if (isList(value)) return value.map((item) => walk(item, key));
    if (!isMap(value)) return value;
    // Sorted, so that numbering does not depend on the server's key order.
    const entries = Object.entries(withVersion(value, versions))
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .filter(([name, item]) => !isNothing(name, item))
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
  // Servers evaluate a rule a different number of times.
  if (key === 'causes' && isList(value)) return walk(withoutRepetition(value), key);
  return walk(value, key);
}

function withVersion(value: JsonMap, versions: (version: string) => string): JsonMap {
  const { metadata, kind } = value;
  if (!isMap(metadata) || typeof metadata.resourceVersion !== 'string') return value;
  const version = metadata.resourceVersion;
  if (!/^\d+$/.test(version)) return value;
  const shown = typeof kind === 'string' && kind.endsWith('List') ? '<storage>' : versions(version);
  return { ...value, metadata: { ...metadata, resourceVersion: shown } };
}

const UUID = /[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}/g;

/** Replaces the parts of a string that differ between runs with placeholders. */
function createNames(id: string) {
  const uids = numbered('uid');
  return (key: string, text: string): string => {
    if (key === 'resourceVersion' && /^\d+$/.test(text)) return '<version>';
    let named = text
      .replaceAll(UUID, (uid) => (/^[0-]+[01]?$/.test(uid) ? uid : uids(uid)))
      .replaceAll(id, 'case');
    for (const [pattern, shown] of OF_A_RUN) named = named.replaceAll(pattern, shown);
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

type Replacement = readonly [pattern: RegExp, shown: string];

/** Values that differ between runs. */
const OF_A_RUN: readonly Replacement[] = [
  [/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, '<time>'],
  [/\b10\.\d+\.\d+\.\d+/g, '<cluster ip>'],
  [/(localhost|127\.0\.0\.1|\[::1\]|svc):\d{4,5}/g, '$1:<port>'],
  [/(current: |ResourceVersion in object meta: )\d+/g, '$1<version>'],
  [/(ResourceVersion in (?:the precondition|record)) \(\d+\)/g, '$1 (<version>)'],
  // Go syntax, and JSON in later releases.
  [/\[\]string\{([^{}]*)\}/g, '[$1]'],
  [/StorageError: .* AdditionalErrorMsg: /g, ''], // the protocol of etcd
];
