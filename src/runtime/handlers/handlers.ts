/** The handlers of this process, and the cluster as they see it. */
import { resolve } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import type { Converter } from '../../admission/conversion/converter.ts';
import type { Decision } from '../../admission/review/decision.ts';
import { callHandler } from '../../admission/handlers/call-handler.ts';
import type { HandlerOutcome, HandlerPhase } from '../../admission/handlers/handler-decision.ts';
import { compileController } from '../../controllers/compile-controller.ts';
import { isGoverned, type CompiledHandler, type ReadKind } from '../../admission/handlers/compile-handler.ts';
import type { HandlerLog } from '../../admission/handlers/handler.ts';
import type { AdmissionRequest } from '../../admission/review/request.ts';
import type { HandlerOutcomeLabel } from '../../server/metrics/metrics.ts';
import { untilPassed } from '../../server/operations-server.ts';
import { compileHandlers, loadModules, NOTHING, type Loaded } from './load-handlers.ts';
import type { Context } from '../context.ts';
import { inHandler, surviveStrayErrors } from './stray-errors.ts';
import { Unreadable } from '../../admission/handlers/errors.ts';
import type { HandlerWorld } from '../../admission/handlers/handler-world.ts';
import { type KubeObject, groupResourceName, objectKey } from '../../json/kube-object.ts';
import { orAborted } from '../../json/abort.ts';
import { memoizeAsync } from '../../json/memoize-async.ts';
import { ApiError } from '../../kube/api-error.ts';
import { dropManagedFields } from '../../kube/watch.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Discovery } from '../../kube/discovery.ts';
import type { Resource, NamedRef } from '../../kube/object.ts';
import { listIn, type Namespaces, placesOf } from '../namespaces.ts';
import { mayRead, missingAccessMessage } from '../policies/read-access.ts';
import { canI, type AccessQuestion } from '../../kube/access.ts';
import { watch, type WatchContext, type Watched } from '../watch.ts';

export type Handlers = ReturnType<typeof startHandlers>;

/** @throws InvalidHandlers with all problems of the handlers */
export async function openHandlers(
  source: string | undefined,
  { metrics, log }: Pick<Context, 'metrics' | 'log'>,
  signal: AbortSignal,
): Promise<Loaded> {
  if (source === undefined) return NOTHING;
  const onStray = (handler = 'unknown', err: Error) => {
    metrics.handlerFailure(handler, 'stray');
    log.error(
      { handler, err },
      'a handler raised an error outside of a call: await all promises in the handler',
    );
  };
  surviveStrayErrors(resolve(source), onStray, signal);
  return await inHandler('loading', () => loadModules(source, process.cwd()));
}

type HandlersContext = Pick<
  Context,
  'client' | 'exact' | 'rollbacks' | 'namespaces' | 'discovery' | 'config' | 'metrics' | 'log'
>;

export function startHandlers(
  context: HandlersContext,
  { handlers: loaded, controllers }: Loaded,
  signal: AbortSignal,
) {
  const { client, exact, rollbacks, namespaces, discovery, config, log } = context;
  const all = compileHandlers(loaded, { ownNamespace: config.namespace });
  const stores = createHandlerStores(
    // Handlers compare stored integers with those of requests, so both must be read without loss.
    { ...exact, rollbacks, namespaces, log },
    client,
    discovery,
    all.flatMap(({ reads }) => reads),
    signal,
  );
  for (const { namesReads, reads } of all) if (namesReads) reads.forEach(stores.want);
  const world = createHandlerWorld(exact.client, discovery, stores, namespaces);
  const byName = new Map(all.map((handler) => [handler.name, handler]));
  const names = controllers.map(({ name }) => name);
  if (loaded.length + controllers.length > 0)
    log.info({ handlers: [...byName.keys()], controllers: names }, 'handlers loaded');
  return {
    all,
    controllers: controllers.map(({ name, controller }) => compileController(name, controller)),
    converters: all.flatMap(({ name, converter }) =>
      converter === undefined ? [] : [guarded(name, converter)],
    ),
    /** Undefined when there is no such handler, or the handler does not govern the request. */
    decide: async (
      phase: HandlerPhase,
      name: string,
      request: AdmissionRequest,
      waiting: AbortSignal,
    ): Promise<Decision | undefined> => {
      const handler = byName.get(name);
      if (handler?.[phase] === undefined || !isGoverned(handler, request)) return undefined;
      const started = performance.now();
      const handlerLog = logFor(context, handler, request);
      const call = { handler, phase, request, world, signal: waiting, log: handlerLog };
      const outcome = await inHandler(name, () => callHandler(call));
      return settle(context, call, outcome, (performance.now() - started) / 1_000);
    },
    check: untilPassed(() => {
      const unsynced = stores.unsynced();
      return unsynced.length === 0 ? undefined : `not listed yet: ${unsynced.join(', ')}`;
    }),
  };
}

