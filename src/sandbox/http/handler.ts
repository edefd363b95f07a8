import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';

import type { Authorizer } from '../auth/rbac.ts';
import { ANONYMOUS, type RequestHeaders } from '../auth/authenticate.ts';
import { forbiddenFor } from '../auth/attributes.ts';
import { impersonate } from '../auth/impersonation.ts';
import { negotiateRefusal, negotiateWatch } from './content-type.ts';
import { discoveryAnswer } from '../discovery/discovery.ts';
import { openApiAnswer } from '../discovery/openapi.ts';
import { swaggerAnswer } from '../discovery/version.ts';
import { ApiFailure, internalError, methodNotAllowed, NoSuchPath } from '../../machinery/failure.ts';
import type { Answer, WatchEvent } from '../pipeline/answer.ts';
import type { Api, ApiRequest } from '../pipeline/context.ts';
import { handle } from '../pipeline/handle.ts';
import type { RequestInfo, UserInfo } from '../../machinery/request.ts';
import { auditEventOf, type AuditEvent } from './audit.ts';
import { requestInfoOf } from './request-info.ts';
import { render, send, encoded, statusText, bookmarkObject, watchedText, type Rendering } from './respond.ts';
import { jsonText } from './serialise.ts';

export interface HandlerOptions {
  readonly api: Api;
  readonly authenticate: (headers: RequestHeaders) => UserInfo;
  readonly authorizer: Authorizer;
  /** Undefined if auditing is off. */
  readonly audit: ((event: AuditEvent) => void) | undefined;
  /** Called with internal errors. */
  readonly onError: (error: unknown) => void;
}

/** Facts about a request that the audit log needs. */
interface Trail {
  user: UserInfo;
  impersonated: UserInfo | undefined;
  createdName: string;
  readonly annotations: Record<string, string>;
  readonly warnings: Set<string>;
}

/** Handles one HTTP request, from authentication to the audit log. */
export function createHandler(
  options: HandlerOptions,
): (request: IncomingMessage, response: ServerResponse) => void {
  return (request, response) => {
    const receivedAt = options.api.now();
    const auditId = randomUUID();
    const url = new URL(request.url ?? '/', 'https://sandbox');
    const info = requestInfoOf(request.method ?? 'GET', url.pathname, url.searchParams);
    const trail: Trail = {
      user: ANONYMOUS,
      impersonated: undefined,
      createdName: '',
      annotations: {},
      warnings: new Set(),
    };
    response.setHeader('audit-id', auditId);
    response.setHeader('cache-control', 'no-cache, private');
    answer(options, request, response, url, info, trail)
      .catch((error: unknown) => {
        refuse(options, request, response, trail, error);
      })
      .finally(() => {
        options.audit?.(
          auditEventOf({
            auditId,
            info,
            uri: request.url ?? '/',
            receivedAt,
            finishedAt: options.api.now(),
            user: trail.user,
            impersonated: trail.impersonated,
            userAgent: request.headers['user-agent'] ?? '',
            createdName: trail.createdName,
            code: response.statusCode,
            annotations: trail.annotations,
          }),
        );
      });
  };
}

async function answer(
  options: HandlerOptions,
  request: IncomingMessage,
  response: ServerResponse,
  url: URL,
  info: RequestInfo,
  trail: Trail,
): Promise<void> {
  const headers: RequestHeaders = request.headersDistinct;
  trail.user = options.authenticate(headers);
  trail.impersonated = impersonate(trail.user, headers, options.authorizer, info);
  const user = trail.impersonated ?? trail.user;
  const { allowed, reason } = options.authorizer.authorize(user, info);
  trail.annotations['authorization.k8s.io/decision'] = allowed ? 'allow' : 'forbid';
  trail.annotations['authorization.k8s.io/reason'] = reason;
  if (!allowed) throw forbiddenFor(user, info, reason);

  const { accept } = request.headers;
  if (info.kind === 'path') {
    answerPath(options, request.method ?? 'GET', response, url, accept);
    return;
  }
  const asked: ApiRequest = {
    method: request.method ?? 'GET',
    info,
    query: url.searchParams,
    accept,
    contentType: request.headers['content-type'],
    userAgent: request.headers['user-agent'] ?? '',
    body: await readBody(request),
    user,
    notes: {
      warn: (text) => trail.warnings.add(text),
      annotate: (key, value) => {
        trail.annotations[key] ??= value;
      },
    },
  };
  await deliver(await handle(options.api, asked, info), asked, response, trail, options.api.now);
}

async function deliver(
  result: Answer,
  request: ApiRequest,
  response: ServerResponse,
  trail: Trail,
  clock: () => Date,
): Promise<void> {
  warn(response, trail);
  if (result.kind === 'watch') {
    await streamWatch(response, result, request, clock);
    return;
  }
  if (result.kind === 'object' && request.method === 'POST')
    trail.createdName = result.object.metadata.name ?? '';
  send(response, render(result, { accept: request.accept, query: request.query, now: clock() }));
}

/** Paths other than resources: health, version, discovery, OpenAPI. */
function answerPath(
  options: HandlerOptions,
  method: string,
  response: ServerResponse,
  url: URL,
  accept: string | undefined,
): void {
  const path = url.pathname;
  if (/^\/(?:healthz|livez|readyz)(?:\/|$)/.test(path)) {
    send(response, { code: 200, contentType: 'text/plain; charset=utf-8', text: 'ok' });
    return;
  }
  const swagger = swaggerAnswer(path, accept);
  if (swagger !== undefined) {
    send(response, { code: 200, ...swagger });
    return;
  }
  const found =
    discoveryAnswer(path, accept, options.api.registry) ?? openApiAnswer(path, accept, options.api.registry);
  const isResource = /^\/(?:api|apis\/[^/]+)\/[^/]+\/[^/]/.test(path); // with a method that no resource supports
  if (isResource || (found !== undefined && method !== 'GET' && method !== 'HEAD')) throw methodNotAllowed();
  if (found === undefined) throw new NoSuchPath();
  const { body, encoding, contentType } = found;
  send(response, { code: 200, ...encoded(jsonText(body), encoding), contentType });
}

