import { expect, test } from 'vitest';

import type { JsonObject } from '../../json/json.ts';
import { type ApiObject } from '../api-object.ts';
import {
  attributes,
  createWebhookAdmission,
  entry,
  patch,
  type Answer,
} from '../../../test/support/sandbox/webhooks.ts';

const allowed: Answer = () => ({ allowed: true });
const echo = (object: ApiObject) => object;
const at = (path: string, changes: JsonObject = {}): JsonObject =>
  entry({ name: `${path}.example.com`, clientConfig: { url: `https://localhost/${path}` }, ...changes });

/** Each failure and the message that the client receives. */
const FAILURES: readonly (readonly [string, Answer, string])[] = [
  ['cannot be called', () => new Error('Post "x": EOF'), 'failed to call webhook: Post "x": EOF'],
  ['answers nothing', () => ({ raw: {} }), 'received invalid webhook response: webhook response was absent'],
  [
    'answers for another request',
    () => ({ uid: 'other', allowed: true }),
    'received invalid webhook response: expected response.uid="uid-1", got "other"',
  ],
];

test.each(FAILURES)('a webhook that %s fails the request', async (_what, answer, message) => {
  const { admission, notes, install } = createWebhookAdmission({ hook: answer });
  install('Validating', [entry()]);
  await expect(admission.validate(attributes(), notes)).rejects.toMatchObject({
    status: {
      code: 500,
      reason: 'InternalError',
      message: `Internal error occurred: failed calling webhook "hook.example.com": ${message}`,
    },
  });
});

test.each(FAILURES)('a webhook that %s may be ignored, with an audit annotation', async (_what, answer) => {
  const { admission, notes, install, annotations } = createWebhookAdmission({ hook: answer, other: allowed });
  install('Validating', [at('other'), entry({ failurePolicy: 'Ignore' })]);
  await admission.validate(attributes(), notes);
  expect(annotations).toEqual({
    'failed-open.validating.webhook.admission.k8s.io/round_0_index_1': 'hook.example.com',
  });
});

const IF_NEEDED = { reinvocationPolicy: 'IfNeeded' };

test('there are at most two rounds, which the audit log distinguishes', async () => {
  let count = 0;
  const restless: Answer = () => patch({ op: 'add', path: '/data/count', value: String(++count) });
  const court = createWebhookAdmission({ one: restless, two: restless });
  court.install('Mutating', [at('one', IF_NEEDED), at('two', IF_NEEDED)]);
  const mutated = await court.admission.mutate(attributes(), echo, court.notes);
  expect(mutated).toMatchObject({ data: { count: '3' } });
  expect(Object.keys(court.annotations)).toEqual([
    'mutation.webhook.admission.k8s.io/round_0_index_0',
    'mutation.webhook.admission.k8s.io/round_0_index_1',
    'mutation.webhook.admission.k8s.io/round_1_index_0',
  ]);
});

const condition = (expression: string): JsonObject => ({ name: 'c', expression });

const BROKEN = condition('object.spec.missing == 1');

test.each([
  ['failures are ignored', [BROKEN], 'Ignore'],
  ['another condition is false', [BROKEN, condition('false')], 'Fail'],
])(
  'a matchCondition that fails to evaluate skips the webhook if %s',
  async (_when, matchConditions, failurePolicy) => {
    const { admission, notes, install, asked } = createWebhookAdmission({ hook: allowed });
    install('Validating', [entry({ matchConditions, failurePolicy })]);
    await admission.validate(attributes(), notes);
    expect(asked).toEqual([]);
  },
);