const guarded = (name: string, converter: Converter): Converter => ({
  ...converter,
  convert: (object, to, signal) => inHandler(name, () => converter.convert(object, to, signal)),
});

function settle(
  { metrics, log }: Pick<Context, 'metrics' | 'log'>,
  { handler, phase, request }: { handler: CompiledHandler; phase: HandlerPhase; request: AdmissionRequest },
  { decision, failure }: HandlerOutcome,
  seconds: number,
): Decision {
  const { name } = handler;
  metrics.handler({ handler: name, webhook: phase, outcome: labelOf({ decision, failure }) }, seconds);
  if (failure !== undefined) {
    metrics.handlerFailure(name, failure.reason);
    const fields = { handler: name, uid: request.uid, reason: failure.reason, onError: handler.onError };
    log.error({ ...fields, err: failure }, 'handler failed');
  }
  return decision;
}

function labelOf({ decision, failure }: Pick<HandlerOutcome, 'decision' | 'failure'>): HandlerOutcomeLabel {
  if (failure?.reason === 'timeout') return 'timeout';
  return failure !== undefined && decision.kind !== 'retry' ? 'error' : decision.kind;
}

/** Keeps the fields of a handler under `fields`, so that a handler cannot imitate log lines of Gatehouse. */
function logFor(
  { log }: Pick<Context, 'log'>,
  { name }: CompiledHandler,
  { uid }: AdmissionRequest,
): HandlerLog {
  const write =
    (level: 'debug' | 'info' | 'warn' | 'error') =>
    (message: string, fields: object = {}) =>
      log[level]({ handler: name, uid, fields }, message);
  return { debug: write('debug'), info: write('info'), warn: write('warn'), error: write('error') };
}

export function createHandlerWorld(
  client: Pick<KubeClient, 'get' | 'getMetadata' | 'list' | 'listAll'>,
  discovery: Pick<Discovery, 'resolve' | 'forget'>,
  stores: Pick<HandlerStores, 'want' | 'find' | 'select'>,
  namespaces?: Namespaces,
): HandlerWorld {
  // Discovery remembers for some seconds that a kind is not served. Its CRD may have been created since.
  // Concurrent reads share one request: a handler may read thousands of names.
  const lookAgain = memoizeAsync(
    (kind: ReadKind) => {
      discovery.forget(kind);
      return discovery.resolve(kind);
    },
    groupResourceName,
    { now: () => 0, ttlMs: Infinity, ttlOf: () => 0 },
  );
  const resourceOf = async (kind: ReadKind, signal: AbortSignal): Promise<Resource> => {
    const known = await discovery.resolve(kind, signal);
    const found = known ?? (await orAborted(lookAgain.read(kind), signal));
    if (found === undefined) throw new Unreadable(`the API server does not serve ${groupResourceName(kind)}`);
    return { ...found, version: kind.version ?? found.version };
  };
  const get = async (
    kind: ReadKind,
    resource: Resource,
    place: Parameters<KubeClient['get']>[1],
    signal: AbortSignal,
  ) =>
    kind.metadataOnly
      ? await client.getMetadata(resource, place, { signal })
      : await client.get<KubeObject>(resource, place, { signal });

  return {
    isNamespaced: async (kind, signal) => (await resourceOf(kind, signal)).namespaced,
    find: (kind, place) => {
      stores.want(kind);
      return stores.find(kind, place);
    },
    select: (kind, namespace) => {
      stores.want(kind);
      return stores.select(kind, namespace);
    },
    read: unlessRefused(async (kind, place, signal) => {
      const resource = await resourceOf(kind, signal);
      const found = await get(kind, resource, place, signal);
      if (found !== undefined) return dropManagedFields(found);
      // 404 may also mean that the API server has stopped serving this version: the discovery cache may be stale.
      if (kind.version !== undefined) {
        const { namespace } = place;
        await client.list(resource, { namespace, metadataOnly: true, limit: 1, signal });
        return undefined;
      }
      discovery.forget(kind);
      const current = await resourceOf(kind, signal);
      const isMoved = current.version !== resource.version;
      const again = isMoved ? await get(kind, current, place, signal) : undefined;
      return again === undefined ? undefined : dropManagedFields(again);
    }),
    query: unlessRefused(async (kind, { namespace, labelSelector }, signal) => {
      const { metadataOnly } = kind;
      const places = namespace === undefined ? namespaces : [namespace];
      const options = { labelSelector, metadataOnly, signal };
      const items = await listIn(client, await resourceOf(kind, signal), places, options);
      return items.map(dropManagedFields);
    }),
  };
}

