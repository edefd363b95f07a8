import { expect, test } from 'vitest';

import type { JsonObject } from '../../json/json.ts';
import { ofJson, type ApiObject } from '../api-object.ts';
import {
  attributes,
  configMap,
  createWebhookAdmission,
  entry,
  patch,
  type Answer,
} from '../../../test/support/sandbox/webhooks.ts';

const allowed: Answer = () => ({ allowed: true });
const echo = (object: ApiObject) => object;
const at = (path: string, changes: JsonObject = {}): JsonObject =>
  entry({ name: `${path}.example.com`, clientConfig: { url: `https://localhost/${path}` }, ...changes });

const label = (name: string): Answer => {
  return ({ object }) => {
    const { labels } = object.metadata as { labels?: JsonObject }; // metadata of an object under test
    const added = { op: 'add', path: `/metadata/labels/${name}`, value: 'yes' };
    return patch(
      ...(labels === undefined ? [{ op: 'add', path: '/metadata/labels', value: {} }] : []),
      added,
    );
  };
};

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

const encoded = (text: string) => Buffer.from(text).toString('base64');

test.each([
  ['is not JSON', 'nonsense'],
  ['is not a list', '{}'],
])('a patch that %s is a failure of the webhook', async (_what, text) => {
  const answer: Answer = () => ({ allowed: true, patchType: 'JSONPatch', patch: encoded(text) });
  const { admission, notes, install } = createWebhookAdmission({ hook: answer });
  install('Mutating', [entry()]);
  await expect(admission.mutate(attributes(), echo, notes)).rejects.toThrow(
    'failed calling webhook "hook.example.com": received undecodable patch in webhook response: ',
  );
});

test('a deletion cannot be patched, but an empty patch is accepted', async () => {
  const rules = [{ operations: ['DELETE'], apiGroups: [''], apiVersions: ['v1'], resources: ['configmaps'] }];
  const { object: oldObject = configMap(), ...rest } = attributes();
  const deletion = { ...rest, operation: 'DELETE', oldObject } as const;
  const harmless = createWebhookAdmission({ hook: () => patch() });
  harmless.install('Mutating', [entry({ rules })]);
  expect(await harmless.admission.mutate(deletion, echo, harmless.notes)).toBeUndefined();

  const court = createWebhookAdmission({ hook: () => patch({ op: 'add', path: '/data', value: {} }) });
  court.install('Mutating', [entry({ rules })]);
  await expect(court.admission.mutate(deletion, echo, court.notes)).rejects.toThrow(
    'admission webhook "hook.example.com" attempted to modify the object, which is not supported for this operation',
  );
});

test('a webhook for another version sees that version, and its patch is converted back', async () => {
  const court = createWebhookAdmission({ hook: label('seen') });
  const rules = [
    {
      operations: ['CREATE'],
      apiGroups: ['infra.example.com'],
      apiVersions: ['v2'],
      resources: ['servers'],
    },
  ];
  court.install('Mutating', [entry({ rules })]);
  const object = ofJson({
    apiVersion: 'infra.example.com/v1',
    kind: 'Server',
    metadata: { name: 'a', namespace: 'shop' },
  });
  const type = court.serversIn('v1');
  const mutated = await court.admission.mutate(attributes({ type, object }), echo, court.notes);
  expect(court.asked[0]?.request).toMatchObject({
    kind: { version: 'v2' },
    resource: { version: 'v2' },
    requestKind: { version: 'v1' },
    requestResource: { version: 'v1' },
    object: { apiVersion: 'infra.example.com/v2' },
  });
  expect(mutated).toMatchObject({
    apiVersion: 'infra.example.com/v1',
    metadata: { labels: { seen: 'yes' } },
  });
});

test('a webhook must not change apiVersion or kind', async () => {
  const court = createWebhookAdmission({
    hook: () => patch({ op: 'replace', path: '/kind', value: 'Secret' }),
  });
  court.install('Mutating', [entry()]);
  await expect(court.admission.mutate(attributes(), echo, court.notes)).rejects.toThrow(
    'may not change apiVersion or kind',
  );
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
