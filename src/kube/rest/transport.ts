import { setImmediate } from 'node:timers/promises';
import type { Dispatcher } from 'undici';

import { ApiError, attributeToOutage, NetworkError, type RequestLine } from '../api-error.ts';
import { abortError, orAborted } from '../../json/abort.ts';
import type { Clock } from '../clock.ts';
import type { Connection } from '../connection.ts';
import type { Headers } from './credentials.ts';
import { AWAY_MS, isInterruption, parseRetryAfter } from './recovery.ts';

export type Query = Readonly<Record<string, string | number | boolean | undefined>>;

/** For metrics. The path has too many values for a label. */
export interface RestObservation extends RequestLine {
  readonly code: number | 'connection' | 'deadline' | 'malformed' | 'aborted';
  readonly seconds: number;
}

export interface RequestSpan {
  readonly headers: Headers;
  readonly end: (code: RestObservation['code']) => void;
}

export interface RestRequest extends RequestLine {
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE';
  /** Absolute and percent-encoded: see `resourcePath`. */
  readonly path: string;
  readonly query?: Query | undefined;
  readonly body?: unknown;
  readonly contentType?: string | undefined;
  readonly headers?: Headers | undefined;
  readonly isLastOnConnection?: boolean | undefined;
  /** For all attempts together, in milliseconds. Default: 30 s. */
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Called right before each attempt: a retry may come long after the call. An error that it throws is the result. */
  readonly beforeSend?: (() => void) | undefined;
}

export interface RestOptions {
  readonly connection: Connection;
  /** E.g. `gatehouse/1.0.0`; appears in audit logs. */
  readonly userAgent: string;
  readonly observe?: (observation: RestObservation) => void;
  /** The span of a watch ends with the response headers. */
  readonly trace?: ((line: RequestLine) => RequestSpan | undefined) | undefined;
  /** Receives kube-apiserver's Date header as soon as the response headers arrive: after a slow body, it would be stale. */
  readonly onDate?: (date: string) => void;
  /** Parses responses; throws on invalid JSON. Default: JSON.parse, which rounds integers beyond 2^53. */
  readonly parse?: (text: string) => unknown;
  readonly urgent?: boolean;
  /** Its requests can wait: they use separate connections and are paced after an outage (`recovery.ts`). */
  readonly background?: boolean;
  /** For urgent requests: while the API server is away, they fail immediately, except one probe per second. */
  readonly prompt?: boolean;
  /** The timeout of requests that do not set one, in milliseconds. Default: 30 s. */
  readonly timeoutMs?: number;
  readonly clock?: Clock;
  readonly random?: () => number;
}

export interface Transport extends Required<RestOptions> {
  readonly identity: Headers | undefined;
}

/** Sends once. @throws {ApiError} for a status of 300 or higher, {NetworkError} when there is no response */
export async function send<T>(
  transport: Transport,
  dispatcher: Dispatcher,
  request: RestRequest,
  signal: AbortSignal,
  read: (response: Dispatcher.ResponseData) => T | Promise<T>,
): Promise<T> {
  const { recovery } = transport.connection;
  if (transport.prompt && !recovery.mayAsk()) throw awayError(request, 'connection');
  const endTurn = transport.background ? await recovery.turn(signal) : undefined;
  const started = transport.clock.monotonic();
  try {
    return await sendNow(transport, dispatcher, request, signal, read);
  } catch (error) {
    // The question must not keep the caller beyond its deadline.
    await orAborted(noteFailure(transport, request, error, started), signal).catch(() => undefined);
    throw error;
  } finally {
    endTurn?.();
  }
}

/** The error of a request that is not sent or abandoned while the API server is away. */
export function awayError(line: RequestLine, kind: 'connection' | 'deadline'): NetworkError {
  const error = new NetworkError(line, kind, 'the API server does not answer this replica at the moment');
  attributeToOutage(error);
  return error;
}

/** @param started when the request was sent; undefined: its response has broken off */
export async function noteFailure(
  transport: Transport,
  { path }: RequestLine,
  error: unknown,
  started?: number,
): Promise<void> {
  const { recovery } = transport.connection;
  if (isInterruption(error)) {
    const since = error.kind === 'deadline' ? started : undefined;
    const interrupted = () => recovery.interrupted(error, since);
    if (!path.startsWith('/apis/') || OWN_PATH.test(path) || recovery.isLost()) interrupted();
    else {
      // Only the aggregated API server behind kube-apiserver may be down.
      const asked = recovery.ask(() => askItself(transport)).then((answers) => answers || interrupted());
      if (since === undefined) await asked;
    }
  }
  if (error instanceof Error && recovery.covers(error)) attributeToOutage(error);
}

/** Whether kube-apiserver answers. Without a pool's limit: requests that an aggregated API server keeps may use up the others. */
async function askItself(transport: Transport): Promise<boolean> {
  const aborter = new AbortController();
  const cancel = transport.clock.after(AWAY_MS, () => aborter.abort());
  const request = { method: 'GET', path: '/version' } as const;
  const asking = sendNow(transport, transport.connection.watchDispatcher, request, aborter.signal, readAll);
  return await asking
    .then(
      () => true,
      (error: unknown) => error instanceof ApiError,
    )
    .finally(cancel);
}

/** kube-apiserver answers these itself. It forwards others to aggregated API servers, whose clocks may be wrong. */
const OWN_PATH =
  /^\/(?:version$|api\/|apis\/(?:coordination|authorization|admissionregistration)\.k8s\.io\/)/;

