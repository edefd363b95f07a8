import { beforeEach, expect, test } from 'vitest';

import type {
  AdmissionPolicy,
  AdmissionPolicySpec,
  AdmissionPolicyStatus,
} from '../../api/admission-policy.ts';
import type { CompiledPolicy } from '../../admission/policy/compiled-policy.ts';
import type { Condition } from '../../json/kube-object.ts';
import { compiled, containing, createCluster, NEVER } from '../../../test/support/runtime/fixtures.ts';
import { createListedContext } from '../../../test/support/runtime/listed-rest.ts';
import type { PolicyState } from './policy-registry.ts';
import { ADMISSION_POLICIES } from '../resources.ts';
import type { ReadsVerdict } from './read-records.ts';
import { createPolicyStatusReconciler, startPolicyStatus } from './policy-status.ts';

const { client, objects, reset } = createCluster();
const policies = objects<AdmissionPolicy>(ADMISSION_POLICIES);
let state: PolicyState | undefined;
let installed: boolean | undefined;
let refusal: string | undefined;
let violations: AdmissionPolicyStatus['violations'];
let now: string;
let record: string | undefined;
let deletions: string;
let missing: string;
let verdict: ReadsVerdict;
let others: readonly CompiledPolicy[];

const version = (generation: number) => compiled({}, { name: 'servers', generation });
const first: PolicyState = { inForce: version(1), problem: undefined, generation: 1 };
const problem = { reason: 'InvalidPath', message: 'spec.defaults[0].path: x' };

beforeEach(() => {
  reset();
  policies.add({ metadata: { name: 'servers', generation: 1 }, spec: version(1).spec });
  state = first;
  installed = true;
  refusal = undefined;
  violations = undefined;
  record = undefined;
  deletions = '';
  missing = '';
  verdict = 'reviewed';
  others = [];
  now = '2026-11-21T12:00:00Z';
});

const reconciler = (read: (name: string) => AdmissionPolicy | undefined = policies.read) =>
  createPolicyStatusReconciler(
    client,
    { get: read },
    { get: () => state, inForce: () => others },
    { recordOf: () => record, verdict: () => verdict },
    {
      isInstalled: () => installed,
      refusal: () => refusal,
      violations: () => violations,
      deletions: { progress: () => deletions, missing: () => missing },
    },
    () => new Date(now),
  );
const reconcile = () => reconciler()('servers', NEVER);

const status = () => policies.read('servers')?.status;
const condition = (type: string): Condition | undefined =>
  status()?.conditions?.find((candidate) => candidate.type === type);

/** A user writes this generation. */
const edited = (generation: number) => {
  policies.patch('servers', { metadata: { generation } });
  return generation;
};
/** A user writes generation 2, and this replica compiles it. */
const compiledNext = (next = version(2), change: Partial<PolicyState> = {}): void => {
  edited(2);
  state = { inForce: next, problem: undefined, generation: 2, ...change };
};
const inForceAs = (change: Partial<PolicyState>) => (state = { ...first, ...change });
const reconcileWith = async (change: Partial<PolicyState>) => {
  inForceAs(change);
  await reconcile();
};

const hosts = (operations: NonNullable<AdmissionPolicySpec['match']['operations']>) => {
  const defaults = [{ path: 'spec.hostname', value: 'a' }];
  return inForceAs({
    inForce: compiled({ match: { apiGroups: [''], resources: ['pods'], operations }, defaults }),
  });
};
const pods = (...resources: readonly string[]) => {
  const validate = { rules: [{ name: 'named', expression: 'object.spec.containers.size() < 3' }] };
  return inForceAs({ inForce: compiled({ match: { apiGroups: [''], resources }, validate }) });
};

const writing = (value: string, name: string) =>
  compiled({ defaults: [{ path: 'spec.tier', value }] }, { name, generation: 1 });
const conflicting = (value: string) => {
  others = [writing(value, 'y')];
  return inForceAs({ inForce: writing('x', 'servers') });
};

