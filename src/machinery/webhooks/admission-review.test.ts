import { expect, test } from 'vitest';

import type { JsonObject } from '../../json/json.ts';
import { admissionReview, refusalOf, verdictOf } from './admission-review.ts';
import { attributes, configMap, CONFIG_MAPS, patch } from '../../../test/support/sandbox/webhooks.ts';

const question = {
  uid: 'u',
  version: 'v1',
  attributes: attributes(),
  seen: CONFIG_MAPS,
  object: configMap(),
  oldObject: undefined,
} as const;

test('a review shows the request as the API server does', () => {
  const kind = { group: '', version: 'v1', kind: 'ConfigMap' };
  const resource = { group: '', version: 'v1', resource: 'configmaps' };
  expect(admissionReview(question)).toEqual({
    kind: 'AdmissionReview',
    apiVersion: 'admission.k8s.io/v1',
    request: {
      uid: 'u',
      kind,
      resource,
      requestKind: kind,
      requestResource: resource,
      name: 'a',
      namespace: 'shop',
      operation: 'CREATE',
      userInfo: { username: 'alice', groups: ['system:authenticated'] },
      object: configMap(),
      oldObject: null,
      dryRun: false,
      options: { kind: 'CreateOptions', apiVersion: 'meta.k8s.io/v1' },
    },
  });
});

test('empty fields are left out of a review, and a subresource appears twice', () => {
  const asked = attributes({ name: '', namespace: '', subresource: 'status', operation: 'UPDATE' });
  const { request } = admissionReview({ ...question, attributes: asked });
  expect(request).toMatchObject({ subResource: 'status', requestSubResource: 'status' });
  expect(request).not.toHaveProperty('name');
  expect(request).not.toHaveProperty('namespace');
});

const answer = (response: JsonObject, review: JsonObject = {}): JsonObject => ({
  apiVersion: 'admission.k8s.io/v1',
  kind: 'AdmissionReview',
  response: { uid: 'u', allowed: true, ...response },
  ...review,
});

test('all fields of an answer are read', () => {
  const said = { warnings: ['w'], auditAnnotations: { a: 'b' }, status: { message: 'm' } };
  expect(verdictOf(answer({ ...patch({ op: 'test' }), ...said }), question, true)).toEqual({
    allowed: true,
    patch: '[{"op":"test"}]',
    patchType: 'JSONPatch',
    warnings: ['w'],
    auditAnnotations: [['a', 'b']],
    status: { message: 'm' },
  });
});

test('allowed is true only if the answer says so explicitly', () => {
  expect(verdictOf(answer({ allowed: 'true' }), question, true).allowed).toBe(false);
});

const PATCH = Buffer.from('[]').toString('base64');
const EXPECTED = 'expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got ';

test.each([
  ['no response', true, {}, 'webhook response was absent'],
  ['another uid', true, answer({ uid: 'x' }), 'expected response.uid="u", got "x"'],
  [
    'another version',
    true,
    answer({}, { apiVersion: 'admission.k8s.io/v1beta1' }),
    `${EXPECTED}admission.k8s.io/v1beta1, Kind=AdmissionReview`,
  ],
  ['another kind', true, answer({}, { apiVersion: 'v1', kind: 'Pod' }), `${EXPECTED}/v1, Kind=Pod`],
  [
    'an empty type',
    true,
    answer({ patch: PATCH, patchType: '' }),
    'webhook returned invalid response.patchType of ""',
  ],
  [
    'a forbidden patch type',
    false,
    answer({ patchType: 'JSONPatch' }),
    'validating webhook may not return response.patchType',
  ],
] as const)('an answer with %s is invalid', (_what, mutating, given, message) => {
  expect(() => verdictOf(given, question, mutating)).toThrow(new Error(message));
});

test('a v1beta1 answer needs neither uid nor version, and its patch is a JSON Patch', () => {
  const old = { ...question, version: 'v1beta1' } as const;
  const given = answer({ uid: 'x', patch: PATCH }, { apiVersion: 'v1' });
  expect(verdictOf(given, old, true)).toMatchObject({ allowed: true, patch: '[]', patchType: 'JSONPatch' });
  expect(verdictOf(given, old, false)).toMatchObject({ allowed: true, patch: '' });
});

const DENIED = 'admission webhook "h" denied the request';

test.each([
  ['nothing', undefined, { code: 400, message: `${DENIED} without explanation` }],
  ['a reason alone', { reason: 'Because' }, { code: 400, reason: 'Because', message: `${DENIED}: Because` }],
  ['its own code', { code: 418, message: 'no' }, { code: 418, message: `${DENIED}: no` }],
  [
    'details',
    { details: { name: 'a', retryAfterSeconds: 7 } },
    { details: { name: 'a', retryAfterSeconds: 7 } },
  ],
])('a refusal with %s passes it on', (_what, status, shown) => {
  const refusal = refusalOf('h', status);
  expect(refusal.status).toMatchObject({ status: 'Failure', ...shown });
  expect('reason' in refusal.status).toBe('reason' in shown);
});
