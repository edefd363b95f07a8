/** The status page on the operations port: access, routes and updates of open pages. It changes nothing in the cluster. */
import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { setTimeout as sleep } from 'node:timers/promises';
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

import { memoizeAsync } from '../../json/memoize-async.ts';
import type { Log } from '../../log.ts';
import {
  bearerToken,
  isOfSameOrigin,
  sessionCookie,
  sessionId,
  createSessions,
  SESSION_MS,
} from './credentials.ts';
import {
  CONTENT_SECURITY_POLICY,
  retryDocument,
  signInDocument,
  statusDocument,
  versionOf,
  type View,
} from './document.ts';
import type { CheckAccess, Verdict } from './access.ts';

export interface StatusPageOptions {
  readonly checkAccess: CheckAccess;
  readonly view: () => Promise<View>;
  readonly log: Pick<Log, 'info' | 'warn'>;
  readonly now: () => number;
}

export const MAX_VIEWERS = 50;
/** Requests in progress, open pages included. Most wait for the API server, so they must not use every connection. */
export const MAX_REQUESTS = 100;
const UPDATE_MS = 2_000;
const MAX_FORM_BYTES = 64 * 1024;

const HEADERS = {
  'content-security-policy': CONTENT_SECURITY_POLICY,
  'cache-control': 'no-store',
  'x-content-type-options': 'nosniff',
  'x-frame-options': 'DENY',
  // Not no-referrer: browsers then send `Origin: null` with forms, which would break the same-origin check.
  'referrer-policy': 'same-origin',
  'cross-origin-opener-policy': 'same-origin',
  'cross-origin-resource-policy': 'same-origin',
} as const;

const FORM = 'application/x-www-form-urlencoded';

export function addStatusPage(app: FastifyInstance, options: StatusPageOptions): void {
  void app.register((scope, _options, registered) => {
    const ended = new AbortController();
    scope.addHook('preClose', (done) => {
      ended.abort();
      done();
    });
    scope.addHook('onRequest', (_request, reply, done) => {
      void reply.headers(HEADERS);
      done();
    });
    limitRequests(scope);
    scope.setErrorHandler((error, _request, reply) => sendError(error, reply, options));
    scope.removeAllContentTypeParsers();
    scope.addContentTypeParser(
      FORM,
      { parseAs: 'string', bodyLimit: MAX_FORM_BYTES },
      (_request, body, done) => done(null, new URLSearchParams(body.toString())),
    );
    addRoutes(scope, options, ended.signal);
    registered();
  });
}

/** Counts running handlers: responses of pipelined requests emit no event when their connection closes. */
function limitRequests(scope: FastifyInstance): void {
  let open = 0;
  scope.addHook('onRoute', (route) => {
    const { handler } = route;
    route.handler = async function (request, reply) {
      if (open >= MAX_REQUESTS) return await sendRetry(reply, 'Too many requests are in progress.');
      open += 1;
      try {
        return await handler.call(this, request, reply);
      } finally {
        open -= 1;
      }
    };
  });
}

function addRoutes(
  scope: FastifyInstance,
  { checkAccess, view: readView, log, now }: StatusPageOptions,
  ended: AbortSignal,
): void {
  const sessions = createSessions(now);
  let viewers = 0;

  const tokenOf = ({ headers }: FastifyRequest): string | undefined =>
    bearerToken(headers) ?? sessions.tokenOf(sessionId(headers) ?? '');
  const judge = async (request: FastifyRequest): Promise<Verdict | undefined> => {
    const token = tokenOf(request);
    return token === undefined ? undefined : await checkAccess(token);
  };

  scope.get('/status', async (request, reply) => {
    const verdict = await judge(request);
    if (verdict?.kind !== 'allowed') return refuse(reply, verdict);
    const view = await readView();
    const tag = `"${versionOf(view)}"`;
    void reply.header('etag', tag);
    if (request.headers['if-none-match'] === tag) return reply.code(304).send();
    const signsOut = bearerToken(request.headers) === undefined;
    return reply.type('text/html; charset=utf-8').send(statusDocument(view, verdict.username, signsOut));
  });

  scope.get<{ Querystring: { readonly seen?: unknown } }>(
    '/status/events',
    { exposeHeadRoute: false },
    async (request, reply) => {
      const verdict = await judge(request);
      if (verdict?.kind !== 'allowed') return refuse(reply, verdict);
      if (viewers >= MAX_VIEWERS) return sendRetry(reply, 'Too many status pages are open.');
      viewers += 1;
      const seen = request.headers['last-event-id'] ?? request.query.seen;
      reply.hijack();
      reply.raw.writeHead(200, { ...HEADERS, 'content-type': 'text/event-stream; charset=utf-8' });
      const read = async () => ((await judge(request))?.kind === 'allowed' ? await readView() : undefined);
      await streamEvents(reply.raw, read, typeof seen === 'string' ? seen : '', UPDATE_MS, ended);
      viewers -= 1;
      return reply;
    },
  );

  scope.post('/status/login', async (request, reply) => {
    if (!isOfSameOrigin(request.headers)) return refuseCrossSite(reply);
    const token = request.body instanceof URLSearchParams ? (request.body.get('token') ?? '').trim() : '';
    const verdict = await checkAccess(token);
    if (verdict.kind !== 'allowed') return refuse(reply, verdict);
    sessions.close(sessionId(request.headers) ?? '');
    log.info({ user: verdict.username }, 'signed in to the status page');
    const cookie = sessionCookie(sessions.open(token), SESSION_MS / 1_000);
    return reply.header('set-cookie', cookie).redirect('/status', 303);
  });

  scope.post('/status/logout', (request, reply) => {
    if (!isOfSameOrigin(request.headers)) return refuseCrossSite(reply);
    sessions.close(sessionId(request.headers) ?? '');
    return reply.header('set-cookie', sessionCookie('', 0)).redirect('/status', 303);
  });
}

