import { beforeEach, expect, test } from 'vitest';

import { compileSpec } from '../../../test/support/admission/policy.ts';
import { containing, createCluster, NEVER, standing } from '../../../test/support/runtime/fixtures.ts';
import type { PolicyException } from '../../api/policy-exception.ts';
import { POLICY_EXCEPTIONS } from '../resources.ts';
import { createExceptionStatusReconciler, createExceptionWarnings } from './policy-exceptions.ts';
import type { PolicyState } from './policy-registry.ts';
import { requestOf } from '../../../test/support/admission/handler.ts';
import type { JsonObject } from '../../json/json.ts';

const KEY = 'shop/legacy';
/** Longer than a timer of Node can wait. */
const EXPIRES = '2027-12-01T00:00:00Z';

const { client, objects, reset } = createCluster();
const exceptions = objects<PolicyException>(POLICY_EXCEPTIONS);
let now: Date;
let refreshed: string[];
let reconcile: () => Promise<unknown>;

beforeEach(() => {
  reset();
  now = new Date('2026-11-21T12:00:00Z');
  refreshed = [];
  exceptions.add({
    metadata: { namespace: 'shop', name: 'legacy', generation: 1 },
    spec: { policy: 'servers', objects: { names: ['db'] }, reason: 'old', expiresAt: EXPIRES },
  });
  const get = (name: string): PolicyState | undefined => {
    const result = compileSpec({ policyExceptions: 'Accept' });
    if (name !== 'servers' || result.kind === 'rejected') return undefined;
    return { inForce: result.policy, problem: undefined, generation: 1 };
  };
  const store = { get: () => exceptions.read(KEY) };
  const clock = () => now;
  const refresh = (policy: string) => refreshed.push(policy);
  const run = createExceptionStatusReconciler(client, store, { get }, clock, refresh);
  reconcile = () => run(KEY, NEVER);
});

const judged = () => {
  const found = exceptions.read(KEY);
  return `${standing(found)} ${found?.status?.conditions?.[0]?.reason ?? ''}`;
};

test('an exception is ready until it expires, however late that is, and then stalled', async () => {
  expect(await reconcile()).toEqual({ kind: 'requeue', at: new Date(EXPIRES) });
  expect(judged()).toBe('Ready InForce');
  now = new Date(EXPIRES);
  expect(await reconcile()).toEqual({ kind: 'await-change' });
  expect(judged()).toBe('Stalled Expired');
});

test('the policy is audited again when an exception begins, ends, changes or is deleted, and not otherwise', async () => {
  const taken = async () => {
    await reconcile();
    return refreshed.splice(0);
  };
  expect(await taken()).toEqual(['servers']);
  expect(await taken()).toEqual([]);
  exceptions.patch(KEY, { metadata: { generation: 2 } });
  expect(await taken()).toEqual(['servers']);
  now = new Date(EXPIRES);
  expect(await taken()).toEqual(['servers']);
  expect(await taken()).toEqual([]);
  exceptions.remove(KEY);
  expect(await taken()).toEqual(['servers']);
});

const NOW = new Date('2026-11-26T12:00:00Z');
const registry = {
  get: (name: string) =>
    name === 'missing'
      ? undefined
      : {
          inForce: { spec: { match: {}, ...(name === 'open' ? { policyExceptions: 'Accept' } : {}) } },
          problem: undefined,
          generation: 1,
        },
};
// Only the spec of a policy is read.
const warn = createExceptionWarnings(registry as never, () => NOW);

const exception = (policy: string): JsonObject => ({
  apiVersion: 'gatehouse.dev/v1alpha1',
  kind: 'PolicyException',
  metadata: { name: 'drill', namespace: 'shop' },
  spec: { policy, objects: { names: ['web-1'] }, reason: 'a drill', expiresAt: '2026-12-01T00:00:00Z' },
});
const creation = (object: JsonObject) => requestOf({ operation: 'CREATE', object });

test.each([
  ['missing', 'AdmissionPolicy "missing" not found or not in force; create it or fix the name'],
  ['closed', 'AdmissionPolicy "closed" does not accept exceptions'],
])('an exception of the %s policy is stored with a warning', (policy, warning) => {
  const warnings = [containing(`not in force: spec.policy: ${warning}`)];
  expect(warn(creation(exception(policy)))).toMatchObject({ kind: 'allow', warnings });
});

test('an exception in force and a change of labels do not cause a warning', () => {
  expect(warn(creation(exception('open')))).toMatchObject({ kind: 'allow', warnings: [] });
  const stored = exception('missing');
  const labelled = { ...stored, metadata: { name: 'drill', namespace: 'shop', labels: { a: 'b' } } };
  const change = requestOf({ operation: 'UPDATE', object: labelled, oldObject: stored });
  expect(warn(change)).toMatchObject({ kind: 'allow', warnings: [] });
});