test.each<[string, () => unknown, () => unknown, string]>([
  ['SubresourcesCovered', () => pods('pods'), () => pods('pods/*'), 'add pods/ephemeralcontainers to match'],
  [
    'AppliedToUpdates',
    () => hosts(['CREATE', 'UPDATE']),
    () => hosts(['CREATE']),
    'does not apply to updates of pods',
  ],
  ['ConflictFree', () => conflicting('y'), () => conflicting('x'), 'also written by AdmissionPolicy y'],
  ['KindsServed', () => inForceAs({ unserved: 'no racks' }), () => inForceAs({}), 'no racks'],
  ['ReadsReviewed', () => (verdict = 'earlier'), () => (verdict = 'reviewed'), 'older than the review'],
  ['DeletionsFinished', () => (deletions = 'fra1 was deleted'), () => (deletions = ''), 'fra1 was deleted'],
  ['ActionsPermitted', () => (missing = 'cannot delete'), () => (missing = ''), 'cannot delete'],
])('the condition %s says what is wrong, and the policy is Ready', async (type, begin, end, message) => {
  begin();
  await reconcile();
  const expected = { status: 'False', observedGeneration: 1, message: containing(message) };
  expect(condition(type)).toMatchObject(expected);
  expect(condition('Ready')).toMatchObject({ status: 'True' });
  await reconcile();
  expect(policies.writes()).toBe(1);
  end();
  await reconcile();
  expect(condition(type)).toBeUndefined();
});

test('a new policy notes its conflict in the older policy, whose own pass was earlier', async () => {
  policies.add({ metadata: { name: 'y', generation: 1 }, spec: version(1).spec });
  const inForce = new Map([['servers', writing('x', 'servers')]]);
  const tells: ((name: string) => void)[] = [];
  const { context, signal } = createListedContext({ client });
  const nothing = () => undefined;
  const stored = ['servers', 'y'].flatMap((name) => policies.read(name) ?? []);
  const sources = {
    registry: {
      get: (name: string) => inForce.has(name) && { ...first, inForce: inForce.get(name) },
      inForce: () => [...inForce.values()],
      isInstalled: () => true,
      subscribe: (tell: (name: string) => void) => void tells.push(tell),
    },
    policies: { store: { get: policies.read, list: () => stored }, onChange: nothing },
    records: { recordOf: nothing, verdict: () => 'reviewed', onChange: nothing },
    webhooks: { onChange: nothing },
  };
  const facts = {
    refusal: nothing,
    violations: nothing,
    deletions: { progress: () => '', missing: () => '' },
  };
  startPolicyStatus(context, sources as never, facts, signal);
  await expect.poll(() => condition('Ready')).toMatchObject({ status: 'True' });
  expect(condition('ConflictFree')).toBeUndefined();
  inForce.set('y', writing('y', 'y'));
  for (const tell of tells) tell('y');
  const noted = containing('also written by AdmissionPolicy y');
  await expect.poll(() => condition('ConflictFree'), { timeout: 5_000 }).toMatchObject({ message: noted });
});

test('a condition about hundreds of changes is not longer than the API server stores', async () => {
  const defaults = Array.from({ length: 256 }, (_, index) => ({ path: `spec.x${index}`, value: 'a' }));
  inForceAs({ inForce: compiled({ match: { apiGroups: [''], resources: ['pods'] }, defaults }) });
  await reconcile();
  expect(condition('AppliedToUpdates')?.message).toMatch(/^the default of spec\.x0 does not apply.*…$/);
  expect(condition('AppliedToUpdates')?.message.length).toBeLessThanOrEqual(32_768);
});

test('a policy in force is Ready and installed, and status.inForce holds it with the record of its reads', async () => {
  record = 'mac';
  await reconcile();
  expect(condition('Ready')).toMatchObject({ status: 'True', reason: 'InForce', observedGeneration: 1 });
  expect(condition('WebhooksInstalled')).toMatchObject({ status: 'True', reason: 'Installed' });
  expect(status()?.inForce).toEqual({ generation: 1, spec: version(1).spec, record: 'mac' });
  now = '2026-11-21T13:00:00Z';
  await reconcile();
  expect(policies.writes()).toBe(1);
});

