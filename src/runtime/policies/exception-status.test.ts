import { beforeEach, expect, test } from 'vitest';

import { compileSpec } from '../../../test/support/admission/policy.ts';
import { createCluster, NEVER, standing, type Objects } from '../../../test/support/runtime/fixtures.ts';
import type { PolicyException } from '../../api/policy-exception.ts';
import { POLICY_EXCEPTIONS } from '../resources.ts';
import { createExceptionStatusReconciler } from './policy-exceptions.ts';
import type { PolicyState } from './policy-registry.ts';

const KEY = 'shop/legacy';
/** Longer than a timer of Node can wait. */
const EXPIRES = '2027-12-01T00:00:00Z';

let exceptions: Objects<PolicyException>;
let now: Date;
let isAccepted: boolean;
let refreshed: string[];
let reconcile: () => Promise<unknown>;

beforeEach(() => {
  const cluster = createCluster();
  exceptions = cluster.objects(POLICY_EXCEPTIONS);
  now = new Date('2026-11-21T12:00:00Z');
  isAccepted = true;
  refreshed = [];
  exceptions.add({
    metadata: { namespace: 'shop', name: 'legacy', generation: 1 },
    spec: { policy: 'servers', objects: { names: ['db'] }, reason: 'old', expiresAt: EXPIRES },
  });
  const get = (name: string): PolicyState | undefined => {
    const result = compileSpec({ policyExceptions: isAccepted ? 'Accept' : 'Refuse' });
    if (name !== 'servers' || result.kind === 'rejected') return undefined;
    return { inForce: result.policy, problem: undefined, generation: 1 };
  };
  const store = { get: () => exceptions.read(KEY) };
  const run = createExceptionStatusReconciler(
    cluster.client,
    store,
    { get },
    () => now,
    (policy) => refreshed.push(policy),
  );
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

test('a policy that does not accept it stalls it, until the policy does', async () => {
  isAccepted = false;
  await reconcile();
  expect(judged()).toBe('Stalled NotAccepted');
  isAccepted = true;
  await reconcile();
  expect(judged()).toBe('Ready InForce');
});

test('it waits for a policy that does not exist yet', async () => {
  exceptions.patch(KEY, { spec: { policy: 'later' } });
  await reconcile();
  expect(judged()).toBe('Reconciling UnknownPolicy');
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
