/** SubjectAccessReviews that reviews wait for: a few at a time, and each question once. */
import { mayUser, type AccessQuestion, type AccessSubject } from '../kube/access.ts';
import type { KubeClient } from '../kube/client.ts';
import { orAborted } from '../kube/clock.ts';

/**
 * Whether the user has the permission, by a SubjectAccessReview that is sent after the call.
 *
 * @param signal ends the wait. A question without a remaining caller is cancelled
 * @throws as the client does, and the reason of `signal` on abort: answer `retry`
 */
export type AccessReviews<Question = AccessQuestion, Answer = boolean> = (
  subject: AccessSubject,
  question: Question,
  signal: AbortSignal,
) => Promise<Answer>;

/**
 * Enough to ask about all reads of a usual policy at once. Most of the connections for requests (`REQUEST_CONNECTIONS`)
 * stay free for reviews of other objects.
 */
const MAX_CONCURRENT = 6;

interface Waiting<Answer> {
  readonly ask: (signal: AbortSignal) => Promise<Answer>;
  readonly answer: PromiseWithResolvers<Answer>;
  readonly abandoned: AbortController;
  callers: number;
}

/** Create one per process. */
export const createAccessReviews = (
  client: Pick<KubeClient, 'create'>,
  limit: number = MAX_CONCURRENT,
): AccessReviews =>
  inTurn((subject, question, signal) => mayUser(client, subject, question, { signal }), limit);

/**
 * Questions above the limit wait, and users take turns: one object can need hundreds of them. A
 * caller shares an equal question that waits, but not one in flight, which may have read the permissions before the call.
 */
export function inTurn<Question, Answer>(
  send: AccessReviews<Question, Answer>,
  limit: number = MAX_CONCURRENT,
): AccessReviews<Question, Answer> {
  /** By user name, then by question. */
  const waiting = new Map<string, Map<string, Waiting<Answer>>>();
  let running = 0;

  const drop = (user: string, key: string): void => {
    const own = waiting.get(user);
    own?.delete(key);
    if (own?.size === 0) waiting.delete(user);
  };
  const sendNext = (): void => {
    const [first] = waiting;
    if (running >= limit || first === undefined) return;
    const [user, own] = first;
    const [next] = own;
    if (next === undefined) return;
    const [key, { ask, answer, abandoned }] = next;
    drop(user, key);
    if (waiting.delete(user)) waiting.set(user, own); // behind the other users
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
    const own = waiting.get(username) ?? new Map<string, Waiting<Answer>>();
    const entry = own.get(key) ?? {
      ask: (abandoned) => send(subject, question, abandoned),
      answer: Promise.withResolvers<Answer>(),
      abandoned: new AbortController(),
      callers: 0,
    };
    entry.callers++;
    waiting.set(username, own.set(key, entry));
    sendNext();
    try {
      return await orAborted(entry.answer.promise, signal);
    } finally {
      entry.callers--;
      if (entry.callers === 0) {
        entry.abandoned.abort();
        if (waiting.get(username)?.get(key) === entry) drop(username, key);
      }
    }
  };
}
