import type { ApiObject } from '../api-object.ts';
import { expired, badRequest, type ApiFailure } from '../failure.ts';
import { keyOf, keyRangeOf, type ListOptions, type Page, type StoredEvent } from './stored.ts';
import { isJsonObject, parseJson, type JsonObject } from '../../json/json.ts';

export interface Shelf {
  readonly objects: ReturnType<typeof createSortedMap<ApiObject>>;
  readonly history: ReturnType<typeof createHistory>;
}

/** A page of a list. @throws ApiFailure 410 or 400, see {@link ListOptions} */
export function listPage(shelf: Shelf, now: number, options: ListOptions): Page {
  const { namespace, limit = 0, continueToken = '', accepts } = options;
  const { from, to } = namespace === undefined ? { from: '', to: undefined } : keyRangeOf(namespace);
  const most = limit > 0 ? limit : Infinity;
  const next = continueToken === '' ? undefined : readContinueToken(continueToken);
  const revision = revisionOf(next, options.revision, now);
  // A future revision comes from another instance of the storage and is as unknown as a compacted one.
  if (revision < shelf.history.forgotten() || revision > now) {
    throw next === undefined
      ? expired('The resourceVersion for the provided list is too old.')
      : continueExpired(next.start);
  }

  const { keys, objectAt } = stateAt(shelf, revision, `${from}${next?.start ?? ''}`, to);
  const items: ApiObject[] = [];
  let read = 0;
  for (const key of keys) {
    read += 1;
    const object = objectAt(key);
    if (object !== undefined && (accepts === undefined || accepts(object))) items.push(object);
    if (items.length === most) break;
  }
  const last = keys[read - 1];
  const remaining = keys.length - read;
  if (last === undefined || remaining === 0) return { items, revision };
  return {
    items,
    revision,
    // Appending NUL gives the smallest key after the last one.
    continueToken: writeContinueToken({ revision, start: `${last.slice(from.length)}\0` }),
    ...(accepts === undefined ? { remaining } : {}),
  };
}

function revisionOf(next: Continuation | undefined, wanted: number | undefined, now: number): number {
  if (next === undefined) return wanted ?? now;
  return next.revision === LATEST ? now : next.revision;
}

/** The objects in a key range as of a revision, sorted: the current objects with all later events undone. */
function stateAt({ objects, history }: Shelf, revision: number, from: string, to: string | undefined) {
  const before = new Map<string, ApiObject | undefined>();
  for (const { object, previous } of history.after(revision)) {
    const key = keyOf(object.metadata);
    if (!before.has(key) && key >= from && (to === undefined || key < to)) before.set(key, previous);
  }
  const objectAt = (key: string) => (before.has(key) ? before.get(key) : objects.get(key));
  const present = objects.keys(from, to);
  if (before.size === 0) return { keys: present, objectAt };
  const gone = [...before.keys()].filter((key) => objects.get(key) === undefined);
  const keys = gone.length === 0 ? present : [...present, ...gone].sort();
  return { keys: keys.filter((key) => objectAt(key) !== undefined), objectAt };
}

/** A map with sorted keys for up to about 100,000 entries: an insertion shifts all keys behind it. */
export function createSortedMap<Value>() {
  const values = new Map<string, Value>();
  const sorted: string[] = [];
  return {
    size: () => sorted.length,
    get: (key: string) => values.get(key),
    set: (key: string, value: Value) => {
      if (!values.has(key)) sorted.splice(firstAtOrAfter(sorted, key), 0, key);
      values.set(key, value);
    },
    delete: (key: string) => {
      if (values.delete(key)) sorted.splice(firstAtOrAfter(sorted, key), 1);
    },
    /** From `from` until before `to`, in the order of their UTF-16 code units (for ASCII: bytes). */
    keys: (from: string, to?: string): readonly string[] =>
      sorted.slice(firstAtOrAfter(sorted, from), to === undefined ? undefined : firstAtOrAfter(sorted, to)),
  };
}

function firstAtOrAfter(sorted: readonly string[], key: string): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle] ?? '') < key) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Keeps at least `limit` events and at most a quarter more, so that dropping is cheap per event. */
export function createHistory(limit: number, firstRevision: number) {
  const events: StoredEvent[] = [];
  let forgotten = firstRevision;
  return {
    push: (event: StoredEvent) => {
      events.push(event);
      if (events.length <= limit * 1.25) return;
      const dropped = events.splice(0, events.length - limit);
      forgotten = dropped.at(-1)?.revision ?? forgotten;
    },
    /** The revision of the last dropped event; events after any revision that is not below it are known. */
    forgotten: () => forgotten,
    after: (revision: number): readonly StoredEvent[] => {
      // Search from the end, because clients mostly ask for recent events.
      const last = events.findLastIndex((event) => event.revision <= revision);
      return events.slice(last + 1);
    },
  };
}

interface Continuation {
  /** The revision whose state the list shows; {@link LATEST} after the client accepted an inconsistent list. */
  readonly revision: number;
  /** The first possible key of the page relative to the scope: `namespace/name`, or `name` within a namespace. */
  readonly start: string;
}

// Tokens look like in a real cluster (k8s.io/apiserver/pkg/storage/continue.go). Clients treat them as opaque.
const VERSION = 'meta.k8s.io/v1';
const LATEST = -1;

function writeContinueToken({ revision, start }: Continuation): string {
  return Buffer.from(JSON.stringify({ v: VERSION, rv: revision, start })).toString('base64url');
}

function readContinueToken(text: string): Continuation {
  const { v: version, rv: revision, start } = parseToken(text);
  const isRevision = typeof revision === 'number' && Number.isSafeInteger(revision) && revision >= LATEST;
  if (version !== VERSION || !isRevision || revision === 0 || typeof start !== 'string' || start === '')
    throw badRequest('invalid continue token: continue key is not valid');
  return { revision, start };
}

function parseToken(text: string): JsonObject {
  try {
    const token = parseJson(Buffer.from(text, 'base64url').toString());
    return isJsonObject(token) ? token : {};
  } catch {
    return {};
  }
}

/** 410 for a page whose revision has been compacted (storage/etcd3/errors.go of apiserver). */
function continueExpired(start: string): ApiFailure {
  const failure = expired(
    'The provided continue parameter is too old to display a consistent list result. You can start a new list without ' +
      'the continue parameter, or use the continue token in this response to retrieve the remainder of the results. ' +
      'Continuing with the provided token results in an inconsistent list - objects that were created, modified, or ' +
      'deleted between the time the first chunk was returned and now may show up in the list.',
  );
  const metadata = { continue: writeContinueToken({ revision: LATEST, start }) };
  return Object.assign(failure, { status: { ...failure.status, metadata } });
}
