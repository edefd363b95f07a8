import type { Dispatcher } from 'undici';

import { ApiError, NetworkError, type RequestLine } from './api-error.ts';
import { type Clock, linkedController, sleep, systemClock } from './clock.ts';
import { type Impersonation, impersonationHeaders } from './rest/credentials.ts';
import {
  awayError,
  noteFailure,
  parseJson,
  readAll,
  type RestOptions,
  type RestRequest,
  send,
  splitLines,
  toFailure,
  type Transport,
} from './rest/transport.ts';
import { AWAY_MS, planRetry } from './rest/recovery.ts';

export type { Query, RequestSpan, RestObservation, RestOptions, RestRequest } from './rest/transport.ts';

export type StreamRequest = Pick<RestRequest, 'path' | 'query' | 'headers' | 'timeoutMs' | 'signal'>;

export interface Rest {
  /** Retries where that is safe. @throws {ApiError} or {NetworkError}, or the reason of `signal` on abort */
  readonly request: <T>(request: RestRequest) => Promise<T>;
  /** Ends when the server ends the response; never retries. @throws like `request` */
  readonly stream: (request: StreamRequest) => AsyncIterable<unknown>;
  /** Needs the RBAC verb `impersonate`. */
  readonly impersonate: (who: Impersonation) => Rest;
}

/** An admission request lasts at most 30 s, and the API server gives up on our requests after 60 s. */
export const DEFAULT_TIMEOUT_MS = 30_000;

/** The API server cut a watch short if it ends this long before the requested end. */
const EARLY_MS = 2_000;

/** The content type of server-side apply: JSON is valid YAML. Apply is idempotent. */
export const APPLY_PATCH = 'application/apply-patch+yaml';

const DEFAULTS = {
  observe: () => undefined,
  trace: undefined,
  onDate: () => undefined,
  parse: (text: string): unknown => JSON.parse(text),
  urgent: false,
  background: false,
  prompt: false,
  timeoutMs: DEFAULT_TIMEOUT_MS,
  clock: systemClock,
  random: () => Math.random(),
};

export function createRest(options: RestOptions): Rest {
  return restOf({ ...DEFAULTS, ...options, identity: undefined });
}

function restOf(transport: Transport): Rest {
  return {
    // The only place where JSON from the API server gets the type that the caller named.
    request: async <T>(request: RestRequest) => (await sendWithRetries(transport, request)) as T,
    stream: (request) => stream(transport, request),
    impersonate: (who) => restOf({ ...transport, identity: impersonationHeaders(who) }),
  };
}

function dispatcherOf({ connection, urgent, background }: Transport): Dispatcher {
  if (urgent) return connection.urgentDispatcher;
  return background ? connection.backgroundDispatcher : connection.dispatcher;
}

async function sendWithRetries(transport: Transport, request: RestRequest): Promise<unknown> {
  const { connection, prompt, clock, random } = transport;
  const { recovery } = connection;
  const { method } = request;
  const reads = method === 'GET';
  const idempotent = reads || method === 'PUT' || method === 'DELETE' || request.contentType === APPLY_PATCH;
  const wantedMs = request.timeoutMs ?? transport.timeoutMs;
  const timeoutMs = prompt && recovery.isAway() ? Math.min(wantedMs, AWAY_MS) : wantedMs;
  const { signal, abort, end, leftMs } = deadlineFor(request, timeoutMs, clock, request.signal);
  // If the API server stops answering other requests, it will not answer this one either.
  const cancelListener = prompt ? recovery.onceAway(() => abort(awayError(request, 'deadline'))) : undefined;
  const attempt = () =>
    send(transport, dispatcherOf(transport), request, signal, async (response) =>
      parseJson(transport, request, await readAll(response)),
    );
  try {
    for (let failures = 1, renewed = false; ; failures++) {
      try {
        return await attempt();
      } catch (error) {
        if (!(error instanceof ApiError || error instanceof NetworkError) || signal.aborted) throw error;
        if (error instanceof ApiError && error.code === 401 && !renewed) {
          renewed = true;
          connection.dropCredentials();
          continue;
        }
        // While the API server is away, another replica serves the caller better than a retry.
        if (prompt && recovery.isAway()) throw error;
        const wait = planRetry({ error, idempotent, reads, failures }, random);
        // A wait past the deadline would only replace the server's error with "no answer".
        if (wait === undefined || wait >= leftMs()) throw error;
        await sleep(clock, wait, signal);
      }
    }
  } finally {
    cancelListener?.();
    end();
  }
}

