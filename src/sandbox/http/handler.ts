import { randomUUID } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';

import { forbiddenFor } from '../auth/rbac.ts';
import { ANONYMOUS, authenticate, type FindUser, type RequestHeaders } from '../auth/authenticate.ts';
import { impersonate } from '../auth/impersonation.ts';
import { discoveryAnswer } from '../discovery/discovery.ts';
import { openApiAnswer, swaggerAnswer } from '../discovery/openapi.ts';
import { ApiFailure, internalError, methodNotAllowed, NoSuchPath } from '../../machinery/failure.ts';
import type { Api, ApiRequest } from '../pipeline/context.ts';
import { handle } from '../pipeline/handle.ts';
import type { RequestInfo, ResourceRequest, UserInfo } from '../../machinery/request.ts';
import { requestInfoOf } from './request-info.ts';
import { encoded, jsonText, render, renderStatus, send, streamWatch } from './respond.ts';

export interface HandlerOptions {
  readonly api: Api;
  readonly findUser: FindUser;
  /** Undefined if auditing is off. */
  readonly audit: ((event: AuditEvent) => void) | undefined;
  /** Called with internal errors. */
  readonly onError: (error: unknown) => void;
}

/** The fields of an audit.k8s.io/v1 Event that tests read, after each request. */
export type AuditEvent = ReturnType<typeof auditEventOf>;

interface Exchange {
  readonly options: HandlerOptions;
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
  readonly url: URL;
  readonly info: RequestInfo;
  user: UserInfo;
  impersonated: UserInfo | undefined;
  /** The name of the created object, which the path does not contain. */
  createdName: string;
  readonly annotations: Record<string, string>;
  readonly warnings: Set<string>;
}

/** Handles one HTTP request, from authentication to the audit log. */
export function createHandler(
  options: HandlerOptions,
): (request: IncomingMessage, response: ServerResponse) => void {
  return (request, response) => {
    const auditId = randomUUID();
    const url = new URL(request.url ?? '/', 'https://sandbox');
    const exchange: Exchange = {
      options,
      request,
      response,
      url,
      info: requestInfoOf(request.method ?? 'GET', url.pathname, url.searchParams),
      user: ANONYMOUS,
      impersonated: undefined,
      createdName: '',
      annotations: {},
      warnings: new Set(),
    };
    response.setHeader('audit-id', auditId);
    response.setHeader('cache-control', 'no-cache, private');
    answer(exchange)
      .catch((error: unknown) => {
        refuse(exchange, error);
      })
      .finally(() => {
        options.audit?.(auditEventOf(exchange, auditId));
      });
  };
}

async function answer(exchange: Exchange): Promise<void> {
  const { options, request, response, url, info, annotations, warnings } = exchange;
  const headers: RequestHeaders = request.headersDistinct;
  exchange.user = authenticate(headers, options.findUser);
  exchange.impersonated = impersonate(exchange.user, headers, options.api.authorizer);
  const user = exchange.impersonated ?? exchange.user;
  const allowed = options.api.authorizer.authorize(user, info);
  annotations['authorization.k8s.io/decision'] = allowed ? 'allow' : 'forbid';
  if (!allowed) throw forbiddenFor(user, info);
  if (info.kind === 'path') {
    answerPath(exchange);
    return;
  }

  const asked: ApiRequest = {
    info,
    query: url.searchParams,
    accept: request.headers.accept,
    contentType: request.headers['content-type'],
    userAgent: request.headers['user-agent'] ?? '',
    body: await readBody(request),
    user,
    notes: {
      warn: (text) => warnings.add(text),
      annotate: (key, value) => {
        annotations[key] ??= value;
      },
    },
  };
  const result = await handle(options.api, asked);
  warn(exchange);
  const rendering = { accept: asked.accept, query: asked.query, now: options.api.now };
  if (result.kind === 'watch') {
    await streamWatch(response, result, rendering);
    return;
  }
  if (result.kind === 'object' && info.verb === 'create')
    exchange.createdName = result.object.metadata.name ?? '';
  send(response, render(result, rendering));
}

/** Paths other than resources: health, version, discovery, OpenAPI. */
function answerPath({ options, request, response, url: { pathname: path } }: Exchange): void {
  const { method = 'GET' } = request;
  const { accept } = request.headers;
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

function warn({ response, warnings }: Exchange): void {
  if (warnings.size === 0 || response.headersSent) return;
  const texts = [...warnings].filter((text) => text !== '');
  response.setHeader('warning', texts.map(headerOf));
}

function refuse(exchange: Exchange, error: unknown): void {
  const { options, request, response } = exchange;
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
  warn(exchange);
  const { retryAfterSeconds } = status.details ?? {};
  if (retryAfterSeconds !== undefined) response.setHeader('retry-after', String(retryAfterSeconds));
  send(response, renderStatus(status, request.headers.accept));
}

function auditEventOf(exchange: Exchange, auditID: string) {
  const { options, request, response, info, user, impersonated, annotations } = exchange;
  return {
    auditID,
    verb: info.verb,
    requestURI: request.url ?? '/',
    stageTimestamp: options.api.now().toISOString(),
    user,
    ...(impersonated === undefined ? {} : { impersonatedUser: impersonated }),
    userAgent: request.headers['user-agent'] ?? '',
    ...(info.kind === 'path' ? {} : { objectRef: objectRefOf(info, exchange.createdName) }),
    responseStatus: { code: response.statusCode },
    annotations,
  };
}

function objectRefOf(info: ResourceRequest, createdName: string) {
  const name = info.name === '' ? createdName : info.name;
  return {
    ...(info.group === '' ? {} : { apiGroup: info.group }),
    apiVersion: info.version,
    resource: info.resource,
    ...(info.subresource === '' ? {} : { subresource: info.subresource }),
    ...(info.namespace === '' ? {} : { namespace: info.namespace }),
    ...(name === '' ? {} : { name }),
  };
}

const LIMIT = 3 * 1024 * 1024;

/** The whole body. @throws ApiFailure 413 if it is larger than kube-apiserver accepts */
function readBody(request: IncomingMessage): Promise<Uint8Array> {
  // Events are much cheaper than the stream's iterator, and most bodies are one chunk.
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    request.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size <= LIMIT) chunks.push(chunk);
      else
        reject(
          new ApiFailure(413, 'RequestEntityTooLarge', `Request entity too large: limit is ${LIMIT}`, {}),
        );
    });
    request.once('end', () => {
      resolve(Buffer.concat(chunks));
    });
    request.once('error', reject);
  });
}

// eslint-disable-next-line no-control-regex -- headers allow no control characters
const CONTROL = /[\u0000-\u001f\u007f]/g;

/** A `Warning` header: code, agent and the text as a quoted string. Node writes each character of a header as one byte. */
const headerOf = (text: string): string =>
  `299 - "${Buffer.from(text.replaceAll(CONTROL, ' ').replaceAll(/["\\]/g, '\\$&')).toString('latin1')}"`;