/** Codes for a missing permission or an unserved version: a retry within the time of a request does not help. */
const LASTING: readonly number[] = [401, 403, 404, 405];

function unlessRefused<Args extends readonly unknown[], Result>(
  read: (...args: Args) => Promise<Result>,
): (...args: Args) => Promise<Result> {
  return async (...args) => {
    try {
      return await read(...args);
    } catch (cause) {
      if (!(cause instanceof ApiError && LASTING.includes(cause.code))) throw cause;
      throw new Unreadable(cause.message, { cause });
    }
  };
}

type HandlerStores = ReturnType<typeof createHandlerStores>;

/** The CRD of a kind may be created after the handler is loaded, and no watch reports it. */
const RETRY_MS = 5_000;
const LISTING_MS = 10_000;
const BY_NAMESPACE = 'namespace';

interface Kind {
  readonly name: string;
  readonly startedAt: number;
  watched: Watched<KubeObject> | undefined;
  /** Whether no list is pending for certain, because the kind is not served or not readable. */
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
  const whole = new Set(all.filter(({ metadataOnly }) => !metadataOnly).map(kindKey));
  const synced = (kind: ReadKind) => {
    const watched = kinds.get(kindKey(kind))?.watched;
    return watched?.hasSynced() === true ? watched.store : undefined;
  };
  return {
    want: (wanted: ReadKind): void => {
      const key = kindKey(wanted);
      if (kinds.has(key)) return;
      const name = groupResourceName(wanted);
      const kind: Kind = { name, startedAt: performance.now(), watched: undefined, isUnlisted: false };
      kinds.set(key, kind);
      void whenServed(wanted, kind, client, discovery, context, signal).then(
        (resource) => {
          const options = { resource, metadataOnly: !whole.has(key), indexes: NAMESPACES };
          kind.watched = watch<KubeObject>(context, options, signal);
        },
        () => undefined, // the process ends
      );
    },
    find: (kind: ReadKind, ref: NamedRef): object | undefined => synced(kind)?.get(objectKey(ref)),
    select: (kind: ReadKind, namespace: string | undefined): readonly object[] | undefined => {
      const store = synced(kind);
      return namespace === undefined ? store?.list() : store?.byIndex(BY_NAMESPACE, namespace);
    },
    /** The kinds whose first list is pending. After a timeout a kind is left out: handlers then read it live. */
    unsynced: (): readonly string[] => [...kinds.values()].filter(isBeingListed).map(({ name }) => name),
  };
}

const NAMESPACES = { [BY_NAMESPACE]: ({ metadata }: KubeObject) => [metadata?.namespace ?? ''] };

function kindKey(kind: ReadKind): string {
  return `${groupResourceName(kind)} ${kind.version ?? ''}`;
}

function isBeingListed({ watched, startedAt, isUnlisted }: Kind): boolean {
  if (performance.now() >= startedAt + LISTING_MS) return false;
  return watched === undefined ? !isUnlisted : !watched.hasSynced();
}

async function whenServed(
  kind: ReadKind,
  state: Kind,
  client: Pick<KubeClient, 'create'>,
  discovery: Pick<Discovery, 'resolve'>,
  { namespaces, log }: Pick<WatchContext, 'namespaces' | 'log'>,
  signal: AbortSignal,
): Promise<Resource> {
  let logged: string | undefined;
  for (;;) {
    const found = await look();
    if (typeof found !== 'string') return found;
    if (found !== logged) log.warn({ resource: state.name, problem: found }, 'handlers read a kind live');
    logged = found;
    await sleep(RETRY_MS, undefined, { signal });
  }

  async function look(): Promise<Resource | string> {
    try {
      const resource = await discovery.resolve(kind, signal);
      const may = (question: AccessQuestion) => canI(client, question, { signal });
      const isReadable = resource !== undefined && (await mayRead(may, kind, placesOf(resource, namespaces)));
      if (!isReadable) state.isUnlisted = true;
      if (resource === undefined) return 'the API server does not serve it';
      if (!isReadable) return missingAccessMessage('handlers', [kind]);
      return { ...resource, version: kind.version ?? resource.version };
    } catch (error) {
      signal.throwIfAborted();
      return String(error);
    }
  }
}
