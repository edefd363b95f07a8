import { expect, test } from 'vitest';

import type { CelResourceQuestion } from '../../cel/library/authorizer.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import { createAccessAnswers } from '../access-reviews.ts';

const ADA = { username: 'ada', uid: 'u', groups: ['authors'], extra: { scopes: ['all'] } };
const ATTRIBUTES = {
  verb: 'get',
  group: '',
  resource: 'pods',
  subresource: '',
  namespace: 'shop',
  name: 'a',
};
const GET_POD: CelResourceQuestion = { kind: 'resource', ...ATTRIBUTES };
const signal = new AbortController().signal;

/** An API server whose answers have this status. */
function apiServer(status: object | undefined) {
  const specs: unknown[] = [];
  let now = 1_000_000;
  const create = <T extends KubeObject>(_resource: unknown, object: T): Promise<T> => {
    specs.push((object as unknown as { spec: unknown }).spec);
    return Promise.resolve({ ...object, ...(status === undefined ? {} : { status }) });
  };
  const answers = createAccessAnswers({ create }, () => now);
  return { specs, answers, wait: (ms: number) => (now += ms) };
}

test('a review is about the user with all groups and extras', async () => {
  const { specs, answers } = apiServer({ allowed: true, reason: 'by RBAC' });
  expect(await answers.ask(ADA, GET_POD, signal)).toEqual({ allowed: true, reason: 'by RBAC', error: '' });
  expect(specs).toEqual([
    {
      user: 'ada',
      uid: 'u',
      groups: ['authors'],
      extra: { scopes: ['all'] },
      resourceAttributes: ATTRIBUTES,
    },
  ]);
});

test('paths, selectors and service accounts are asked about as in a SubjectAccessReview', async () => {
  const { specs, answers } = apiServer({ allowed: false, evaluationError: 'role gone' });
  const serviceAccount = { namespace: 'shop', name: 'cart' };
  const path = await answers.ask(ADA, { kind: 'path', path: '/a', verb: 'get', serviceAccount }, signal);
  expect(path).toEqual({ allowed: false, reason: '', error: 'role gone' });
  await answers.ask(ADA, { ...GET_POD, fieldSelector: 'a=b', labelSelector: 'c=d' }, signal);
  expect(specs).toEqual([
    {
      user: 'system:serviceaccount:shop:cart',
      uid: '',
      groups: ['system:serviceaccounts', 'system:serviceaccounts:shop'],
      extra: {},
      nonResourceAttributes: { path: '/a', verb: 'get' },
    },
    expect.objectContaining({
      resourceAttributes: expect.objectContaining({
        fieldSelector: { rawSelector: 'a=b' },
        labelSelector: { rawSelector: 'c=d' },
      }) as object,
    }),
  ]);
});

test('an answer is known for five seconds, to the same user with the same groups', async () => {
  const { answers, wait } = apiServer({ allowed: true });
  expect(answers.known(ADA, GET_POD)).toBeUndefined();
  await answers.ask(ADA, GET_POD, signal);
  wait(4_999);
  expect(answers.known(ADA, GET_POD)).toMatchObject({ allowed: true });
  expect(answers.known({ ...ADA, groups: [] }, GET_POD)).toBeUndefined();
  expect(answers.known({ ...ADA, extra: {} }, GET_POD)).toBeUndefined();
  expect(answers.known(ADA, { ...GET_POD, verb: 'list' })).toBeUndefined();
  wait(1);
  expect(answers.known(ADA, GET_POD)).toBeUndefined();
});

test('answers are forgotten when there are too many, and long questions are never kept', async () => {
  const { answers } = apiServer({ allowed: true });
  const of = (name: string): CelResourceQuestion => ({ ...GET_POD, name });
  await answers.ask(ADA, of('x'.repeat(5_000)), signal);
  expect(answers.known(ADA, of('x'.repeat(5_000)))).toBeUndefined();
  for (let index = 0; index <= 5_000; index += 1) await answers.ask(ADA, of(`n${index}`), signal);
  expect(answers.known(ADA, of('n0'))).toBeUndefined();
  expect(answers.known(ADA, of('n1'))).toBeDefined();
  expect(answers.known(ADA, of('n5000'))).toBeDefined();
});

test('an answer without a status is none', async () => {
  const { answers } = apiServer(undefined);
  await expect(answers.ask(ADA, GET_POD, signal)).rejects.toThrow('without a status');
  expect(answers.known(ADA, GET_POD)).toBeUndefined();
});
