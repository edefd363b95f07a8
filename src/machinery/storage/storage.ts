import { withMeta, type ApiObject } from '../api-object.ts';
import { alreadyExists, conflict, expired, MODIFIED, notFound } from '../failure.ts';
import { createHistory, listPage, type History } from './list-page.ts';
import { keyOf, type Key, type Place, type Storage, type StoredEvent } from './stored.ts';
import { createSortedMap, type SortedMap } from './sorted-map.ts';

/** The counter's value before the first write. */
const FIRST_REVISION = 1;

export interface StorageOptions {
  /** The minimum number of past events to keep per place, which limits how old watches and list pages may be. */
  readonly history?: number;
  /** Called with the error of a watcher. The write itself is done, and other watchers still receive its event. Default: the writer gets it. */
  readonly onWatcherError?: (error: unknown) => void;
}

const rethrow = (error: unknown) => {
  throw error;
};

export function createStorage({ history = 10_000, onWatcherError = rethrow }: StorageOptions = {}): Storage {
  const shelfOf = createShelves(history);
  const everywhere = createWatchers<Happening>();
  const delivery = createDelivery();
  let revision = FIRST_REVISION;

  const write = (place: Place, type: StoredEvent['type'], object: ApiObject, previous?: ApiObject) => {
    const shelf = shelfOf(place);
    const key = keyOf(object.metadata);
    revision += 1;
    const written = withMeta(object, { resourceVersion: String(revision) });
    if (type === 'DELETED') shelf.objects.delete(key);
    else shelf.objects.set(key, written);

    const event = { type, object: written, ...(previous === undefined ? {} : { previous }), revision };
    shelf.history.push(event);
    delivery.enqueue(() => {
      everywhere.tell({ place, event }, event.revision);
      shelf.watchers.tell(event, event.revision);
    });
    return written;
  };

  const current = (place: Place, key: Key, expected: string) => {
    const object = shelfOf(place).objects.get(keyOf(key));
    if (object === undefined) throw notFound(place, key.name);
    if (object.metadata.resourceVersion !== expected) throw conflict(place, key.name, MODIFIED);
    return object;
  };

  return {
    revision: () => revision,
    get: (place, key) => shelfOf(place).objects.get(keyOf(key)),
    list: (place, options = {}) => listPage(shelfOf(place), revision, options),
    count: (place) => shelfOf(place).objects.size(),
    create: (place, object) => {
      const { name = '' } = object.metadata;
      if (shelfOf(place).objects.get(keyOf(object.metadata)) !== undefined) throw alreadyExists(place, name);
      return write(place, 'ADDED', object);
    },
    replace: (place, object, expected) => {
      const { namespace = '', name = '' } = object.metadata;
      return write(place, 'MODIFIED', object, current(place, { namespace, name }, expected));
    },
    remove: (place, key, expected) => {
      const last = current(place, key, expected);
      return write(place, 'DELETED', last, last);
    },
    watch: (place, fromRevision, onEvent) => {
      const shelf = shelfOf(place);
      const forgotten = shelf.history.forgotten();
      if (fromRevision < forgotten) {
        throw expired(`too old resource version: ${fromRevision} (${forgotten})`);
      }
      const tell = guard(onEvent, onWatcherError);
      const stop = shelf.watchers.add({ tell, from: Math.max(fromRevision, revision) });
      delivery.now(() => {
        for (const event of shelf.history.after(fromRevision)) tell(event);
      });
      return stop;
    },
    watchAll: (onEvent) => {
      const tell = guard<Happening>(({ place, event }) => {
        onEvent(place, event);
      }, onWatcherError);
      return everywhere.add({ tell, from: revision });
    },
  };
}

interface Happening {
  readonly place: Place;
  readonly event: StoredEvent;
}

/** The objects of one place with their recent events and watchers. */
interface PlaceContent {
  readonly objects: SortedMap<ApiObject>;
  readonly history: History;
  readonly watchers: Watchers<StoredEvent>;
}

function createShelves(history: number): (place: Place) => PlaceContent {
  const shelves = new Map<string, PlaceContent>();
  return (place) => {
    const id = `${place.group}/${place.resource}`;
    const known = shelves.get(id);
    if (known !== undefined) return known;
    const shelf: PlaceContent = {
      objects: createSortedMap(),
      // A new place has had no events since the start.
      history: createHistory(history, FIRST_REVISION),
      watchers: createWatchers(),
    };
    shelves.set(id, shelf);
    return shelf;
  };
}

const guard =
  <Event>(onEvent: (event: Event) => void, onError: (error: unknown) => void) =>
  (event: Event) => {
    try {
      onEvent(event);
    } catch (error) {
      onError(error);
    }
  };

interface Watcher<Event> {
  readonly tell: (event: Event) => void;
  /** The watcher receives only events after this revision. */
  readonly from: number;
}

/** Watchers that receive each event one after the other. */
interface Watchers<Event> {
  /** Returns a function that removes the watcher. */
  readonly add: (watcher: Watcher<Event>) => () => void;
  readonly tell: (event: Event, revision: number) => void;
}

function createWatchers<Event>(): Watchers<Event> {
  const watchers = new Set<Watcher<Event>>();
  return {
    add: (watcher) => {
      watchers.add(watcher);
      return () => void watchers.delete(watcher);
    },
    tell: (event, revision) => {
      for (const { tell, from } of watchers) {
        if (revision > from) tell(event);
      }
    },
  };
}

/**
 * Delivers events in order to all watchers. If a watcher writes and so causes another event, that event waits until
 * every watcher has received the current one.
 */
interface Delivery {
  /** Runs the task after all pending deliveries: immediately, unless called during one. */
  readonly enqueue: (task: () => void) => void;
  /** Runs the task immediately, then the tasks that it enqueues. */
  readonly now: (task: () => void) => void;
}

/** Tasks must not throw. */
function createDelivery(): Delivery {
  const waiting: (() => void)[] = [];
  let busy = false;

  const now = (task: () => void) => {
    if (busy) {
      task();
      return;
    }
    busy = true;
    try {
      task();
      for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) next();
    } finally {
      busy = false;
    }
  };
  return {
    now,
    enqueue: (task) => {
      if (busy) waiting.push(task);
      else now(task);
    },
  };
}
