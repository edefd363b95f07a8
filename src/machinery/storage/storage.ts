import { withMeta, type ApiObject } from '../api-object.ts';
import { alreadyExists, conflict, expired, MODIFIED, notFound } from '../failure.ts';
import { createHistory, createSortedMap, listPage, type Shelf } from './list-page.ts';
import { keyOf, type Key, type Place, type Storage, type StoredEvent } from './stored.ts';

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
  const watchers = new Set<Watcher>();
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
      for (const watcher of watchers) if (event.revision > watcher.from) watcher.tell(place, event);
    });
    return written;
  };

  const addWatcher = (from: number, onEvent: Watcher['tell']) => {
    const tell: Watcher['tell'] = (place, event) => {
      try {
        onEvent(place, event);
      } catch (error) {
        onWatcherError(error);
      }
    };
    const watcher = { from, tell };
    watchers.add(watcher);
    return { tell, stop: () => void watchers.delete(watcher) };
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
      const { history: past } = shelfOf(place);
      if (fromRevision < past.forgotten()) {
        throw expired(`too old resource version: ${fromRevision} (${past.forgotten()})`);
      }
      const { tell, stop } = addWatcher(Math.max(fromRevision, revision), (written, event) => {
        if (idOf(written) === idOf(place)) onEvent(event);
      });
      delivery.now(() => {
        for (const event of past.after(fromRevision)) tell(place, event);
      });
      return stop;
    },
    watchAll: (onEvent) => addWatcher(revision, onEvent).stop,
  };
}

interface Watcher {
  /** The watcher receives only events after this revision. */
  readonly from: number;
  readonly tell: (place: Place, event: StoredEvent) => void;
}

const idOf = ({ group, resource }: Place) => `${group}/${resource}`;

function createShelves(history: number): (place: Place) => Shelf {
  const shelves = new Map<string, Shelf>();
  return (place) => {
    // A new place has had no events since the start.
    const shelf = shelves.get(idOf(place)) ?? {
      objects: createSortedMap<ApiObject>(),
      history: createHistory(history, FIRST_REVISION),
    };
    shelves.set(idOf(place), shelf);
    return shelf;
  };
}

/** An event that a watcher causes waits until every watcher has received the current one. Tasks must not throw. */
function createDelivery() {
  const waiting: (() => void)[] = [];
  let busy = false;

  /** Runs the task immediately, then the tasks that it enqueues. */
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
    /** Runs the task after all pending deliveries: immediately, unless called during one. */
    enqueue: (task: () => void) => {
      if (busy) waiting.push(task);
      else now(task);
    },
  };
}
