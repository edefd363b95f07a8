/** The kinds that handlers read. Each is watched once, from the start or from its first use, until the process ends. */
import { setTimeout as sleep } from 'node:timers/promises';

import type { ReadKind } from '../../admission/handlers/compile-handler.ts';
import { type KubeObject, groupResourceName, objectKey } from '../../json/kube-object.ts';
import { mayRead, missingAccessMessage } from '../policies/read-access.ts';
import { canI, type AccessQuestion } from '../../kube/access.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Discovery } from '../../kube/discovery.ts';
import type { NamedRef, Resource } from '../../kube/object.ts';
import { placesOf } from '../namespaces.ts';
import { watch, type WatchContext, type Watched } from '../watch.ts';

export type HandlerStores = ReturnType<typeof createHandlerStores>;

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
  /** Whether it is certain that no list is pending, because the kind is not served or may not be read. */
  isUnlisted: boolean;
}

/** @param all the kinds that handlers read. If one handler needs whole objects of a kind, all handlers get them. */
export function createHandlerStores(
  context: WatchContext,
  client: Pick<KubeClient, 'create'>,
  discovery: Pick<Discovery, 'resolve'>,
  all: readonly ReadKind[],
  signal: AbortSignal,
) {
  const kinds = new Map<string, Kind>();
  const whole = new Set(all.filter(({ metadataOnly }) => !metadataOnly).map(keyOf));
  const synced = (kind: ReadKind) => {
    const watched = kinds.get(keyOf(kind))?.watched;
    return watched?.hasSynced() === true ? watched.store : undefined;
  };
  return {
    /** Starts to watch the kind if it is not watched yet. */
    want: (wanted: ReadKind): void => {
      const key = keyOf(wanted);
      if (kinds.has(key)) return;
      const name = groupResourceName(wanted);
      const kind: Kind = { name, startedAt: performance.now(), watched: undefined, isUnlisted: false };
      kinds.set(key, kind);
      const isUnlisted = () => {
        kind.isUnlisted = true;
      };
      void whenServed(wanted, client, discovery, context, isUnlisted, signal).then(
        (resource) => {
          const options = { resource, metadataOnly: !whole.has(key), indexes: NAMESPACES };
          kind.watched = watch<KubeObject>(context, options, signal);
        },
        () => undefined, // the process ends
      );
    },
    /** Undefined when the object is missing, or the kind has not been listed yet. */
    find: (kind: ReadKind, ref: NamedRef): object | undefined => synced(kind)?.get(objectKey(ref)),
    /** Undefined when the kind has not been listed yet. */
    select: (kind: ReadKind, namespace: string | undefined): readonly object[] | undefined => {
      const store = synced(kind);
      return namespace === undefined ? store?.list() : store?.byIndex(BY_NAMESPACE, namespace);
    },
    /** The kinds whose first list is pending. After a timeout a kind is left out: handlers then read it live. */
    unsynced: (): readonly string[] => [...kinds.values()].filter(isBeingListed).map(({ name }) => name),
  };
}

const NAMESPACES = { [BY_NAMESPACE]: ({ metadata }: KubeObject) => [metadata?.namespace ?? ''] };

/** Handlers that read the same kind in the same version share a watch. */
function keyOf(kind: ReadKind): string {
  return `${groupResourceName(kind)} ${kind.version ?? ''}`;
}

function isBeingListed({ watched, startedAt, isUnlisted }: Kind): boolean {
  return (
    watched?.hasSynced() !== true &&
    (watched !== undefined || !isUnlisted) &&
    performance.now() < startedAt + LISTING_MS
  );
}

/** Waits until the API server serves the kind and Gatehouse may read it. */
async function whenServed(
  kind: ReadKind,
  client: Pick<KubeClient, 'create'>,
  discovery: Pick<Discovery, 'resolve'>,
  { namespaces, log }: Pick<WatchContext, 'namespaces' | 'log'>,
  isUnlisted: () => void,
  signal: AbortSignal,
): Promise<Resource> {
  let logged: string | undefined;
  for (;;) {
    const found = await look();
    if (typeof found !== 'string') return found;
    if (found !== logged)
      log.warn({ resource: groupResourceName(kind), problem: found }, 'handlers read a kind live');
    logged = found;
    await sleep(RETRY_MS, undefined, { signal });
  }

  /** The served resource, or the reason why it cannot be watched. */
  async function look(): Promise<Resource | string> {
    try {
      const resource = await discovery.resolve(kind, signal);
      const may = (question: AccessQuestion) => canI(client, question, { signal });
      const isReadable = resource !== undefined && (await mayRead(may, kind, placesOf(resource, namespaces)));
      if (!isReadable) isUnlisted();
      if (resource === undefined) return 'the API server does not serve it';
      if (!isReadable) return missingAccessMessage('handlers', [kind]);
      return { ...resource, version: kind.version ?? resource.version };
    } catch (error) {
      signal.throwIfAborted();
      return String(error);
    }
  }
}
