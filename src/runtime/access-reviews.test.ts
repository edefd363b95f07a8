import { expect, test } from 'vitest';

import type { AccessSubject } from '../kube/access.ts';
import type { CallOptions } from '../kube/client.ts';
import type { KubeObject } from '../json/kube-object.ts';
import { createAccessReviews } from './access-reviews.ts';

const question = (namespace: string) => ({ verb: 'open', group: 'g', resource: 'windows', namespace });
const subject = (username: string): AccessSubject => ({ username, uid: '', groups: [], extra: {} });
const live = new AbortController().signal;

interface Sent {
  readonly user: string;
  readonly namespace: string | undefined;
  readonly signal: AbortSignal | undefined;
  readonly answer: (allowed: boolean) => void;
  readonly fail: (error: Error) => void;
}

/** An API server that answers each SubjectAccessReview when the test says so. */
function apiServer(limit: number) {
  const sent: Sent[] = [];
  const create = <T extends KubeObject>(_resource: unknown, object: T, options?: CallOptions): Promise<T> => {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const { spec } = object as unknown as {
      spec: { user: string; resourceAttributes: { namespace?: string } };
    };
    options?.signal?.addEventListener('abort', () => {
      reject(new Error('aborted'));
    });
    sent.push({
      user: spec.user,
      namespace: spec.resourceAttributes.namespace,
      signal: options?.signal,
      answer: (allowed) => {
        resolve({ ...object, status: { allowed } });
      },
      fail: reject,
    });
    return promise;
  };
  return { sent, mayUser: createAccessReviews({ create }, limit) };
}

const shown = (sent: readonly Sent[]) => sent.map(({ user, namespace }) => `${user} ${namespace ?? ''}`);

async function answerAll(sent: readonly Sent[], count: number): Promise<void> {
  for (let at = 0; at < count; at++) {
    await expect.poll(() => sent.length).toBeGreaterThan(at);
    sent[at]?.answer(true);
  }
}

test('questions above the limit wait, and users take turns', async () => {
  const { sent, mayUser } = apiServer(2);
  const ana = ['a', 'b', 'c', 'd'].map((namespace) => mayUser(subject('ana'), question(namespace), live));
  const bob = mayUser(subject('bob'), question('a'), live);
  expect(shown(sent)).toEqual(['ana a', 'ana b']);
  await answerAll(sent, 5);
  expect(await Promise.all([...ana, bob])).toEqual([true, true, true, true, true]);
  expect(shown(sent)).toEqual(['ana a', 'ana b', 'ana c', 'bob a', 'ana d']);
});

test('equal questions that wait are sent once, and a question in flight answers no later caller', async () => {
  const { sent, mayUser } = apiServer(1);
  const first = mayUser(subject('ana'), question('a'), live);
  const later = Array.from({ length: 1_500 }, () => mayUser(subject('ana'), question('a'), live));
  sent[0]?.answer(false);
  expect(await first).toBe(false);
  await answerAll(sent, 2);
  expect(new Set(await Promise.all(later))).toEqual(new Set([true]));
  expect(sent).toHaveLength(2);
});

test('the same question about users of the same name but different groups is sent for each', async () => {
  const { sent, mayUser } = apiServer(4);
  const asked = [[], ['admins']].map((groups) => mayUser({ ...subject('ana'), groups }, question('a'), live));
  await answerAll(sent, 2);
  await Promise.all(asked);
  expect(sent).toHaveLength(2);
});

test('a question without a remaining caller is cancelled, whether it waits or is in flight', async () => {
  const { sent, mayUser } = apiServer(1);
  const caller = new AbortController();
  const other = new AbortController();
  const asked = [
    mayUser(subject('ana'), question('a'), caller.signal),
    mayUser(subject('ana'), question('b'), caller.signal),
    mayUser(subject('ana'), question('c'), caller.signal),
    mayUser(subject('ana'), question('c'), other.signal),
  ];
  const results = Promise.allSettled(asked);
  caller.abort(new Error('the API server hung up'));
  await expect.poll(() => shown(sent)).toEqual(['ana a', 'ana c']);
  expect(sent[0]?.signal?.aborted).toBe(true);
  sent[1]?.answer(true);
  expect((await results).map(({ status }) => status)).toEqual([
    'rejected',
    'rejected',
    'rejected',
    'fulfilled',
  ]);
});

test('a failed question fails for its callers only', async () => {
  const { sent, mayUser } = apiServer(1);
  const asked = [mayUser(subject('ana'), question('a'), live), mayUser(subject('bob'), question('a'), live)];
  const results = Promise.allSettled(asked);
  sent[0]?.fail(new Error('the API server does not answer'));
  await answerAll(sent, 2);
  expect((await results).map(({ status }) => status)).toEqual(['rejected', 'fulfilled']);
});
