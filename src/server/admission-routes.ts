/** `/mutate/<entry>` and `/validate/<entry>`: a review in, a review out. */
import type { Server } from 'node:https';
import type { FastifyInstance, FastifyRequest } from 'fastify';

import type { Decision } from '../admission/review/decision.ts';
import { HandlerFailure } from '../admission/handlers/errors.ts';
import type { AdmissionRequest } from '../admission/review/request.ts';
import {
  parseReview,
  toMutatingReview,
  toValidatingReview,
  type ReviewVersion,
} from '../admission/review/review.ts';
import { detailOf, isRoutine, toLogFields } from './admission-log.ts';
import { abortInTime, failure, INTERNAL_ERROR, okay, retry, sendAtOnce, type Answer } from './answer.ts';
import type { Log } from '../log.ts';
import type { Metrics, Outcome } from './metrics/metrics.ts';
import { type Pressure, refuseUnderPressure, toBusy } from './limits/pressure.ts';
import { endAnswered, outcomeAttribute, reviewAttributes, type ServerTracing } from './tracing.ts';

/** At once where nothing has to be waited for. The signal aborts when the time to answer is over. */
type Decide = (entry: string, request: AdmissionRequest, signal: AbortSignal) => Decision | Promise<Decision>;

export interface AdmissionDeps {
  /** Decide for the webhook entry `entry` (the last segment of the path). */
  readonly mutate: Decide;
  readonly validate: Decide;
  readonly pressure: Pressure;
  /** Without `debug` nothing is said of what is routine: there is one for each write to the cluster. */
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
 * @param isLast whether no further request should come over a connection that is answered now
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
      // What need not wait is answered in this turn of the event loop: a later one costs.
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
  /** By the clock of `performance`. */
  readonly started: number;
}

/** Never fails. `onWait` is told what to abort in time, if the answer has to be waited for. */
type Answerer = (
  question: Question,
  onWait: (controller: AbortController) => void,
  /** Asked for its headers only by who needs them: Node makes them when they are asked for. */
  request: Pick<FastifyRequest<ReviewRoute, Server>, 'headers'>,
) => Answer | Promise<Answer>;

function createAnswerer(deps: AdmissionDeps): Answerer {
  // Nobody holds on to the signal of what was decided at once, which is nearly everything: the next one has it too.
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

/** The same answers, each in a span of its own. */
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

/** How a question ends: with an answer, a metric and a line in the log. */
function conclude(question: Question, decision: Decision, deps: AdmissionDeps): Answer {
  let answer: Answer;
  try {
    answer = toAnswer(question, decision); // before it is reported: this too can fail
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
  // Which handler it was helps its user; why is for the log.
  return err instanceof HandlerFailure ? failure(500, err.message) : INTERNAL_ERROR;
}

/** @returns how long it took, in seconds */
function measure(
  { webhook, request: { operation }, started }: Question,
  outcome: Outcome,
  metrics: Pick<Metrics, 'admission'>,
): number {
  const seconds = (performance.now() - started) / 1_000;
  metrics.admission({ webhook, operation, outcome }, seconds);
  return seconds;
}

/** A dry run lets nothing in. */
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
