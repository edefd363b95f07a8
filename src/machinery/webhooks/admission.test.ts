import { expect, test } from 'vitest';

import { typeOf, TYPES } from '../../../test/support/sandbox/built-in-objects.ts';
import type { JsonObject, JsonValue } from '../../json/json.ts';
import { ofJson } from '../api-object.ts';
import { createRegistry } from '../registry.ts';
import { createStorage } from '../storage/storage.ts';
import { placeOf } from '../storage/stored.ts';
import { createAdmission } from './admission.ts';

type Answer = () => JsonObject | Error | { readonly raw: JsonValue };

const ATTRIBUTES = {
  operation: 'CREATE',
  type: typeOf('v1 ConfigMap'),
  subresource: '',
  namespace: 'shop',
  name: 'a',
  object: ofJson({
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { name: 'a', namespace: 'shop' },
    data: {},
  }),
  user: { username: 'alice', groups: ['system:authenticated'] },
  dryRun: false,
  options: { kind: 'CreateOptions', apiVersion: 'meta.k8s.io/v1' },
} as const;

const at = (path: string, changes: JsonObject = {}): JsonObject => ({
  name: `${path}.example.com`,
  clientConfig: { url: `https://localhost/${path}` },
  rules: [{ operations: ['*'], apiGroups: [''], apiVersions: ['v1'], resources: ['configmaps'], scope: '*' }],
  failurePolicy: 'Fail',
  matchPolicy: 'Equivalent',
  sideEffects: 'None',
  timeoutSeconds: 10,
  admissionReviewVersions: ['v1'],
  ...changes,
});

/** A creation with these webhooks. Each gives the answer for its path. */
async function created(
  kind: 'Mutating' | 'Validating',
  webhooks: readonly JsonObject[],
  answers: Readonly<Record<string, Answer>>,
) {
  const storage = createStorage();
  const store = (apiVersion: string, of: string, metadata: JsonObject, more: JsonObject = {}) =>
    storage.create(
      placeOf(typeOf(`${apiVersion} ${of}`)),
      ofJson({ apiVersion, kind: of, metadata, ...more }),
    );
  store('v1', 'Namespace', { name: 'shop' });
  store('admissionregistration.k8s.io/v1', `${kind}WebhookConfiguration`, { name: 'hooks' }, { webhooks });
  const asked: string[] = [];
  const annotations: Record<string, string> = {};
  const admission = createAdmission({
    storage,
    registry: createRegistry(TYPES, storage),
    convert: (objects) => Promise.resolve(objects),
    newUid: () => 'uid-1',
    call: ({ url = '' }, { apiVersion = '', kind: review = '' }) => {
      const path = new URL(url).pathname.slice(1);
      asked.push(path);
      const answer = answers[path]?.() ?? new Error('no answer is defined for this webhook');
      if (answer instanceof Error) return Promise.reject(answer);
      if ('raw' in answer) return Promise.resolve(answer.raw ?? null);
      return Promise.resolve({ apiVersion, kind: review, response: { uid: 'uid-1', ...answer } });
    },
  });
  const annotate = (key: string, value: string) => void (annotations[key] = value);
  const notes = { warn: () => undefined, annotate };
  if (kind === 'Validating') await admission.validate(ATTRIBUTES, notes);
  const object = kind === 'Mutating' ? await admission.mutate(ATTRIBUTES, (one) => one, notes) : undefined;
  return { object, asked, annotations };
}

const allowed: Answer = () => ({ allowed: true });

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
  await expect(created('Validating', [at('hook')], { hook: answer })).rejects.toMatchObject({
    status: {
      code: 500,
      reason: 'InternalError',
      message: `Internal error occurred: failed calling webhook "hook.example.com": ${message}`,
    },
  });
});

test.each(FAILURES)('a webhook that %s may be ignored, with an audit annotation', async (_what, answer) => {
  const webhooks = [at('other'), at('hook', { failurePolicy: 'Ignore' })];
  const { annotations } = await created('Validating', webhooks, { hook: answer, other: allowed });
  expect(annotations).toEqual({
    'failed-open.validating.webhook.admission.k8s.io/round_0_index_1': 'hook.example.com',
  });
});

test('there are at most two rounds, which the audit log distinguishes', async () => {
  let count = 0;
  const restless: Answer = () => {
    const operations = [{ op: 'add', path: '/data/count', value: String(++count) }];
    const patch = Buffer.from(JSON.stringify(operations)).toString('base64');
    return { allowed: true, patchType: 'JSONPatch', patch };
  };
  const webhooks = ['one', 'two'].map((path) => at(path, { reinvocationPolicy: 'IfNeeded' }));
  const { object, annotations } = await created('Mutating', webhooks, { one: restless, two: restless });
  expect(object).toMatchObject({ data: { count: '3' } });
  expect(Object.keys(annotations)).toEqual([
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
    const webhooks = [at('hook', { matchConditions, failurePolicy })];
    expect((await created('Validating', webhooks, { hook: allowed })).asked).toEqual([]);
  },
);