function warn(response: ServerResponse, { warnings }: Trail): void {
  if (warnings.size === 0 || response.headersSent) return;
  response.setHeader('warning', warningHeaders([...warnings]));
}

function refuse(
  options: HandlerOptions,
  { headers: { accept } }: IncomingMessage,
  response: ServerResponse,
  trail: Trail,
  error: unknown,
): void {
  if (!(error instanceof ApiFailure) && !(error instanceof NoSuchPath)) options.onError(error);
  if (response.headersSent || response.destroyed) {
    response.destroy();
    return;
  }
  if (error instanceof NoSuchPath) {
    send(response, { code: 404, contentType: 'text/plain; charset=utf-8', text: '404 page not found\n' });
    return;
  }
  const { status } =
    error instanceof ApiFailure ? error : internalError('internal error of the sandbox; see its log');
  warn(response, trail);
  const { retryAfterSeconds } = status.details ?? {};
  if (retryAfterSeconds !== undefined) response.setHeader('retry-after', String(retryAfterSeconds));
  send(response, { code: status.code, ...encoded(statusText(status), negotiateRefusal(accept)) });
}

/** The limit of kube-apiserver, in bytes. */
const LIMIT = 3 * 1024 * 1024;

/** The whole body. @throws ApiFailure 413 if it is larger than kube-apiserver accepts */
export function readBody(request: IncomingMessage): Promise<Uint8Array> {
  // Events are much cheaper than the stream's iterator, and most bodies are one chunk.
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    request.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size <= LIMIT) chunks.push(chunk);
      else reject(tooLarge());
    });
    request.once('end', () => {
      resolve(Buffer.concat(chunks));
    });
    request.once('error', reject);
  });
}

const tooLarge = () =>
  new ApiFailure(413, 'RequestEntityTooLarge', `Request entity too large: limit is ${LIMIT}`, {});

// The limits of k8s.io/apiserver/pkg/endpoints/filters/warning.go, in characters.
const MOST_IN_ALL = 4 * 1024;

const MOST_OF_EACH = 256;

/**
 * The values of `Warning` headers: code, agent and the text as a quoted string in UTF-8. If all texts together are too
 * long, each is cut, and later ones are dropped once the cut ones are too long.
 */
function warningHeaders(texts: readonly string[]): readonly string[] {
  const shown = texts.filter((text) => text !== '').map((text) => Array.from(text.replaceAll(CONTROL, ' ')));
  const isTooLong = shown.reduce((sum, text) => sum + text.length, 0) > MOST_IN_ALL;
  return (isTooLong ? cut(shown) : shown).map((text) => headerOf(text.join('')));
}

// eslint-disable-next-line no-control-regex -- headers allow no control characters
const CONTROL = /[\u0000-\u001f\u007f]/g;

function cut(texts: readonly (readonly string[])[]): readonly (readonly string[])[] {
  let sum = 0;
  return texts.flatMap((text) => {
    if (sum >= MOST_IN_ALL) return [];
    const part = text.slice(0, MOST_OF_EACH);
    sum += part.length;
    return [part];
  });
}

/** Node writes each character of a header as one byte. */
const headerOf = (text: string): string =>
  `299 - "${Buffer.from(text.replaceAll(/["\\]/g, '\\$&')).toString('latin1')}"`;

/** Bytes. A slow client is disconnected above this backlog, because its events must not fill the memory. */
const BACKLOG_LIMIT = 64 * 1024 * 1024;

/** Writes events as they happen, one JSON object per line; resolves at the end of the watch. */
function streamWatch(
  response: ServerResponse,
  { type, timeoutMs, follow }: Extract<Answer, { kind: 'watch' }>,
  { accept, query }: Pick<Rendering, 'accept' | 'query'>,
  clock: () => Date,
): Promise<void> {
  const accepted = negotiateWatch(accept);
  response.writeHead(200, { 'content-type': 'application/json', 'transfer-encoding': 'chunked' });
  response.flushHeaders();
  let first = true;
  const text = (event: WatchEvent): string => {
    if (event.type === 'ERROR') return `{"type":"ERROR","object":${statusText(event.status)}}\n`;
    const object =
      event.type === 'BOOKMARK'
        ? bookmarkObject(type, event.revision, event.endsInitialEvents)
        : event.object;
    const shown = watchedText(object, type, accepted, { query, now: clock(), first });
    first = false;
    return `{"type":"${event.type}","object":${shown}}\n`;
  };
  return new Promise((resolve) => {
    const over = new AbortController();
    let stop: () => void = () => undefined;
    let lines: string[] = [];
    const flush = () => {
      if (lines.length === 0 || response.destroyed) return;
      response.write(lines.join(''));
      lines = [];
      if (response.writableLength > BACKLOG_LIMIT) response.destroy();
    };
    const end = () => {
      if (over.signal.aborted) return;
      flush();
      over.abort();
      clearTimeout(timer);
      stop();
      response.end();
      resolve();
    };
    const timer = setTimeout(end, timeoutMs);
    response.once('close', end);
    stop = follow((event) => {
      if (over.signal.aborted) return;
      // Send simultaneous events together: encryption and system calls dominate the cost.
      if (lines.push(text(event)) === 1) setImmediate(flush);
    }, end);
    if (over.signal.aborted) stop(); // the watch ended before `stop` was known
  });
}
