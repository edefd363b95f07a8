import { withMeta, type ApiObject } from '../api-object.ts';
import { alreadyExists, conflict, expired, MODIFIED, notFound } from '../failure.ts';
import { createHistory, type History, listPage } from './list-page.ts';
import { keyOf, type Key, type Place, type Storage, type StoredEvent } from './stored.ts';
import { createSortedMap, type SortedMap } from './sorted-map.ts';
import { createDelivery, createWatchers, type Watchers } from './watchers.ts';

/** The whole content of a storage at one time. */
export interface StorageContent {
  readonly revision: number;
  readonly objects: readonly { readonly place: Place; readonly object: ApiObject }[];
}

export interface StorageOptions {
  /** The minimum number of past events to keep per place, which limits how old watches and list pages may be. */
  readonly history?: number;
  /** The counter's value before the first write. */
  readonly firstRevision?: number;
  /** The initial content; its revision replaces `firstRevision`. */
  readonly initial?: StorageContent;
  /** Called with the error of a watcher. The write itself is done, and other watchers still receive its event. */
  readonly onWatcherError?: (error: unknown) => void;
}

const warn = (error: unknown) => {
  process.emitWarning(error instanceof Error ? error : String(error));
};

export function createStorage({
  history = 10_000,
  firstRevision = 1,
  initial = { revision: firstRevision, objects: [] },
  onWatcherError = warn,
}: StorageOptions = {}): Storage {
  const shelfOf = createShelves(history, initial);
  const everywhere = createWatchers<Happening>();
  const delivery = createDelivery();
  let revision = initial.revision;

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

function createShelves(history: number, initial: StorageContent): (place: Place) => PlaceContent {
  const shelves = new Map<string, PlaceContent>();
  const shelfOf = (place: Place): PlaceContent => {
    const id = `${place.group}/${place.resource}`;
    const known = shelves.get(id);
    if (known !== undefined) return known;
    const shelf: PlaceContent = {
      objects: createSortedMap(),
      // A new place has had no events since the start.
      history: createHistory(history, initial.revision),
      watchers: createWatchers(),
    };
    shelves.set(id, shelf);
    return shelf;
  };
  for (const { place, object } of initial.objects) shelfOf(place).objects.set(keyOf(object.metadata), object);
  return shelfOf;
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