async function sendNow<T>(
  transport: Transport,
  dispatcher: Dispatcher,
  request: RestRequest,
  signal: AbortSignal,
  read: (response: Dispatcher.ResponseData) => T | Promise<T>,
): Promise<T> {
  const line: RequestLine = { method: request.method, path: request.path };
  // An exec plugin may hang: the deadline also covers it.
  const credentials = await orAborted(transport.connection.headers(), signal);
  request.beforeSend?.();
  const body = request.body === undefined ? null : JSON.stringify(request.body);
  const span = transport.trace?.(line);
  const started = transport.clock.monotonic();
  let code: RestObservation['code'] = 'connection';
  try {
    // While a request waits for a connection, undici does not report its abort.
    const response = await orAborted(
      dispatcher.request({ ...toDispatch(transport, request, credentials, span?.headers), body, signal }),
      signal,
    );
    code = response.statusCode;
    transport.connection.recovery.answered();
    const { date } = response.headers;
    if (typeof date === 'string' && OWN_PATH.test(request.path)) transport.onDate(date);
    if (response.statusCode >= 300) throw await apiErrorOf(transport, line, response);
    return await read(response);
  } catch (error) {
    const known = toFailure(line, signal, error);
    if (known instanceof NetworkError) code = known.kind;
    else if (signal.aborted) code = 'aborted';
    throw known;
  } finally {
    span?.end(code);
    transport.observe({ ...line, code, seconds: (transport.clock.monotonic() - started) / 1_000 });
  }
}

/** undici frees the connection one turn after the body ends: an earlier request would open another one. */
export async function readAll({ body }: Dispatcher.ResponseData): Promise<string> {
  const text = await body.text();
  await setImmediate();
  return text;
}

export function toFailure(line: RequestLine, signal: AbortSignal, error: unknown): Error {
  if (signal.aborted) return abortError(signal);
  if (error instanceof ApiError || error instanceof NetworkError) return error;
  if (error instanceof Error && codeOf(error) === 'UND_ERR_INVALID_ARG') return error;
  const message = error instanceof Error ? error.message || codeOf(error) : String(error);
  return new NetworkError(line, 'connection', `no complete answer: ${message}`, error);
}

export function parseJson({ parse }: Pick<Transport, 'parse'>, line: RequestLine, text: string): unknown {
  try {
    return parse(text);
  } catch (cause) {
    const problem = 'the answer is not JSON: is this the address of an API server?';
    throw new NetworkError(line, 'malformed', problem, cause);
  }
}

function toDispatch(
  { connection, identity, userAgent }: Transport,
  {
    method,
    path,
    query,
    headers,
    body,
    contentType = 'application/json',
    isLastOnConnection = false,
  }: RestRequest,
  credentials: Headers,
  tracing: Headers | undefined,
): Dispatcher.RequestOptions {
  const server = new URL(connection.server);
  const own = Object.entries(credentials).filter(
    // Two identities must not mix: one user would get the groups of the other.
    ([name]) => identity === undefined || !/^impersonate-/i.test(name),
  );
  return {
    origin: server.origin,
    path: `${server.pathname.replace(/\/+$/, '')}${path}${queryString(query)}`,
    method,
    reset: isLastOnConnection,
    headers: mutable([
      ['user-agent', userAgent],
      ['accept', 'application/json'],
      ...own,
      ...Object.entries(identity ?? {}),
      ...Object.entries(body === undefined ? {} : { 'content-type': contentType }),
      ...Object.entries(headers ?? {}),
      ...Object.entries(tracing ?? {}),
    ]),
  };
}

/** Later headers replace earlier ones, regardless of case. undici writes one header line per array value. */
function mutable(
  entries: readonly (readonly [string, Headers[string]])[],
): Record<string, string | string[]> {
  return Object.fromEntries(
    entries.map(([name, value]) => [name.toLowerCase(), typeof value === 'string' ? value : [...value]]),
  );
}

function queryString(query: Query | undefined): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    if (value !== undefined) parameters.append(name, String(value));
  }
  return parameters.size === 0 ? '' : `?${parameters.toString()}`;
}

async function apiErrorOf(
  { clock }: Transport,
  line: RequestLine,
  response: Dispatcher.ResponseData,
): Promise<ApiError> {
  const { statusCode, headers } = response;
  const text = await readAll(response);
  const retryAfter = headers['retry-after'];
  const header = Array.isArray(retryAfter) ? retryAfter[0] : retryAfter;
  return new ApiError(line, {
    code: statusCode,
    status: statusOf(text),
    retryAfterSeconds: parseRetryAfter(header, clock.now()),
  });
}

/** Proxies respond with text or HTML, whose beginning is a better message than "no message". */
function statusOf(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return { message: text.replace(/\s+/g, ' ').trim().slice(0, 200) };
  }
}

const codeOf = (error: Error): string =>
  'code' in error && typeof error.code === 'string' ? error.code : '';

/** Twenty times etcd's limit. A longer line is not an event, and would exhaust the memory of the process. */
export const MAX_LINE_BYTES = 32 * 1024 * 1024;

const NEWLINE = 0x0a;

/** Splits bytes and decodes whole lines: a chunk may end inside a character. @throws when a line is too long */
export async function* splitLines(
  chunks: AsyncIterable<Uint8Array>,
  maxBytes = MAX_LINE_BYTES,
): AsyncGenerator<string, void, undefined> {
  let parts: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of chunks) {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end !== -1; end = chunk.indexOf(NEWLINE, start)) {
      const line = Buffer.concat([...parts, chunk.subarray(start, end)]).toString('utf8');
      parts = [];
      length = 0;
      start = end + 1;
      if (line.trim() !== '') yield line;
    }
    if (start < chunk.length) {
      parts.push(chunk.subarray(start));
      length += chunk.length - start;
    }
    if (length > maxBytes) throw new Error(`a line is longer than ${maxBytes} bytes`);
  }
}
