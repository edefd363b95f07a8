/** `/mutate/<token>/<entry>` and `/validate/<token>/<entry>`: a review in, a review out. */
import type { Server } from 'node:https';
import type { FastifyInstance, FastifyRequest } from 'fastify';

import { type Decision, denied, INTERNAL_ERROR } from '../admission/review/decision.ts';
import { failsOpen } from '../admission/webhooks/protect-own-kinds.ts';
import type { Turns } from '../admission/policy/world.ts';
import type { AdmissionRequest } from '../admission/review/request.ts';
import {
  MAX_REVIEW_BYTES,
  readReview,
  type ReadReview,
  type ReviewBody,
  toMutatingReview,
  toRefusal,
  toValidatingReview,
} from '../admission/review/review.ts';
import {
  abortInTime,
  type Answer,
  busy,
  type IsLast,
  isRoutine,
  type PendingReview,
  type Reply,
  retry,
  type ReviewLog,
  send,
  sendAtOnce,
  toDecisionFields,
  toLogFields,
} from './answer.ts';
import type { Metrics, Outcome, Overload } from './metrics/metrics.ts';
import {
  type LoadShedding,
  overloadMessage,
  receiveBody,
  refuseOverload,
  SMALL_BODY_BYTES,
} from './limits/load-shedding.ts';
import { endAnswered, reviewAttributes, type ServerTracing } from './tracing.ts';

type Decide = (
  entry: string,
  request: AdmissionRequest,
  signal: AbortSignal,
  turns?: Turns,
) => Decision | Promise<Decision>;

export type PathVerdict = 'known' | 'unknown' | 'unread';

export interface AdmissionRoutesOptions {
  /** The token is empty for a path without one. Undefined: paths are without tokens. */
  readonly judgePath?: ((token: string) => PathVerdict) | undefined;
  readonly mutate: Decide;
  readonly validate: Decide;
  readonly loadShedding: LoadShedding;
  readonly log: ReviewLog;
  readonly metrics: Pick<Metrics, 'admission' | 'deferred' | 'existingAllowed'>;
  readonly tracing?: ServerTracing | undefined;
}

interface ReviewRoute {
  Body: ReviewBody | undefined;
  Params: { token?: string; entry: string };
  Querystring: { timeout?: string };
}

type ReviewCall = FastifyRequest<ReviewRoute, Server>;

export function addAdmissionRoutes(
  app: FastifyInstance<Server>,
  options: AdmissionRoutesOptions,
  isLast: IsLast,
): void {
  const { loadShedding, judgePath } = options;
  const overload = refuseOverload(loadShedding, MAX_REVIEW_BYTES, isLast);
  const checks = judgePath === undefined ? [overload] : [refuseUnknownPaths(judgePath), overload];
  const decide = createDecider(options, isLast);
  const [batch, oneByOne] = [createBatch(), createOneByOne()];
  for (const webhook of ['mutate', 'validate'] as const) {
    const handle = (
      call: ReviewCall,
      reply: Reply,
      body: ReviewBody = NO_BODY,
      started = performance.now(), // the wait for the batch is part of the duration
    ): void => {
      const run = body.bytes.length > SMALL_BODY_BYTES ? oneByOne : batch;
      run({
        decide: () => decide({ webhook, call, reply, body, started }),
        fail: (error) => void reply.send(error), // to the error handler
      });
    };
    const onRequest = [...checks, receiveEarly(handle)];
    const handleBody = (call: ReviewCall, reply: Reply) => handle(call, reply, call.body);
    app.post<ReviewRoute>(`/${webhook}/:entry`, { onRequest }, handleBody);
    if (judgePath !== undefined)
      app.post<ReviewRoute>(`/${webhook}/:token/:entry`, { onRequest }, handleBody);
  }
}

interface ReceivedCall extends Pick<PendingReview, 'webhook' | 'started'> {
  readonly call: ReviewCall;
  readonly reply: Reply;
  readonly body: ReviewBody;
}

