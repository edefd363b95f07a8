import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Authorizer } from '../auth/rbac.ts';
import { type RequestHeaders, ANONYMOUS } from '../auth/authenticate.ts';
import { forbiddenFor } from '../auth/attributes.ts';
import { impersonate } from '../auth/impersonation.ts';
import { negotiateRefusal } from './content-type.ts';
import { discoveryAnswer } from '../discovery/discovery.ts';
import { openApiAnswer } from '../discovery/openapi.ts';
import { swaggerAnswer } from '../discovery/version.ts';
import { ApiFailure, internalError, methodNotAllowed, NoSuchPath } from '../../machinery/failure.ts';
import type { Answer } from '../pipeline/answer.ts';
import type { Api, ApiRequest } from '../pipeline/context.ts';
import { handle } from '../pipeline/handle.ts';
import type { RequestInfo, UserInfo } from '../../machinery/request.ts';
import { auditEventOf, type AuditEvent } from './audit.ts';
import { requestInfoOf } from './request-info.ts';
import { render, send, encoded, statusText } from './respond.ts';
import { jsonText } from './serialise.ts';
import { warningHeaders } from './warning-headers.ts';
import { streamWatch } from './watch-stream.ts';

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
