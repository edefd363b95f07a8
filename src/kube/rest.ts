import { ApiError, NetworkError, type RequestLine } from './api-error.ts';
import { linkedController, sleep, systemClock, type Clock } from './clock.ts';
import type { Connection } from './connection.ts';
import { impersonationHeaders, type Headers, type Impersonation } from './rest/credentials.ts';
import {
  splitLines,
  isInterruption,
  parseJson,
  readAll,
  send,
  toFailure,
  type Query,
  type RequestSpan,
  type RestObservation,
  type Transport,
} from './rest/transport.ts';
import { AWAY_MS } from './rest/recovery.ts';
import { planRetry } from './rest/retry.ts';

export type { Query, RequestSpan, RestObservation } from './rest/transport.ts';

export interface RestRequest {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Absolute and percent-encoded: see `resourcePath`. */
  readonly path: string;
  readonly query?: Query | undefined;
  /** Sent as JSON. */
  readonly body?: unknown;
  /** Default: application/json. */
  readonly contentType?: string | undefined;
  readonly headers?: Headers | undefined;
  /** For all attempts together, in milliseconds. Default: 30 s. */
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Called right before each attempt: a retry may come long after the call. An error that it throws is the result. */
  readonly beforeSend?: (() => void) | undefined;
}

export interface StreamRequest {
  readonly path: string;
  readonly query?: Query | undefined;
  readonly headers?: Headers | undefined;
  /** How long the response headers may take, in milliseconds. Default: 30 s. */
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** JSON requests to the API server. */
export interface Rest {
  /**
   * Sends a request, and retries where that is safe (`retry.ts`).
   * @throws {ApiError} when the API server refuses, {NetworkError} when there is no response
   * @throws the reason of `signal` on abort
   */
  readonly request: <T>(request: RestRequest) => Promise<T>;
  /**
   * The parsed lines of a streamed response. Ends when the server ends the response; never retries.
   * @throws as `request`
   */
  readonly stream: (request: StreamRequest) => AsyncIterable<unknown>;
  /** The same API server, as another user. Needs the RBAC verb `impersonate`. */
  readonly impersonate: (who: Impersonation) => Rest;
}

export interface RestOptions {
  readonly connection: Connection;
  /** E.g. `gatehouse/1.0.0`; appears in audit logs. */
  readonly userAgent: string;
  readonly observe?: (observation: RestObservation) => void;
  /** Begins the span of each attempt; the span of a watch ends with the response headers. Default: no tracing. */
  readonly trace?: ((line: RequestLine) => RequestSpan | undefined) | undefined;
  /** Receives the Date header of each response as soon as the headers arrive. */
  readonly onDate?: (date: string) => void;
  /** Parses responses; throws on invalid JSON. Default: JSON.parse, which rounds integers beyond 2^53. */
  readonly parse?: (text: string) => unknown;
  /** Uses the connection that is reserved for leases. */
  readonly urgent?: boolean;
  /** Its requests can wait: they use separate connections and are paced after an outage (`recovery.ts`). */
  readonly background?: boolean;
  /** For urgent requests: while the API server is away, they fail at once, except one probe a second. */
  readonly prompt?: boolean;
  /** The timeout of requests that do not set one, in milliseconds. Default: 30 s. */
  readonly timeoutMs?: number;
  readonly clock?: Clock;
  readonly random?: () => number;
}

/** An admission request lasts at most 30 s, and the API server gives up on our requests after 60 s. */
export const DEFAULT_TIMEOUT_MS = 30_000;

/** In milliseconds. The API server cut a watch short if it ends this long before the requested end. */
const EARLY_MS = 2_000;

/** The content type of server-side apply: JSON is valid YAML. Apply is idempotent. */
export const APPLY_PATCH = 'application/apply-patch+yaml';

export function createRest(options: RestOptions): Rest {
  return restAs(undefined, options);
}

function restAs(identity: Headers | undefined, options: RestOptions): Rest {
  const { connection, userAgent, observe = () => undefined, onDate = () => undefined, trace } = options;
  const { urgent = false, background = false, prompt = false } = options;
  const { timeoutMs = DEFAULT_TIMEOUT_MS, clock = systemClock, random = Math.random } = options;
  const { parse = (text: string): unknown => JSON.parse(text) } = options;
  const transport: Transport = {
    ...{ connection, userAgent, identity, observe, trace, onDate, parse, clock, background, prompt },
  };
  const dispatcher = dispatcherOf(connection, { urgent, background });

  const attempt = (line: RequestLine, request: RestRequest, signal: AbortSignal): Promise<unknown> => {
    const { body, contentType = 'application/json', headers, query, beforeSend } = request;
    return send(
      transport,
      {
        dispatcher,
        line,
        query,
        headers: body === undefined ? { ...headers } : { 'content-type': contentType, ...headers },
        body: body === undefined ? undefined : JSON.stringify(body),
        beforeSend,
        signal,
      },
      async (response) => parseJson(transport, line, await readAll(response)),
    );
  };

  return {
    // The only place where JSON from the API server gets the type that the caller named.
    request: async <T>(request: RestRequest) =>
      (await withRetries(
        { connection, prompt, clock, random },
        { ...request, timeoutMs: request.timeoutMs ?? timeoutMs },
        attempt,
      )) as T,
    stream: (request) => stream(transport, request),
    impersonate: (who) => restAs(impersonationHeaders(who), options),
  };
}

function dispatcherOf(
  { dispatcher, urgentDispatcher, backgroundDispatcher }: Connection,
  { urgent, background }: Required<Pick<RestOptions, 'urgent' | 'background'>>,
): Connection['dispatcher'] {
  if (urgent) return urgentDispatcher;
  return background ? backgroundDispatcher : dispatcher;
}

interface RetryDeps {
  readonly connection: Pick<Connection, 'dropCredentials' | 'recovery'>;
  readonly prompt: boolean;
  readonly clock: Clock;
  readonly random: () => number;
}

async function withRetries(
  { connection, prompt, clock, random }: RetryDeps,
  request: RestRequest,
  attempt: (line: RequestLine, request: RestRequest, signal: AbortSignal) => Promise<unknown>,
): Promise<unknown> {
  const { method, path } = request;
  const timeoutMs = patience(request.timeoutMs ?? DEFAULT_TIMEOUT_MS, prompt, connection.recovery);
  const line: RequestLine = { method, path };
  const reads = method === 'GET';
  const idempotent = reads || method === 'PUT' || method === 'DELETE' || request.contentType === APPLY_PATCH;
  const { signal, abort, end, left } = deadlineFor(line, timeoutMs, clock, request.signal);
  // If the API server stops answering other requests, it will not answer this one either.
  const stay = prompt
    ? connection.recovery.onceAway(() => {
        abort(new NetworkError(line, 'deadline', 'the API server answers nobody here at the moment'));
      })
    : undefined;
  try {
    for (let failures = 1, renewed = false; ; failures++) {
      try {
        return await attempt(line, request, signal);
      } catch (error) {
        if (!(error instanceof ApiError || error instanceof NetworkError) || signal.aborted) throw error;
        if (error instanceof ApiError && error.code === 401 && !renewed) {
          renewed = true;
          connection.dropCredentials();
          continue;
        }
        // The API server is away: another replica serves the caller better than a retry.
        if (prompt && connection.recovery.isAway()) throw error;
        const wait = planRetry({ error, idempotent, reads, failures }, random);
        // A wait past the deadline would only replace the server's error by "no answer".
        if (wait === undefined || wait >= left()) throw error;
        await sleep(clock, wait, signal);
      }
    }
  } finally {
    stay?.();
    end();
  }
}

async function* stream(
  transport: Transport,
  request: StreamRequest,
): AsyncGenerator<unknown, void, undefined> {
  const { timeoutMs = DEFAULT_TIMEOUT_MS, path, query, headers = {} } = request;
  const line: RequestLine = { method: 'GET', path };
  const opening = deadlineFor(line, timeoutMs, transport.clock, request.signal);
  const { signal } = opening;
  try {
    const body = await send(
      transport,
      {
        dispatcher: transport.connection.watchDispatcher,
        line,
        query,
        headers,
        body: undefined,
        beforeSend: undefined,
        signal,
      },
      (response) => response.body,
    );
    opening.lift();
    const endsAt = transport.clock.monotonic() + Number(query?.timeoutSeconds ?? 0) * 1_000 - EARLY_MS;
    const { recovery } = transport.connection;
    try {
      for await (const text of splitLines(body)) yield parseJson(transport, line, text);
    } catch (error) {
      const failure = toFailure(line, signal, error);
      if (isInterruption(failure)) recovery.interrupted();
      throw failure;
    }
    // When one of several API servers shuts down, it ends all its watches properly, but early.
    if (transport.clock.monotonic() < endsAt) recovery.dismissed();
  } finally {
    // Also when the reader leaves early: the connection cannot be reused.
    opening.abort(new Error('the reader of the stream left'));
    opening.end();
  }
}

/** The timeout of a request. A probe of an API server that is known to be away gets a shorter one. */
function patience(timeoutMs: number, prompt: boolean, { isAway }: Connection['recovery']): number {
  return prompt && isAway() ? Math.min(timeoutMs, AWAY_MS) : timeoutMs;
}

function deadlineFor(line: RequestLine, timeoutMs: number, clock: Clock, parent: AbortSignal | undefined) {
  const { signal, abort, release } = linkedController(parent);
  const at = clock.monotonic() + timeoutMs;
  const lift = clock.after(timeoutMs, () => {
    abort(new NetworkError(line, 'deadline', `no answer within ${timeoutMs} ms`));
  });
  return {
    signal,
    abort,
    /** Cancels the deadline; `signal` still aborts with the parent. */
    lift,
    left: () => at - clock.monotonic(),
    end: () => {
      lift();
      release();
    },
  };
}