function createDecider(options: AdmissionRoutesOptions, isLast: IsLast) {
  const { loadShedding, tracing } = options;
  const answerTo = createAnswerer(options);
  return ({ webhook, call, reply, body, started }: ReceivedCall): Send | undefined => {
    if (reply.raw.headersSent) return undefined; // its time was over
    const { entry } = call.params;
    const sending = (answer: Answer) => () => sendAtOnce(reply, answer, isLast(call.raw));
    const read = readReview(body);
    if (read.kind === 'unreadable')
      return sending(refuseUnread({ webhook, entry, started, ...read }, options));
    const review: PendingReview = { webhook, entry, started, request: read.request };
    const overload = loadShedding.check(review, body.bytes.length);
    if (overload !== undefined) return sending(refuseOverloaded(review, overload));
    const span = tracing?.server(`${webhook} ${entry}`, call.headers, reviewAttributes(review));
    const ended = (answer: Answer): Send => {
      if (span !== undefined) endAnswered(span, answer.code, answer.failure);
      return sending(answer);
    };
    const work = () => answerTo(review, call.query.timeout, reply);
    const answer = span === undefined ? work() : span.run(work);
    // Fast path: without I/O, there is no promise, which would cost another turn of the event loop.
    if (!(answer instanceof Promise)) return ended(answer);
    loadShedding.enter(review, body.bytes.length);
    void answer.then((decided) => {
      loadShedding.leave(review, body.bytes.length);
      ended(decided)();
    });
    return undefined;
  };
}

const NO_BODY: ReviewBody = { bytes: Buffer.alloc(0), isComplete: true };

/** Receives the body without Fastify's stages between hooks and handler, which cost as much as a decision. */
const receiveEarly =
  (handle: (call: ReviewCall, reply: Reply, body?: ReviewBody, started?: number) => void) =>
  (call: ReviewCall, reply: Reply, done: () => void): void => {
    const started = performance.now();
    if (call.headers['content-type'] !== 'application/json') {
      done();
      return;
    }
    receiveBody(call.raw, MAX_REVIEW_BYTES, (error, body) => {
      if (error === null) handle(call, reply, body, started);
      else void reply.header('connection', 'close').send(error);
    });
  };

/** Answers before the body is read, and before anything is looked up: only the API server knows the path. */
const refuseUnknownPaths =
  (judgePath: (token: string) => PathVerdict) =>
  ({ params }: ReviewCall, reply: Reply, done: () => void): void => {
    const verdict = judgePath(params.token ?? '');
    if (verdict === 'known') done();
    else if (verdict === 'unknown') reply.callNotFound();
    else void send(reply, retry('this replica does not know the paths of its webhooks yet'));
  };

type UnreadReview = Pick<PendingReview, 'webhook' | 'entry' | 'started'> &
  Extract<ReadReview, { kind: 'unreadable' }>;

/** Not with an HTTP error, which would store the object under `failurePolicy: Ignore`. */
function refuseUnread(unread: UnreadReview, { log, metrics }: AdmissionRoutesOptions): Answer {
  const { webhook, entry, started, uid, problem } = unread;
  const seconds = (performance.now() - started) / 1_000;
  metrics.admission({ webhook, operation: 'UNKNOWN', outcome: 'deny' }, seconds);
  log.info({ webhook, entry, uid, outcome: 'deny', message: problem }, 'admission');
  return { code: 200, body: JSON.stringify(toRefusal(uid, problem)) };
}

/** Requesters can exceed their share deliberately, so an HTTP error must not bypass `failurePolicy: Ignore` either. */
function refuseOverloaded(review: PendingReview, why: Overload): Answer {
  const message = overloadMessage(why);
  return failsOpen(review.entry) ? toAnswer(review, { kind: 'retry', message }) : busy(message);
}

function createAnswerer(options: AdmissionRoutesOptions) {
  /** A synchronous decision, the usual case, does not retain the signal: reuse its controller. */
  let controller = new AbortController();
  return (review: PendingReview, timeout: string | undefined, reply: Reply): Answer | Promise<Answer> => {
    try {
      const { webhook, entry, request } = review;
      const { signal } = controller;
      const turns = options.loadShedding.turnsOf(review, signal);
      const decision = options[webhook](entry, request, signal, turns);
      if (!(decision instanceof Promise)) return conclude(review, decision, options);
      abortInTime(controller, timeout, reply, review.started);
      controller = new AbortController();
      return decision.then(
        (decided) => conclude(review, decided, options),
        (error: unknown) => fail(review, error, options),
      );
    } catch (error) {
      return fail(review, error, options);
    }
  };
}