function refuse(
  reply: FastifyReply,
  verdict: Exclude<Verdict, { kind: 'allowed' }> | undefined,
): FastifyReply {
  switch (verdict?.kind) {
    case undefined:
      void reply.header('www-authenticate', 'Bearer realm="gatehouse"');
      return sendSignIn(reply, 401);
    case 'unauthenticated':
      void reply.header('www-authenticate', 'Bearer realm="gatehouse", error="invalid_token"');
      return sendSignIn(
        reply,
        401,
        'The token is not valid: it has expired, its account was deleted, or it was not copied completely.',
      );
    case 'forbidden':
      return sendSignIn(
        reply,
        403,
        `${verdict.username} lacks permission to view this page: bind the ClusterRole gatehouse-status-viewer to this user.`,
      );
    case 'undecided':
      return sendRetry(reply, `The status is unavailable: ${verdict.message}.`);
  }
}

const refuseCrossSite = (reply: FastifyReply): FastifyReply =>
  sendSignIn(reply, 403, 'This page did not send the form.');

const sendSignIn = (reply: FastifyReply, code: number, problem?: string): FastifyReply =>
  reply.code(code).type('text/html; charset=utf-8').send(signInDocument(problem));

const sendRetry = (reply: FastifyReply, problem: string): FastifyReply =>
  reply.type('text/html; charset=utf-8').code(503).header('retry-after', '10').send(retryDocument(problem));

function sendError(error: unknown, reply: FastifyReply, { log }: StatusPageOptions): FastifyReply {
  const code =
    error instanceof Error && 'statusCode' in error && typeof error.statusCode === 'number'
      ? error.statusCode
      : 500;
  if (code < 500) return reply.code(code).type('text/plain; charset=utf-8').send('the request is invalid\n');
  log.warn({ err: error }, 'could not build the status page');
  return sendRetry(reply, 'The status is unavailable: see the log of this replica.');
}

/** The minimum pause after a read, as a multiple of its duration: reads take at most a tenth of the time. */
const REST = 9;

/** One view of the cluster for all viewers. @param minMs from the end of a read to the start of the next */
export function createSharedView<T>(
  read: () => Promise<T>,
  minMs: number,
  now: () => number,
): () => Promise<T> {
  const timed = async () => {
    const started = now();
    const view = await read();
    return { view, tookMs: now() - started };
  };
  const ttlOf = ({ tookMs }: { readonly tookMs: number }) => tookMs + Math.max(minMs, tookMs * REST);
  const views = memoizeAsync(timed, String, { now, ttlMs: Infinity, ttlOf });
  return async () => (await views.read('shared')).view;
}

const WRITE_TIMEOUT_MS = 30_000;
const RETRY_MS = 3_000;

/** Ends when the viewer disconnects or loses access. Never throws. @param shown the version that the page already shows */
export async function streamEvents(
  response: ServerResponse,
  read: () => Promise<View | undefined>,
  shown: string,
  intervalMs: number,
  signal: AbortSignal,
): Promise<void> {
  const gone = new AbortController();
  // Not the response: a pipelined one does not emit an event when its connection closes.
  const { socket } = response.req;
  const leave = () => gone.abort();
  socket.once('close', leave);
  if (response.destroyed || socket.destroyed) leave(); // it disconnected during authentication, and no event reports that later
  const ended = AbortSignal.any([signal, gone.signal]);
  let last = shown;
  try {
    await write(response, `retry: ${RETRY_MS}\n\n`, ended);
    for (let view = await read(); view !== undefined; view = await read()) {
      const version = versionOf(view);
      if (version !== last) await write(response, eventOf('content', view.content.text, version), ended);
      last = version;
      // Also the heartbeat: proxies close idle connections.
      await write(response, eventOf('checked', view.checkedAt, version), ended);
      await sleep(intervalMs, undefined, { signal: ended });
    }
  } catch {
    // The viewer disconnected or was too slow, or the view failed. The browser reconnects and then receives the reason.
    if (!signal.aborted) {
      response.destroy();
      return;
    }
  } finally {
    socket.off('close', leave);
  }
  response.end();
}

/** @see https://html.spec.whatwg.org/multipage/server-sent-events.html#parsing-an-event-stream */
function eventOf(event: string, data: string, id: string): string {
  const lines = data.split(/\r\n|\r|\n/).map((line) => `data: ${line}\n`);
  return `event: ${event}\nid: ${id}\n${lines.join('')}\n`;
}

/** Resolves when the socket has taken the text: a viewer that does not read costs the memory of one event at most. */
async function write(response: ServerResponse, text: string, ended: AbortSignal): Promise<void> {
  ended.throwIfAborted();
  if (response.write(text)) return;
  const signal = AbortSignal.any([ended, AbortSignal.timeout(WRITE_TIMEOUT_MS)]);
  await once(response, 'drain', { signal });
}
