import { withMeta, type ApiObject } from '../../machinery/api-object.ts';
import { DEFINITIONS } from '../../machinery/crd/definition.ts';
import { ApiFailure, expired } from '../../machinery/failure.ts';
import { apiVersionOf, type ResourceType } from '../../machinery/resource-type.ts';
import { type StoredEvent, placeOf } from '../../machinery/storage/stored.ts';
import { converted, type Answer, type Api, type Call, type WatchEvent } from './context.ts';
import { acceptsOf, revisionOf } from './read.ts';

/** When the last bookmark is sent, in milliseconds before the end: the client's next watch continues from it. */
const LAST_BOOKMARK_MS = 2_000;

/** About once a minute, so that the resourceVersion of a watcher of a quiet resource stays known. */
const BOOKMARK_EVERY_MS = 60_000;

export function watch({ api, request: { query }, info, type }: Call): Answer {
  const accepts = acceptsOf(query, type) ?? (() => true);
  const inScope = ({ metadata }: ApiObject) => info.namespace === '' || metadata.namespace === info.namespace;
  const plan = planOf(query);
  const timeoutMs = timeoutOf(query);
  return {
    kind: 'watch',
    type,
    timeoutMs,
    follow: (send, end) => {
      const deliver = inOrder(api, type, send);
      const wants = (object: ApiObject | undefined) =>
        object !== undefined && inScope(object) && accepts(object);
      const bookmark = (endsInitialEvents: boolean) => {
        deliver.now({ type: 'BOOKMARK', revision: api.storage.revision(), endsInitialEvents });
      };
      let stop: () => void = () => undefined;
      try {
        if (plan.initial) {
          for (const object of api.storage.list(placeOf(type)).items)
            if (wants(object)) deliver.object('ADDED', object);
          if (plan.bookmarksInitial) bookmark(true);
        }
        const from = plan.initial ? api.storage.revision() : plan.from;
        refuseForgotten(api, type, from);
        stop = api.storage.watch(placeOf(type), from, (event) => {
          forward(event, wants, deliver);
        });
      } catch (error) {
        if (!(error instanceof ApiFailure)) throw error;
        deliver.now({ type: 'ERROR', status: error.status });
        end();
        return () => undefined;
      }
      const timers = plan.bookmarks
        ? [
            setInterval(bookmark, BOOKMARK_EVERY_MS, false),
            ...(timeoutMs > LAST_BOOKMARK_MS
              ? [setTimeout(bookmark, timeoutMs - LAST_BOOKMARK_MS, false)]
              : []),
          ]
        : [];
      return () => {
        timers.forEach(clearTimeout);
        stop();
      };
    },
  };
}

/** A watch without a timeout ends at a random time between half an hour and an hour, so that watches end apart. */
const SHORTEST_MS = 30 * 60_000;

const LONGEST_MS = 2 ** 31 - 1;

function timeoutOf(query: URLSearchParams): number {
  const seconds = Number(query.get('timeoutSeconds') ?? 0);
  return seconds > 0 ? Math.min(seconds * 1_000, LONGEST_MS) : SHORTEST_MS * (1 + Math.random());
}

/** Custom resources are served from a cache, which forgets its history when their definition changes. @throws ApiFailure 410 */
function refuseForgotten({ storage }: Api, type: ResourceType, from: number): void {
  if (!type.custom) return;
  const definition = storage.get(DEFINITIONS, { namespace: '', name: `${type.resource}.${type.group}` });
  const since = Number(definition?.metadata.resourceVersion ?? 0);
  if (from < since) throw expired(`too old resource version: ${from} (${since})`);
}

/** `initial`: whether existing objects are sent first, as ADDED. */
function planOf(query: URLSearchParams) {
  const from = revisionOf(query.get('resourceVersion'));
  const bookmarks = query.get('allowWatchBookmarks') === 'true' || query.get('allowWatchBookmarks') === '1';
  const initialWanted = query.get('sendInitialEvents');
  const initial = initialWanted === null ? from === 0 : initialWanted === 'true';
  return { initial, bookmarksInitial: initialWanted === 'true' && bookmarks, bookmarks, from };
}

/** An object that starts or stops matching the selector is ADDED or DELETED for this watcher. */
function forward(
  { type, object, previous }: StoredEvent,
  wants: (object: ApiObject | undefined) => boolean,
  deliver: ReturnType<typeof inOrder>,
): void {
  const is = type !== 'DELETED' && wants(object);
  const was = type === 'DELETED' ? wants(previous ?? object) : wants(previous);
  if (is && was) deliver.object('MODIFIED', object);
  else if (is) deliver.object('ADDED', object);
  else if (was) {
    const { resourceVersion } = object.metadata;
    deliver.object(
      'DELETED',
      type === 'DELETED' ? object : withMeta(previous ?? object, { resourceVersion }),
    );
  }
}

/** Conversion may call a webhook; events keep their order. */
function inOrder(api: Api, type: ResourceType, send: (event: WatchEvent) => void) {
  let waiting: Promise<void> | undefined;
  const later = (task: () => Promise<void> | void) => {
    const mine = (waiting ?? Promise.resolve()).then(task).catch((error: unknown) => {
      if (error instanceof ApiFailure) send({ type: 'ERROR', status: error.status });
    });
    waiting = mine;
    void mine.then(() => {
      if (waiting === mine) waiting = undefined;
    });
  };
  const now = (event: WatchEvent) => {
    if (waiting === undefined) send(event);
    else
      later(() => {
        send(event);
      });
  };
  return {
    now,
    object: (kind: 'ADDED' | 'MODIFIED' | 'DELETED', object: ApiObject) => {
      if (object.apiVersion === apiVersionOf(type)) {
        now({ type: kind, object });
        return;
      }
      later(async () => {
        send({ type: kind, object: await converted(api, object, type) });
      });
    },
  };
}
