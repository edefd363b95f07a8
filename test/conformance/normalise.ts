/** Takes out of a transcript what differs from run to run, and what is known to differ between releases. */
import { OF_A_RELEASE, OF_A_RUN } from './differences.ts';
import { withoutGoSyntax } from './go-syntax.ts';
import type { Transcript } from './transcript.ts';

type Json = null | boolean | number | string | readonly Json[] | { readonly [key: string]: Json };
type JsonMap = Readonly<Record<string, Json>>;

export interface NormaliseOptions {
  /** The word that stands for the case in names; it becomes `case`. */
  readonly id: string;
  readonly keepManagedFields: boolean;
}

/** Fields that some releases have and others have not, and that no case is about. */
const VOLATILE_FIELDS = new Set([
  'selfLink', // gone since 1.24
  'storageVersionHash',
  'singularName', // of built-in kinds since 1.27
  'ipFamilies', // since 1.20 with a gate, 1.23 for all
  'ipFamilyPolicy',
  'internalTrafficPolicy', // since 1.21
  'kubernetes.io/metadata.name', // a label of namespaces since 1.21
]);

/** What is left out when nothing is left of it. */
const EMPTIED = new Set(['labels', 'warning', 'headers']);

/** Kinds whose resourceVersion is that of the whole storage, which parallel cases move. */
const STORAGE_VERSIONED = /(List|Table)$/;

export function normalise(transcript: Transcript, options: NormaliseOptions): Json {
  const raw = JSON.parse(JSON.stringify(transcript)) as Json; // whatever JSON.parse returns
  const names = createNames(options.id, generatedNames(raw));
  const versions = numbered('version');

  const walk = (value: Json, key: string): Json => {
    if (typeof value === 'string') return names(key, value);
    if (isList(value)) return value.map((item) => walk(item, key));
    if (!isMap(value)) return value;
    // Sorted, so that numbers are given in the same order whatever order a server writes keys in.
    const entries = Object.entries(withVersion(value, versions))
      .toSorted(([a], [b]) => (a < b ? -1 : 1))
      .filter(([name, item]) => !VOLATILE_FIELDS.has(name) && !isNothing(name, item))
      .filter(([name]) => options.keepManagedFields || name !== 'managedFields')
      .map(([name, item]): [string, Json] => [names('', name), tidy(name, item, walk)]);
    return Object.fromEntries(entries.filter(([name, item]) => !(EMPTIED.has(name) && isEmpty(item))));
  };
  return walk(raw, '');
}

/** Go's zero values, which releases write or leave out as they please. */
const isNothing = (name: string, item: Json): boolean =>
  (name === 'continue' && item === '') || (/^(creationTimestamp|eventTime)$/.test(name) && item === null);

/** What a key of an object asks for beyond its strings. */
function tidy(key: string, value: Json, walk: (value: Json, key: string) => Json): Json {
  if (key === 'columnDefinitions' && isList(value))
    // Descriptions are documentation, which is reworded every year.
    return value.map((column) => (isMap(column) ? without(column, 'description') : column));
  if (key === 'warning' && isList(value)) return walk(value.filter(isNotAboutUnknownFields), key);
  // How often a rule is looked at is the server's business.
  if (key === 'causes' && isList(value)) return walk(withoutRepetition(value), key);
  if (key === 'nodePort') return '<port>';
  return walk(value, key);
}

/** Since 1.25 the server warns of unknown and duplicate fields unless asked not to (`fieldValidation`). */
const isNotAboutUnknownFields = (value: Json) =>
  typeof value !== 'string' || !/299 - "(unknown|duplicate) field/.test(value);

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

/** Names that the server made of a generateName. */
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

/** What a string becomes: the part of it that no two runs share is named, not shown. */
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
    for (const [pattern, shown] of [...OF_A_RUN, ...OF_A_RELEASE]) named = named.replaceAll(pattern, shown);
    return named;
  };
}

/** The same value gets the same number, in the order in which they are met. */
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
