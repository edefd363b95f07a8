/** The status page on the operations port: access and routes. It changes nothing in the cluster. */
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify';

import type { Log } from '../../log.ts';
import { bearerToken, isOfSameOrigin, sessionCookie, sessionId } from './credentials.ts';
import {
  CONTENT_SECURITY_POLICY,
  retryDocument,
  signInDocument,
  statusDocument,
  versionOf,
  type View,
} from './document.ts';
import { streamEvents } from './event-stream.ts';
import type { CheckAccess, Verdict } from './access.ts';
import { createSessions, SESSION_MS } from './sessions.ts';

export interface StatusPageOptions {
  readonly checkAccess: CheckAccess;
  /** Called for every viewer, every few seconds. */
  readonly view: () => Promise<View>;
  readonly log: Pick<Log, 'info' | 'warn'>;
  /** A monotonic clock, in milliseconds. */
  readonly now: () => number;
}

/** Open pages with live updates at a time. */
export const MAX_VIEWERS = 50;
/** Requests in progress, open pages included. Most wait for the API server, so they must not use every connection. */
export const MAX_REQUESTS = 100;
/** The interval between two updates of an open page, in milliseconds. */
const UPDATE_MS = 2_000;

/** The size limit of a form, which contains one token. */
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

/** Adds `/status` and the routes below it. Event streams end when `app` closes. */
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

/**
 * Counts running handlers, which start when the body is complete. Responses do not work for this: those of pipelined
 * requests emit no event when their connection closes.
 */
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
      if (viewers >= MAX_VIEWERS) return sendRetry(reply, 'As many pages are open as are kept up to date.');
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

/** @param verdict undefined: the request has no token and no session */
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
        `${verdict.username} may not look at this page: bind the ClusterRole gatehouse-status-viewer to them.`,
      );
    case 'undecided':
      return sendRetry(reply, `Nothing can be shown: ${verdict.message}.`);
  }
}

const refuseCrossSite = (reply: FastifyReply): FastifyReply =>
  sendSignIn(reply, 403, 'That form was not sent from this page.');

const sendSignIn = (reply: FastifyReply, code: number, problem?: string): FastifyReply =>
  reply.code(code).type('text/html; charset=utf-8').send(signInDocument(problem));

const sendRetry = (reply: FastifyReply, problem: string): FastifyReply =>
  reply.type('text/html; charset=utf-8').code(503).header('retry-after', '10').send(retryDocument(problem));

/** Client errors return only a status. Internal errors appear only in the log. */
function sendError(error: unknown, reply: FastifyReply, { log }: StatusPageOptions): FastifyReply {
  const code =
    error instanceof Error && 'statusCode' in error && typeof error.statusCode === 'number'
      ? error.statusCode
      : 500;
  if (code < 500)
    return reply.code(code).type('text/plain; charset=utf-8').send('this request is not understood\n');
  log.warn({ err: error }, 'the status page could not be made');
  return sendRetry(reply, 'Nothing can be shown: see the log of this replica.');
}
