import type { ApiObject } from '../api-object.ts';
import { expired } from '../failure.ts';
import {
  continueExpired,
  readContinueToken,
  writeContinueToken,
  type Continuation,
} from './continue-token.ts';
import { keyOf, keyRangeOf, type ListOptions, type Page, type StoredEvent } from './stored.ts';
import type { SortedMap } from './sorted-map.ts';

interface Listed {
  readonly objects: SortedMap<ApiObject>;
  readonly history: History;
}

/**
 * A page of a list. All pages show the state at the revision of the first page, regardless of later writes.
 * @param now the storage's revision
 * @throws ApiFailure 410 or 400, see {@link ListOptions}
 */
export function listPage(listed: Listed, now: number, options: ListOptions): Page {
  const { namespace, limit = 0, continueToken = '', accepts } = options;
  const { from, to } = namespace === undefined ? { from: '', to: undefined } : keyRangeOf(namespace);
  const most = limit > 0 ? limit : Infinity;
  const next = continueToken === '' ? undefined : readContinueToken(continueToken);
  const revision = revisionOf(next, options.revision, now);
  // A future revision comes from another instance of the storage and is as unknown as a compacted one.
  if (revision < listed.history.forgotten() || revision > now) {
    throw next === undefined
      ? expired('The resourceVersion for the provided list is too old.')
      : continueExpired(next.start);
  }

  const { keys, objectAt } = stateAt(listed, revision, `${from}${next?.start ?? ''}`, to);
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
  return next.revision === 'latest' ? now : next.revision;
}

interface State {
  /** Sorted. */
  readonly keys: readonly string[];
  readonly objectAt: (key: string) => ApiObject | undefined;
}

/** The objects in a key range as of a revision: the current objects with all later events undone. */
function stateAt(
  { objects, history }: Listed,
  revision: number,
  from: string,
  to: string | undefined,
): State {
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

/** The latest events of one place, oldest first. */
export interface History {
  readonly push: (event: StoredEvent) => void;
  /** The revision of the last dropped event; events after any revision that is not below it are known. */
  readonly forgotten: () => number;
  /** The events after `revision`, which must not be before `forgotten()`. */
  readonly after: (revision: number) => readonly StoredEvent[];
}

/** Keeps at least `limit` events and at most a quarter more, so that dropping is cheap per event. */
export function createHistory(limit: number, firstRevision: number): History {
  const events: StoredEvent[] = [];
  let forgotten = firstRevision;
  return {
    push: (event) => {
      events.push(event);
      if (events.length <= limit * 1.25) return;
      const dropped = events.splice(0, events.length - limit);
      forgotten = dropped.at(-1)?.revision ?? forgotten;
    },
    forgotten: () => forgotten,
    after: (revision) => {
      // Search from the end, because clients mostly ask for recent events.
      const last = events.findLastIndex((event) => event.revision <= revision);
      return events.slice(last + 1);
    },
  };
}
