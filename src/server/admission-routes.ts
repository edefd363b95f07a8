/** `/mutate/<entry>` and `/validate/<entry>`: a review in, a review out. */
import type { Server } from 'node:https';
import type { FastifyInstance, FastifyRequest } from 'fastify';

import type { Decision } from '../admission/review/decision.ts';
import { HandlerFailure } from '../admission/handlers/errors.ts';
import type { AdmissionRequest } from '../admission/review/request.ts';
import { parseReview, toMutatingReview, toValidatingReview } from '../admission/review/review.ts';
import type { ReviewVersion } from '../admission/review/envelope.ts';
import { detailOf, isRoutine, toLogFields } from './admission-log.ts';
import { abortInTime, failure, INTERNAL_ERROR, okay, retry, sendAtOnce, type Answer } from './answer.ts';
import type { Log } from '../log.ts';
import type { Metrics, Outcome } from './metrics/metrics.ts';
import { type Pressure, refuseUnderPressure, toBusy } from './limits/pressure.ts';
import { endAnswered, outcomeAttribute, reviewAttributes, type ServerTracing } from './tracing.ts';

/** Decides without a promise if nothing has to be awaited. The signal aborts when the response is due. */
type Decide = (entry: string, request: AdmissionRequest, signal: AbortSignal) => Decision | Promise<Decision>;

export interface AdmissionDeps {
  /** Decide for the webhook entry `entry` (the last segment of the path). */
  readonly mutate: Decide;
  readonly validate: Decide;
  readonly pressure: Pressure;
  /** Without `debug`, routine reviews are not logged: there is one for every write to the cluster. */
  readonly log: Omit<Log, 'debug'> & { readonly debug?: Log['debug'] | undefined };
  readonly metrics: Pick<Metrics, 'admission' | 'deferred'>;
  readonly tracing?: ServerTracing | undefined;
}

type Webhook = 'mutate' | 'validate';

interface ReviewRoute {
  Params: { entry: string };
  Querystring: { timeout?: string };
}

/**
 * @param bodyLimit in bytes
 * @param isLast whether the server should close a connection after the response that it sends now
 */
export function addAdmissionRoutes(
  app: FastifyInstance<Server>,
  deps: AdmissionDeps,
  bodyLimit: number,
  isLast: () => boolean,
): void {
  const onRequest = refuseUnderPressure(deps.pressure, bodyLimit);
  const answerTo =
    deps.tracing === undefined ? createAnswerer(deps) : createTracedAnswerer(deps, deps.tracing);
  for (const webhook of ['mutate', 'validate'] as const) {
    app.post<ReviewRoute>(`/${webhook}/:entry`, { onRequest }, (request, reply) => {
      const { entry } = request.params;
      const { version, request: admission } = parseReview(request.body);
      const busy = deps.pressure.enter(entry);
      if (busy !== undefined) {
        sendAtOnce(reply, toBusy(busy), isLast());
        return;
      }
      const end = (answer: Answer): void => {
        deps.pressure.leave(entry);
        sendAtOnce(reply, answer, isLast());
      };
      const question = { webhook, entry, version, request: admission, started: performance.now() };
      const onWait = (controller: AbortController): void => {
        abortInTime(controller, request.query.timeout, reply);
      };
      const answer = answerTo(question, onWait, request);
      // Fast path: a decision without I/O is answered in this turn of the event loop, because another turn costs time.
      if (answer instanceof Promise) void answer.then(end);
      else end(answer);
    });
  }
}

interface Question {
  readonly webhook: Webhook;
  readonly entry: string;
  readonly version: ReviewVersion;
  readonly request: AdmissionRequest;
  /** As `performance.now()` returns it. */
  readonly started: number;
}

/** Never throws. Calls `onWait` with the controller to abort at the deadline, if the answer is asynchronous. */
type Answerer = (
  question: Question,
  onWait: (controller: AbortController) => void,
  /** Read `headers` only if needed: Node parses them on the first access. */
  request: Pick<FastifyRequest<ReviewRoute, Server>, 'headers'>,
) => Answer | Promise<Answer>;

