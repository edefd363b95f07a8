import { expect, test } from 'vitest';

import type { AccessSubject } from '../kube/access.ts';
import type { CallOptions } from '../kube/client.ts';
import type { KubeObject } from '../json/kube-object.ts';
import { createAccessReviews, createAccessAnswers } from './access-reviews.ts';
import type { CelResourceQuestion } from '../cel/library/authorizer.ts';

const question = (namespace: string) => ({ verb: 'open', group: 'g', resource: 'windows', namespace });
const subject = (username: string): AccessSubject => ({ username, uid: '', groups: [], extra: {} });
const live = new AbortController().signal;

/** An API server that answers each SubjectAccessReview when the test decides. */
function apiServer(limit: number) {
  const sent: { readonly signal?: AbortSignal | undefined; readonly answer: (allowed: boolean) => void }[] =
    [];
  /** The user and the namespace of each question. */
  const shown: string[] = [];
  const create = <T extends KubeObject>(_resource: unknown, object: T, options?: CallOptions): Promise<T> => {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const { spec } = object as { spec?: { user: string; resourceAttributes: { namespace: string } } };
    shown.push(`${spec?.user} ${spec?.resourceAttributes.namespace}`);
    options?.signal?.addEventListener('abort', () => reject(new Error('aborted')));
    const answer = (allowed: boolean) => resolve({ ...object, status: { allowed } });
    sent.push({ signal: options?.signal, answer });
    return promise;
  };
  const answerAll = async (count: number): Promise<void> => {
    for (let at = 0; at < count; at++) {
      await expect.poll(() => sent.length).toBeGreaterThan(at);
      sent[at]?.answer(true);
    }
  };
  return { sent, shown, answerAll, mayUser: createAccessReviews({ create }, limit) };
}

test('questions above the limit wait, and users take turns', async () => {
  const { shown, answerAll, mayUser } = apiServer(2);
  const ana = ['a', 'b', 'c', 'd'].map((namespace) => mayUser(subject('ana'), question(namespace), live));
  const bob = mayUser(subject('bob'), question('a'), live);
  expect(shown).toEqual(['ana a', 'ana b']);
  await answerAll(5);
  expect(await Promise.all([...ana, bob])).toEqual([true, true, true, true, true]);
  expect(shown).toEqual(['ana a', 'ana b', 'ana c', 'bob a', 'ana d']);
});

test('equal questions that wait are sent once, and a question in flight answers no later caller', async () => {
  const { sent, answerAll, mayUser } = apiServer(1);
  const first = mayUser(subject('ana'), question('a'), live);
  const later = Array.from({ length: 1_500 }, () => mayUser(subject('ana'), question('a'), live));
  sent[0]?.answer(false);
  expect(await first).toBe(false);
  await answerAll(2);
  expect(new Set(await Promise.all(later))).toEqual(new Set([true]));
  expect(sent).toHaveLength(2);
});

test('the same question about users of the same name but different groups is sent for each', async () => {
  const { sent, answerAll, mayUser } = apiServer(4);
  const asked = [[], ['admins']].map((groups) => mayUser({ ...subject('ana'), groups }, question('a'), live));
  await answerAll(2);
  await Promise.all(asked);
  expect(sent).toHaveLength(2);
});

test('a question without a remaining caller is cancelled, whether it waits or is in flight', async () => {
  const { sent, shown, mayUser } = apiServer(1);
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
  await expect.poll(() => shown).toEqual(['ana a', 'ana c']);
  expect(sent[0]?.signal?.aborted).toBe(true);
  sent[1]?.answer(true);
  const outcomes = (await results).map(({ status }) => status);
  expect(outcomes).toEqual(['rejected', 'rejected', 'rejected', 'fulfilled']);
});

const ADA = { username: 'ada', uid: 'u', groups: ['authors'], extra: { scopes: ['all'] } };
const POD = { verb: 'get', group: '', resource: 'pods', subresource: '', namespace: 'shop', name: 'a' };
const GET_POD: CelResourceQuestion = { kind: 'resource', ...POD };

/** An API server whose answers have this status. */
function answering(status: object) {
  const specs: unknown[] = [];
  let now = 1_000_000;
  const create = <T extends KubeObject>(_resource: unknown, object: T): Promise<T> => {
    specs.push((object as unknown as { spec: unknown }).spec);
    return Promise.resolve({ ...object, status });
  };
  const answers = createAccessAnswers({ create }, () => now);
  return { specs, answers, wait: (ms: number) => (now += ms) };
}

test('paths, selectors, users and service accounts are asked about as in a SubjectAccessReview', async () => {
  const { specs, answers } = answering({ allowed: false, evaluationError: 'role gone' });
  const serviceAccount = { namespace: 'shop', name: 'cart' };
  const path = await answers.ask(ADA, { kind: 'path', path: '/a', verb: 'get', serviceAccount }, live);
  expect(path).toEqual({ allowed: false, reason: '', error: 'role gone' });
  await answers.ask(ADA, { ...GET_POD, fieldSelector: 'a=b', labelSelector: 'c=d' }, live);
  expect(specs).toEqual([
    {
      user: 'system:serviceaccount:shop:cart',
      uid: '',
      groups: ['system:serviceaccounts', 'system:serviceaccounts:shop'],
      extra: {},
      nonResourceAttributes: { path: '/a', verb: 'get' },
    },
    {
      user: 'ada',
      uid: 'u',
      groups: ['authors'],
      extra: { scopes: ['all'] },
      resourceAttributes: {
        ...POD,
        fieldSelector: { rawSelector: 'a=b' },
        labelSelector: { rawSelector: 'c=d' },
      },
    },
  ]);
});

test('an answer is known for five seconds, to the same user with the same groups', async () => {
  const { answers, wait } = answering({ allowed: true });
  expect(answers.known(ADA, GET_POD)).toBeUndefined();
  await answers.ask(ADA, GET_POD, live);
  wait(4_999);
  expect(answers.known(ADA, GET_POD)).toMatchObject({ allowed: true });
  expect(answers.known({ ...ADA, groups: [] }, GET_POD)).toBeUndefined();
  expect(answers.known({ ...ADA, extra: {} }, GET_POD)).toBeUndefined();
  expect(answers.known(ADA, { ...GET_POD, verb: 'list' })).toBeUndefined();
  wait(1);
  expect(answers.known(ADA, GET_POD)).toBeUndefined();
});

test('answers are forgotten when there are too many, and long questions are never kept', async () => {
  const { answers } = answering({ allowed: true });
  const of = (name: string): CelResourceQuestion => ({ ...GET_POD, name });
  await answers.ask(ADA, of('x'.repeat(5_000)), live);
  expect(answers.known(ADA, of('x'.repeat(5_000)))).toBeUndefined();
  for (let index = 0; index <= 5_000; index += 1) await answers.ask(ADA, of(`n${index}`), live);
  expect(answers.known(ADA, of('n0'))).toBeUndefined();
  expect(answers.known(ADA, of('n1'))).toBeDefined();
  expect(answers.known(ADA, of('n5000'))).toBeDefined();
});
