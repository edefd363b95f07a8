/** The kinds that handlers read. Each is watched once, from the start or from its first use, until the process ends. */
import { setTimeout as sleep } from 'node:timers/promises';

import type { ReadKind } from '../../admission/handlers/compile-handler.ts';
import type { Place } from '../../admission/handlers/handler-world.ts';
import { type KubeObject, groupResourceName, objectKey, type GroupResource } from '../../json/kube-object.ts';
import { missingAccessMessage } from '../policies/read-access.ts';
import type { Resource } from '../../kube/object.ts';
import { watch, type WatchContext, type Watched } from '../watch.ts';

export interface HandlerStores {
  /** Starts to watch the kind if it is not watched yet. */
  readonly want: (kind: ReadKind) => void;
  /** Undefined when the object is missing, or the kind has not been listed yet. */
  readonly find: (kind: ReadKind, place: Place) => object | undefined;
  /** Undefined when the kind has not been listed yet. */
  readonly select: (kind: ReadKind, namespace: string | undefined) => readonly object[] | undefined;
  /** The kinds whose first list is pending. After a timeout a kind is left out: handlers then read it live. */
  readonly unsynced: () => readonly string[];
}

export interface HandlerStoresParts extends WatchContext {
  readonly resolve: (kind: GroupResource, signal: AbortSignal) => Promise<Resource | undefined>;
  readonly canRead: (kind: GroupResource, signal: AbortSignal) => Promise<boolean>;
}

/** The CRD of a kind may be created after the handler is loaded, and no watch reports it. */
const RETRY_MS = 5_000;
/** Timeout of a first list, in milliseconds. A list of 100,000 objects takes some seconds. */
const LISTING_MS = 10_000;
const BY_NAMESPACE = 'namespace';

interface Kind {
  readonly name: string;
  readonly startedAt: number;
  /** Undefined until the API server serves the kind. */
  watched: Watched<KubeObject> | undefined;
}

/** @param all the kinds that handlers read. If one handler needs whole objects of a kind, all handlers get them. */
export function createHandlerStores(
  parts: HandlerStoresParts,
  all: readonly ReadKind[],
  signal: AbortSignal,
): HandlerStores {
  const kinds = new Map<string, Kind>();
  const whole = new Set(all.filter(({ metadataOnly }) => !metadataOnly).map(keyOf));
  const synced = (kind: ReadKind) => {
    const watched = kinds.get(keyOf(kind))?.watched;
    return watched?.hasSynced() === true ? watched.store : undefined;
  };
  return {
    want: (wanted) => {
      const key = keyOf(wanted);
      if (kinds.has(key)) return;
      const kind: Kind = {
        name: groupResourceName(wanted),
        startedAt: performance.now(),
        watched: undefined,
      };
      kinds.set(key, kind);
      void start(parts, wanted, signal).then(
        (resource) => {
          const options = {
            resource,
            metadataOnly: !whole.has(key),
            indexes: NAMESPACES,
            onChange: ignore,
          };
          kind.watched = watch<KubeObject>(parts, options, signal);
        },
        () => undefined, // the process ends
      );
    },
    find: (kind, place) => synced(kind)?.get(objectKey(place)),
    select: (kind, namespace) => {
      const store = synced(kind);
      return namespace === undefined ? store?.list() : store?.byIndex(BY_NAMESPACE, namespace);
    },
    unsynced: () => [...kinds.values()].filter(isBeingListed).map(({ name }) => name),
  };
}

const NAMESPACES = { [BY_NAMESPACE]: ({ metadata }: KubeObject) => [metadata?.namespace ?? ''] };
const ignore = () => undefined;

/** Handlers that read the same kind in the same version share a watch. */
function keyOf(kind: ReadKind): string {
  return `${groupResourceName(kind)} ${kind.version ?? ''}`;
}

function isBeingListed({ watched, startedAt }: Kind): boolean {
  return watched?.hasSynced() !== true && performance.now() < startedAt + LISTING_MS;
}

/** Waits until the API server serves the kind and Gatehouse may read it. */
async function start(
  { resolve, canRead, log }: HandlerStoresParts,
  kind: ReadKind,
  signal: AbortSignal,
): Promise<Resource> {
  let said: string | undefined;
  for (;;) {
    const found = await look();
    if (typeof found !== 'string') return found;
    if (found !== said)
      log.warn({ resource: groupResourceName(kind), problem: found }, 'handlers read a kind live');
    said = found;
    await sleep(RETRY_MS, undefined, { signal });
  }

  /** The served resource, or the reason why it cannot be watched. */
  async function look(): Promise<Resource | string> {
    try {
      const resource = await resolve(kind, signal);
      if (resource === undefined) return 'the API server does not serve it';
      if (!(await canRead(kind, signal))) return missingAccessMessage('handlers', [kind]);
      return { ...resource, version: kind.version ?? resource.version };
    } catch (error) {
      signal.throwIfAborted();
      return String(error);
    }
  }
}
