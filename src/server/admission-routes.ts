/** `/mutate/<entry>` and `/validate/<entry>`: a review in, a review out. */
import type { Server } from 'node:https';
import type { FastifyInstance, FastifyRequest } from 'fastify';

import type { Decision } from '../admission/decision.ts';
import { HandlerFailure } from '../admission/handlers/failure.ts';
import type { AdmissionRequest } from '../admission/request.ts';
import {
  parseReview,
  toMutatingReview,
  toValidatingReview,
  type ReviewVersion,
} from '../admission/review.ts';
import { detailOf, toLogFields } from './admission-log.ts';
import { createDeadline, type Deadline } from './answer-signal.ts';
import { failure, INTERNAL_ERROR, okay, retry, send, type Answer, type Reply } from './answer.ts';
import type { Log } from './log.ts';
import type { Metrics, Outcome } from './metrics.ts';
import type { Pressure } from './pressure.ts';
import { refuseUnderPressure, toBusy } from './pressure-hook.ts';

/** At once where nothing has to be waited for. */
type Decide = (entry: string, request: AdmissionRequest, until: Deadline) => Decision | Promise<Decision>;

export interface AdmissionDeps {
  /** Decide for the webhook entry `entry` (the last segment of the path). */
  readonly mutate: Decide;
  readonly validate: Decide;
  readonly pressure: Pressure;
  readonly log: Log;
  readonly metrics: Pick<Metrics, 'admission'>;
}

type Webhook = 'mutate' | 'validate';

interface ReviewRoute {
  Params: { entry: string };
  Querystring: { timeout?: string };
}

type ReviewRequest = FastifyRequest<ReviewRoute, Server>;

/** @param bodyLimit in bytes */
export function addAdmissionRoutes(
  app: FastifyInstance<Server>,
  deps: AdmissionDeps,
  bodyLimit: number,
): void {
  const onRequest = refuseUnderPressure(deps.pressure, bodyLimit);
  for (const webhook of ['mutate', 'validate'] as const) {
    app.post<ReviewRoute>(`/${webhook}/:entry`, { onRequest }, (request, reply) => {
      review(webhook, request, reply, deps);
    });
  }
}

/** @throws InvalidReview */
function review(webhook: Webhook, request: ReviewRequest, reply: Reply, deps: AdmissionDeps): void {
  const { entry } = request.params;
  const { version, request: admission } = parseReview(request.body);
  const busy = deps.pressure.enter(entry);
  if (busy !== undefined) {
    void send(reply, toBusy(busy));
    return;
  }
  const end = (answer: Answer): void => {
    deps.pressure.leave(entry);
    void send(reply, answer);
  };
  const until = createDeadline(request.query.timeout, reply);
  const answer = answerTo({ webhook, entry, version, request: admission }, until, deps);
  // What needs not wait is answered at once: one turn of the loop more for each is what many requests pay for dearly.
  if (answer instanceof Promise) void answer.then(end);
  else end(answer);
}

interface Question {
  readonly webhook: Webhook;
  readonly entry: string;
  readonly version: ReviewVersion;
  readonly request: AdmissionRequest;
}

/** Never fails. */
function answerTo(question: Question, until: Deadline, deps: AdmissionDeps): Answer | Promise<Answer> {
  const { webhook, entry, request } = question;
  const started = performance.now();
  const report = (outcome: Outcome): object => {
    const seconds = (performance.now() - started) / 1_000;
    deps.metrics.admission({ webhook, operation: request.operation, outcome }, seconds);
    return toLogFields({ webhook, entry, request, outcome, seconds });
  };
  const fail = (err: unknown): Answer => {
    deps.log.error({ ...report('error'), err }, 'admission');
    // Which handler it was helps its user; why is for the log.
    return err instanceof HandlerFailure ? failure(500, err.message) : INTERNAL_ERROR;
  };
  const conclude = (decision: Decision): Answer => {
    let answer: Answer;
    try {
      answer = toAnswer(question, decision); // before it is reported: this too can fail
    } catch (error) {
      return fail(error);
    }
    deps.log.info(Object.assign(report(decision.kind), detailOf(decision)), 'admission');
    return answer;
  };
  try {
    const decision = deps[webhook](entry, request, until);
    return decision instanceof Promise ? decision.then(conclude).catch(fail) : conclude(decision);
  } catch (error) {
    return fail(error);
  }
}

function toAnswer({ webhook, version, request }: Question, decision: Decision): Answer {
  if (decision.kind === 'retry') return retry(decision.message, decision.afterSeconds);
  const toReview = webhook === 'mutate' ? toMutatingReview : toValidatingReview;
  return okay(toReview(version, request, decision));
}