test.each<[string, () => unknown]>([
  ['has not been compiled', () => (state = undefined)],
  ['may have other webhooks than this new leader has read', () => (installed = undefined)],
  ['has changed since it was compiled', () => edited(2)],
])('nothing is written for a policy that %s', async (_what, change) => {
  change();
  expect(await reconcile()).toEqual({ kind: 'await-change' });
  expect(policies.writes()).toBe(0);
});

test('a version that cannot be enforced is not Ready: the message names the problem and the version that stays', async () => {
  await reconcileWith({ inForce: undefined, problem });
  expect(condition('Ready')?.message).toContain('nothing is enforced');
  expect(condition('WebhooksInstalled')?.status).toBe('False');
  expect(status()).not.toHaveProperty('inForce');
  compiledNext(version(1), { problem });
  await reconcile();
  const ready = { status: 'False', reason: 'InvalidPath', observedGeneration: 2 };
  expect(condition('Ready')).toMatchObject(ready);
  expect(condition('Ready')?.message).toContain('spec.defaults[0].path: x');
  expect(condition('Ready')?.message).toContain('generation 1 remains in force');
  expect(condition('WebhooksInstalled')?.status).toBe('True');
  expect(status()?.inForce?.generation).toBe(1);
  compiledNext(version(1), { inForce: undefined, problem });
  await reconcile();
  expect(status()?.inForce?.generation).toBe(1); // a restarted replica needs it
});

test('until the configurations carry the webhooks of a version it is neither Ready nor installed, the API server says why, and it does not become status.inForce', async () => {
  installed = false;
  refusal = '422 Invalid: webhooks[3].rules';
  await reconcile();
  for (const type of ['Ready', 'WebhooksInstalled']) {
    expect(condition(type)).toMatchObject({ status: 'False', reason: 'NotInstalled' });
    expect(condition(type)?.message).toContain(refusal);
  }
  expect(condition('Ready')?.message).toContain('nothing is enforced');
  expect(status()).not.toHaveProperty('inForce');
});

test('a write that meets a conflict fails, and is retried with the current object', async () => {
  const stale = policies.read('servers');
  edited(1);
  await expect(reconciler(() => stale)('servers', NEVER)).rejects.toMatchObject({ code: 409 });
  await reconcile();
  expect(condition('Ready')?.status).toBe('True');
});

const found = { total: 3, objects: 2, checked: 10, checkedAt: '2026-11-21T12:00:00Z', generation: 1 };

const immutable = compiled({ validate: { immutable: ['spec.datacenter'] } });

test.each<[string, Partial<PolicyState>, boolean]>([
  ['stays when a new leader has not audited yet', {}, true],
  ['stays while nothing is in force', { inForce: undefined, problem }, true],
  ['leaves the status when the policy has audit: false', { inForce: compiled({ audit: false }) }, false],
  ['leaves the status when the policy has none of its checks', { inForce: immutable }, false],
])('the result of the audit %s', async (_what, change, stays) => {
  violations = found;
  await reconcile();
  expect(status()?.violations).toEqual(found);
  if (stays) violations = undefined;
  await reconcileWith(change);
  expect(status()?.conditions).toBeDefined();
  expect(status()?.violations).toEqual(stays ? found : undefined);
});

test.each([true, false])(
  'status.inForce keeps a version that cannot be evaluated, without a new record (installed: %s)',
  async (isInstalled) => {
    record = 'mac';
    verdict = 'unreviewed';
    installed = isInstalled;
    const last = { generation: 1, spec: version(1).spec, record: 'lost' };
    policies.patch('servers', { status: { inForce: last } });
    const undecidable = { message: 'x', isTemporary: false };
    await reconcileWith({ inForce: { ...version(1), undecidable }, problem });
    expect(status()?.inForce).toEqual(last);
  },
);