function conclude(review: PendingReview, decision: Decision, options: AdmissionRoutesOptions): Answer {
  const { log, metrics } = options;
  let answer: Answer;
  try {
    answer = toAnswer(review, decision); // before metrics and log: this can throw too
  } catch (error) {
    return fail(review, error, options);
  }
  if (decision.kind === 'allow' && !review.request.dryRun) {
    const { deferred, 'existing-violations': existing } = decision.auditAnnotations;
    for (const policy of policiesIn(deferred)) metrics.deferred(policy);
    for (const policy of policiesIn(existing)) metrics.existingAllowed(policy);
  }
  const seconds = measure(review, decision.kind, options);
  if (!isRoutine(decision)) log.info(toDecisionFields(review, decision, seconds), 'admission');
  else log.debug?.(toDecisionFields(review, decision, seconds), 'admission');
  return answer;
}

/** The policy of each check: `servers` of `servers/datacenter=…`. A shortened text may end in a part of a name. */
const policiesIn = (checks = ''): readonly string[] =>
  checks.split(',').flatMap((check) => /^[^/=]+(?=[/=])/.exec(check)?.[0] ?? []);

/** Refuses the request, because requesters can provoke errors: see {@link refuseUnread}. */
function fail(review: PendingReview, err: unknown, options: AdmissionRoutesOptions): Answer {
  const seconds = measure(review, 'error', options);
  options.log.error({ ...toLogFields(review, 'error', seconds), err }, 'admission');
  const refusal = denied(INTERNAL_ERROR, 'internal error; the log of Gatehouse says more');
  return { ...toAnswer(review, refusal), failure: 'error' };
}

function measure(
  { webhook, request: { operation }, started }: PendingReview,
  outcome: Outcome,
  { metrics, tracing }: AdmissionRoutesOptions,
): number {
  const seconds = (performance.now() - started) / 1_000;
  tracing?.note({ 'gatehouse.outcome': outcome });
  metrics.admission({ webhook, operation, outcome }, seconds);
  return seconds;
}

function toAnswer({ webhook, entry, request }: PendingReview, decision: Decision): Answer {
  if (decision.kind === 'retry' && !failsOpen(entry)) return retry(decision.message);
  const toReview = webhook === 'mutate' ? toMutatingReview : toValidatingReview;
  return { code: 200, body: JSON.stringify(toReview(request, decision)) };
}

type Send = () => void;

interface Work {
  readonly decide: () => Send | undefined;
  readonly fail: (error: unknown) => void;
}

/** A larger batch gains nothing, and would hide from the overload protection how long a turn has taken. */
const MAX_BATCH = 32;

/** In milliseconds. An answer does not wait longer for the next decisions. */
const BATCH_MS = 1;

/** One in each turn of the event loop: a large review takes longer, and others must be received and answered between two. */
export function createOneByOne(nextTurn: (callback: () => void) => void = setImmediate) {
  const waiting: Work[] = [];
  const next = (): void => {
    const work = waiting.shift();
    if (work !== undefined) attempt(() => work.decide()?.(), work.fail);
    if (waiting.length > 0) nextTurn(next);
  };
  return (work: Work): void => {
    waiting.push(work);
    if (waiting.length === 1) nextTurn(next);
  };
}

/** Decides all reviews of one turn before it sends answers: alternating costs a quarter more CPU time. */
export function createBatch(
  atEndOfTurn: (callback: () => void) => void = setImmediate,
  now = () => performance.now(),
): (work: Work) => void {
  let arrived: Work[] = [];
  const decideAll = (): void => {
    const batch = arrived;
    arrived = [];
    let since = now();
    let sends: Send[] = [];
    for (const { decide, fail } of batch) {
      const send = attempt(decide, fail);
      if (send !== undefined) sends.push(() => attempt(send, fail));
      if (now() - since < BATCH_MS) continue;
      for (const one of sends) one();
      sends = [];
      since = now();
    }
    for (const one of sends) one();
  };
  return (work) => {
    arrived.push(work);
    if (arrived.length === MAX_BATCH) decideAll();
    else if (arrived.length === 1) atEndOfTurn(decideAll);
  };
}

function attempt<Result>(act: () => Result, fail: Work['fail']): Result | undefined {
  try {
    return act();
  } catch (error) {
    fail(error);
    return undefined;
  }
}
