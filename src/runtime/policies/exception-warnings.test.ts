import { expect, test } from 'vitest';

import { containing } from '../../../test/support/runtime/fixtures.ts';
import { requestOf } from '../../../test/support/admission/handler.ts';
import type { JsonObject } from '../../json/json.ts';
import { createExceptionWarnings } from './policy-exceptions.ts';

const NOW = new Date('2026-11-26T12:00:00Z');
const registry = {
  get: (name: string) =>
    name === 'missing'
      ? undefined
      : {
          inForce: { spec: { match: {}, ...(name === 'open' ? { policyExceptions: 'Accept' } : {}) } },
          ...{ problem: undefined, generation: 1 },
        },
};
// Only the spec of a policy is read.
const warn = createExceptionWarnings(registry as never, () => NOW);

const exception = (policy: string, change: object = {}): JsonObject => ({
  apiVersion: 'gatehouse.dev/v1alpha1',
  kind: 'PolicyException',
  metadata: { name: 'drill', namespace: 'shop' },
  spec: {
    policy,
    objects: { names: ['web-1'] },
    reason: 'a drill',
    expiresAt: '2026-12-01T00:00:00Z',
    ...change,
  },
});
const creation = (object: JsonObject) => requestOf({ operation: 'CREATE', object });

test.each([
  [
    'of a missing policy',
    exception('missing'),
    'not in force: spec.policy: no AdmissionPolicy "missing" is in force',
  ],
  ['that its policy refuses', exception('closed'), 'not in force: spec.policy: "closed" accepts none'],
  [
    'that has expired',
    exception('open', { expiresAt: '2026-01-01T00:00:00Z' }),
    'not in force: it expired at',
  ],
  ['of an unknown check', exception('open', { checks: ['x'] }), 'not in force: spec.checks: '],
])('an exception %s is stored with a warning', (_what, object, warning) => {
  expect(warn(creation(object))).toMatchObject({
    kind: 'allow',
    warnings: [containing(warning)],
  });
});

test('an exception in force, and a change of its labels, get no warning', () => {
  expect(warn(creation(exception('open')))).toMatchObject({ kind: 'allow', warnings: [] });
  const stored = exception('missing');
  const labelled = { ...stored, metadata: { name: 'drill', namespace: 'shop', labels: { a: 'b' } } };
  const change = requestOf({ operation: 'UPDATE', object: labelled, oldObject: stored });
  expect(warn(change)).toMatchObject({ kind: 'allow', warnings: [] });
});
