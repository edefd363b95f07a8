import { expect, test } from 'vitest';

import { findUid } from './request.ts';
import { MAX_REVIEW_BYTES, readReview, toRefusal } from './review.ts';

/** The members in the order of kube-apiserver. Users control `object`, which follows the uid. */
function reviewOf(object: string, { uid = '"the-uid"', version = 'v1' } = {}): string {
  const kind = '"kind":{"group":"","version":"v1","kind":"ConfigMap"}';
  const resource = '"resource":{"group":"","version":"v1","resource":"configmaps"}';
  const request = `{"uid":${uid},${kind},${resource},"operation":"CREATE","object":${object}}`;
  return `{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/${version}","request":${request}}`;
}
const read = (text: string, isComplete = true) => readReview({ bytes: Buffer.from(text), isComplete });
const FORGED = '{"uid":"forged","request":{"uid":"forged"},"kind":"Pod","apiVersion":"forged/v1"}';

const DEEP = `${'['.repeat(10_101)}${']'.repeat(10_101)}`;
const REVIEW = '"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1"';

test.each<[string, string, boolean, string]>([
  ['larger than the limit', reviewOf(`{"a":${FORGED},"b":"<<<<<`), false, 'is larger than 20 MiB'],
  ['too deep', reviewOf(`{"uid":"forged","a":${DEEP}}`), true, 'is nested more than 10,000 levels deep'],
  ['with too many keys', reviewOf(`{"a":[${'{},'.repeat(600_000)}{}]}`), true, 'more than a million values'],
  [
    'whose old object has too many values',
    reviewOf(`{},"oldObject":{"a":[${'0,'.repeat(1_000_001)}0]}`),
    true,
    'more than a million values',
  ],
  [
    'with more objects than the API server sends',
    reviewOf(`{}${Array.from({ length: 5 }, (_, n) => `,"a${n}":[${'0,'.repeat(700_000)}0]`).join('')}`),
    true,
    'more than a million values',
  ],
  ['that is not JSON', `${reviewOf(FORGED)}x`, true, 'the body is not JSON'],
  ['with another object than expected', reviewOf(`[${FORGED}]`), true, 'request.object: not an object'],
  ['without its object', reviewOf('null'), true, 'request.object: absent on CREATE'],
])('a review %s is refused under its own uid', (_what, text, isComplete, problem) => {
  expect(read(text, isComplete)).toMatchObject({
    kind: 'unreadable',
    uid: 'the-uid',
    problem: expect.stringContaining(problem) as string,
  });
});

test('an object that a creation may store can be updated', () => {
  const object = `{"a":[${'0,'.repeat(900_000)}0]}`;
  expect(read(reviewOf(object)).kind).toBe('review');
  expect(read(reviewOf(`${object},"oldObject":${object}`)).kind).toBe('review');
});

test('a string with a million commas is one value', () => {
  expect(read(reviewOf(`{"data":{"a":"${','.repeat(1_100_000)}"}}`)).kind).toBe('review');
});

test('two objects at the size limit of etcd, full of escaped characters, are read', () => {
  const data = String.raw`\u003c`.repeat(1.5 * 1024 * 1024);
  const objects = `{"data":"${data}"},"oldObject":{"data":"${data}"}`;
  const text = reviewOf(objects);
  expect(text.length).toBeGreaterThan(18 * 1024 * 1024);
  expect(text.length).toBeLessThan(MAX_REVIEW_BYTES);
  expect(read(text).kind).toBe('review');
});

test.each([
  ['no JSON', 'x'],
  ['another kind', '{"kind":"Pod","apiVersion":"v1"'],
  ['another version', reviewOf('{', { version: 'v1beta1' })],
  ['no uid', reviewOf('{"uid":"forged"', { uid: '""' })],
  ['a uid that is not a string', reviewOf('{"uid":"forged"', { uid: '{"uid":"forged"}' })],
  ['a uid in a list', `{${REVIEW},"request":[{"uid":"forged"}`],
  ['a uid of the root', `{${REVIEW},"uid":"forged"`],
])('%s cannot be answered, because the API server has not sent it', (_what, text) => {
  expect(() => read(text)).toThrow();
});

test.each([
  `{"request":{"uid":"the-uid","object":${FORGED},"uid2":1},${REVIEW}`,
  `{${REVIEW},"request":{"object":${FORGED},"userInfo":{"uid":"forged"},"uid":"the-uid"`,
])('the uid is found before and after the other members of the review: %s', (text) => {
  expect(findUid(text, 'AdmissionReview')).toBe('the-uid');
});

test('a refusal has the uid of the review, and says what to do', () => {
  const problem = 'the review is larger than 20 MiB: make the object smaller';
  const message = `Gatehouse cannot check this request: ${problem}`;
  expect(toRefusal('a', problem)).toMatchObject({
    kind: 'AdmissionReview',
    response: { uid: 'a', allowed: false, status: { code: 403, reason: 'Forbidden', message } },
  });
});
