import { expect, test } from 'vitest';

import type { JsonObject } from '../../json/json.ts';
import { verdictOf } from './admission-review.ts';
import { attributes, configMap, CONFIG_MAPS } from '../../../test/support/sandbox/webhooks.ts';

const question = {
  uid: 'u',
  version: 'v1',
  attributes: attributes(),
  seen: CONFIG_MAPS,
  object: configMap(),
  oldObject: undefined,
} as const;

const answer = (response: JsonObject, review: JsonObject = {}): JsonObject => ({
  apiVersion: 'admission.k8s.io/v1',
  kind: 'AdmissionReview',
  response: { uid: 'u', allowed: true, ...response },
  ...review,
});

const PATCH = Buffer.from('[]').toString('base64');
const EXPECTED = 'expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got ';

test.each([
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