function createAnswerer(deps: AdmissionDeps): Answerer {
  // A synchronous decision, which is the usual case, does not retain the signal: reuse its controller for the next
  // request.
  let controller = new AbortController();
  return (question, onWait) => {
    try {
      const { webhook, entry, request } = question;
      const decision = deps[webhook](entry, request, controller.signal);
      if (!(decision instanceof Promise)) return conclude(question, decision, deps);
      onWait(controller);
      controller = new AbortController();
      return decision.then(
        (decided) => conclude(question, decided, deps),
        (error: unknown) => fail(question, error, deps),
      );
    } catch (error) {
      return fail(question, error, deps);
    }
  };
}

/** The same answers, each within a span. */
function createTracedAnswerer(deps: AdmissionDeps, tracing: ServerTracing): Answerer {
  const answerTo = createAnswerer({
    ...deps,
    metrics: {
      ...deps.metrics,
      admission: (labels, seconds) => {
        tracing.note(outcomeAttribute(labels.outcome));
        deps.metrics.admission(labels, seconds);
      },
    },
  });
  return (question, onWait, request) => {
    const { webhook, entry } = question;
    const attributes = reviewAttributes(webhook, entry, question.request);
    const span = tracing.server(`${webhook} ${entry}`, request.headers, attributes);
    const end = (answer: Answer): Answer => {
      endAnswered(span, answer.code);
      return answer;
    };
    const answer = span.run(() => answerTo(question, onWait, request));
    return answer instanceof Promise ? answer.then(end) : end(answer);
  };
}

/** Completes a question: records the metric, writes the log line and returns the answer. */
function conclude(question: Question, decision: Decision, deps: AdmissionDeps): Answer {
  let answer: Answer;
  try {
    answer = toAnswer(question, decision); // before metrics and log: this can throw too
  } catch (error) {
    return fail(question, error, deps);
  }
  countDeferred(question, decision, deps.metrics);
  const seconds = measure(question, decision.kind, deps.metrics);
  const fields = () => ({ ...toLogFields(question, decision.kind, seconds), ...detailOf(decision) });
  if (!isRoutine(decision)) deps.log.info(fields(), 'admission');
  else deps.log.debug?.(fields(), 'admission');
  return answer;
}

function fail(question: Question, err: unknown, { log, metrics }: AdmissionDeps): Answer {
  const seconds = measure(question, 'error', metrics);
  log.error({ ...toLogFields(question, 'error', seconds), err }, 'admission');
  // The user sees which handler failed. Only the log contains the cause.
  return err instanceof HandlerFailure ? failure(500, err.message) : INTERNAL_ERROR;
}

/** @returns the duration in seconds */
function measure(
  { webhook, request: { operation }, started }: Question,
  outcome: Outcome,
  metrics: Pick<Metrics, 'admission'>,
): number {
  const seconds = (performance.now() - started) / 1_000;
  metrics.admission({ webhook, operation, outcome }, seconds);
  return seconds;
}

/** Does not count dry runs: they store nothing. */
function countDeferred(
  { request: { dryRun } }: Question,
  decision: Decision,
  metrics: Pick<Metrics, 'deferred'>,
): void {
  const deferred = decision.kind === 'allow' ? decision.auditAnnotations.deferred : undefined;
  if (deferred === undefined || dryRun) return;
  for (const spelled of deferred.split(',')) metrics.deferred(spelled.split('/', 1)[0] ?? '');
}

function toAnswer({ webhook, version, request }: Question, decision: Decision): Answer {
  if (decision.kind === 'retry') return retry(decision.message, decision.afterSeconds);
  const toReview = webhook === 'mutate' ? toMutatingReview : toValidatingReview;
  return okay(toReview(version, request, decision));
}