async function* stream(
  transport: Transport,
  request: StreamRequest,
): AsyncGenerator<unknown, void, undefined> {
  const { clock, connection } = transport;
  const { timeoutMs = DEFAULT_TIMEOUT_MS, query } = request;
  const get: RestRequest = { ...request, method: 'GET' };
  const opening = deadlineFor(get, timeoutMs, clock, request.signal);
  const { signal } = opening;
  try {
    const body = await send(transport, connection.watchDispatcher, get, signal, (response) => response.body);
    opening.cancelDeadline();
    const endsAt = clock.monotonic() + Number(query?.timeoutSeconds ?? 0) * 1_000 - EARLY_MS;
    const { recovery } = connection;
    try {
      for await (const text of splitLines(body)) yield parseJson(transport, get, text);
    } catch (error) {
      const failure = toFailure(get, signal, error);
      await noteFailure(transport, get, failure);
      throw failure;
    }
    // When one of several API servers shuts down, it ends all its watches properly, but early.
    if (clock.monotonic() < endsAt) recovery.dismissed();
  } finally {
    // Needed even if the reader leaves early, because the connection cannot be reused.
    opening.abort(new Error('the reader closed the stream'));
    opening.end();
  }
}

function deadlineFor(line: RequestLine, timeoutMs: number, clock: Clock, parent: AbortSignal | undefined) {
  const { signal, abort, release } = linkedController(parent);
  const at = clock.monotonic() + timeoutMs;
  const cancelDeadline = clock.after(timeoutMs, () => {
    abort(new NetworkError(line, 'deadline', `no answer within ${timeoutMs} ms`));
  });
  return {
    signal,
    abort,
    cancelDeadline,
    leftMs: () => at - clock.monotonic(),
    end: () => {
      cancelDeadline();
      release();
    },
  };
}

/** The namespace of the request is not among `--namespaces`, so the request was not sent. */
export class OutsideNamespacesError extends Error {
  override readonly name = 'OutsideNamespacesError';

  constructor(namespace: string) {
    super(`namespace ${namespace} is not among --namespaces: Gatehouse neither reads nor writes there`);
  }
}

/** Subresources of Namespaces, which are cluster-scoped. In other groups, these words may be kinds. */
const OF_NAMESPACE = /^\/api\/v1\/namespaces\/[^/?]+\/(?:status|finalize)(?:\?|$)/;

/** The namespace of the object or list in a path: `/api/v1/namespaces/<namespace>/<resource>...`. */
const NAMESPACE = /^\/(?:api|apis\/[^/]+)\/[^/]+\/namespaces\/([^/?]+)\//;

/** The API server requires Events about cluster-scoped objects to be in the namespace `default`. */
const EVENTS = /^\/api\/v1\/namespaces\/default\/events\b/;

/** Sends requests in these namespaces or for cluster-scoped objects, and rejects others with {OutsideNamespacesError}. */
export function confined(rest: Rest, namespaces: readonly string[]): Rest {
  const check = (path: string): void => {
    const namespace = NAMESPACE.exec(path)?.[1];
    if (namespace === undefined || OF_NAMESPACE.test(path) || EVENTS.test(path)) return;
    if (!namespaces.includes(decodeURIComponent(namespace))) throw new OutsideNamespacesError(namespace);
  };
  return {
    request: async (request) => {
      check(request.path);
      return rest.request(request);
    },
    stream: (request) => {
      check(request.path);
      return rest.stream(request);
    },
    impersonate: (who) => confined(rest.impersonate(who), namespaces),
  };
}
