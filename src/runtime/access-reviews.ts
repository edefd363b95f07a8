/** SubjectAccessReviews that reviews wait for: a few at a time, and each question once. */
import {
  mayUser,
  type AccessQuestion,
  type AccessSubject,
  decideAccess,
  type AccessDecision,
  type PathQuestion,
} from '../kube/access.ts';
import type { KubeClient } from '../kube/client.ts';
import { createFairQueue } from '../kube/workqueue.ts';
import { orAborted } from '../json/abort.ts';
import type { AccessAnswers } from '../admission/policy/world.ts';
import type { UserInfo } from '../admission/review/request.ts';
import type { CelDecision, CelQuestion } from '../cel/library/authorizer.ts';

/** @throws as the client does, and the reason of `signal` on abort: answer `retry` */
export type AccessReviews<Question = AccessQuestion, Answer = boolean> = (
  subject: AccessSubject,
  question: Question,
  signal: AbortSignal,
) => Promise<Answer>;

/** Most of the connections for requests (`REQUEST_CONNECTIONS`) stay free for reviews of other objects. */
const MAX_CONCURRENT = 6;

interface Waiting<Answer> {
  readonly ask: (signal: AbortSignal) => Promise<Answer>;
  readonly answer: PromiseWithResolvers<Answer>;
  readonly abandoned: AbortController;
  callers: number;
}

export const createAccessReviews = (
  client: Pick<KubeClient, 'create'>,
  limit: number = MAX_CONCURRENT,
): AccessReviews<AccessQuestion | PathQuestion> =>
  inTurn((subject, question, signal) => mayUser(client, subject, question, { signal }), limit);

/** Users take turns. A question in flight may have read the permissions before the call: it is not shared. */
function inTurn<Question, Answer>(
  send: AccessReviews<Question, Answer>,
  limit: number = MAX_CONCURRENT,
): AccessReviews<Question, Answer> {
  const waiting = createFairQueue<Waiting<Answer>>();
  let running = 0;

  const sendNext = (): void => {
    const next = running < limit ? waiting.next() : undefined;
    if (next === undefined) return;
    const [, { ask, answer, abandoned }] = next;
    running++;
    const end = (): void => {
      running--;
      sendNext();
    };
    ask(abandoned.signal).then(answer.resolve, answer.reject).then(end, end);
  };

  return async (subject, question, signal) => {
    signal.throwIfAborted();
    const { username } = subject;
    const key = JSON.stringify([subject, question]);
    const entry = waiting.get(username, key) ?? {
      ask: (abandoned) => send(subject, question, abandoned),
      answer: Promise.withResolvers<Answer>(),
      abandoned: new AbortController(),
      callers: 0,
    };
    entry.callers++;
    waiting.set(username, key, entry);
    sendNext();
    try {
      return await orAborted(entry.answer.promise, signal);
    } finally {
      entry.callers--;
      if (entry.callers === 0) {
        entry.abandoned.abort();
        if (waiting.get(username, key) === entry) waiting.delete(username, key);
      }
    }
  };
}

/** Revoked access may last that long, and only in requests that are allowed: before a refusal, Gatehouse asks again. */
const FRESH_MS = 5_000;
/** These limit the memory: users can ask about any name, of any length. */
const MOST_ANSWERS = 5_000;
const LONGEST_KEY = 4_096;

/** Create one per process. @param now in milliseconds, on a clock that never goes back */
export function createAccessAnswers(
  client: Pick<KubeClient, 'create'>,
  now: () => number,
  limit?: number,
): AccessAnswers {
  const answers = new Map<string, { readonly decision: CelDecision; readonly until: number }>();
  const send = inTurn<AccessQuestion | PathQuestion, AccessDecision>(
    (subject, question, signal) => decideAccess(client, subject, question, { signal }),
    limit,
  );

  return {
    known: (user, question) => {
      const found = answers.get(answerKey(user, question));
      return found !== undefined && found.until > now() ? found.decision : undefined;
    },
    ask: async (user, question, signal) => {
      const key = answerKey(user, question);
      const until = now() + FRESH_MS; // the answer may be as old as the question
      const decision = await send(subjectOf(user, question), attributesOf(question), signal);
      if (key.length > LONGEST_KEY) return decision;
      answers.delete(key);
      answers.set(key, { decision, until });
      for (const [oldest, { until: end }] of answers) {
        if (answers.size <= MOST_ANSWERS && end > now()) break;
        answers.delete(oldest);
      }
      return decision;
    },
  };
}

/** Everything that the authorizer sees of a user counts. */
const answerKey = ({ username, uid, groups, extra }: UserInfo, question: CelQuestion): string =>
  JSON.stringify([username, uid, groups, extra, question]);

/** Like the API server, gives a service account of an expression only the groups of its namespace. */
function subjectOf(user: UserInfo, { serviceAccount }: CelQuestion): AccessSubject {
  if (serviceAccount === undefined) return user;
  const { namespace, name } = serviceAccount;
  return {
    username: `system:serviceaccount:${namespace}:${name}`,
    uid: '',
    groups: ['system:serviceaccounts', `system:serviceaccounts:${namespace}`],
    extra: {},
  };
}

function attributesOf(question: CelQuestion): AccessQuestion | PathQuestion {
  const { verb } = question;
  if (question.kind === 'path') return { path: question.path, verb };
  const { group, resource, subresource, namespace, name, fieldSelector, labelSelector } = question;
  return {
    verb,
    group,
    resource,
    subresource,
    namespace,
    name,
    ...(fieldSelector === undefined ? {} : { fieldSelector: { rawSelector: fieldSelector } }),
    ...(labelSelector === undefined ? {} : { labelSelector: { rawSelector: labelSelector } }),
  };
}
