import { beforeEach, describe, expect, test } from 'vitest';

import type { AdmissionPolicy, AdmissionPolicyStatus } from '../../api/admission-policy.ts';
import type { Condition } from '../../json/kube-object.ts';
import {
  compiled,
  containing,
  createCluster,
  NEVER,
  standing,
  untilDone,
  type Cluster,
  type Objects,
} from '../../../test/support/runtime/fixtures.ts';
import type { PolicyState } from './policy-registry.ts';
import { ADMISSION_POLICIES } from '../resources.ts';
import type { ReadsVerdict } from './read-records.ts';
import { createPolicyStatusReconciler } from './policy-status.ts';

let cluster: Cluster;
let policies: Objects<AdmissionPolicy>;
let state: PolicyState | undefined;
let installed: boolean | undefined;
let refusal: string | undefined;
let violations: AdmissionPolicyStatus['violations'];
let now: string;
let record: string | undefined;
let deletions: string;
let missing: string;
let verdict: ReadsVerdict;

const version = (generation: number) => compiled({}, { name: 'servers', generation });
const problem = { reason: 'InvalidPath', message: 'spec.defaults[0].path: x' };

beforeEach(() => {
  cluster = createCluster();
  policies = cluster.objects(ADMISSION_POLICIES);
  policies.add({ metadata: { name: 'servers', generation: 1 }, spec: version(1).spec });
  state = { inForce: version(1), problem: undefined, generation: 1 };
  installed = true;
  refusal = undefined;
  violations = undefined;
  record = undefined;
  deletions = '';
  missing = '';
  verdict = 'reviewed';
  now = '2026-11-21T12:00:00Z';
});

const reconciler = (read: (name: string) => AdmissionPolicy | undefined = policies.read) =>
  createPolicyStatusReconciler(
    cluster.client,
    { get: read },
    { get: () => state, inForce: () => [] },
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
const edited = (generation: number): void => {
  policies.patch('servers', { metadata: { generation } });
};
/** A user writes generation 2, and this replica compiles it. */
const compiledNext = (next = version(2), change: Partial<PolicyState> = {}): void => {
  edited(2);
  state = { inForce: next, problem: undefined, generation: 2, ...change };
};
const reconcileWith = async (change: Partial<PolicyState>) => {
  state = { inForce: version(1), problem: undefined, generation: 1, ...change };
  await reconcile();
};

const pods = (resources: readonly string[]) =>
  compiled({
    match: { apiGroups: [''], resources },
    validate: { rules: [{ name: 'named', expression: 'object.spec.containers.size() < 3' }] },
  });

test.each<[string, string, () => void, () => void, object]>([
  [
    'a subresource bypasses the policy',
    'SubresourcesCovered',
    () => (state = { inForce: pods(['pods']), problem: undefined, generation: 1 }),
    () => (state = { inForce: pods(['pods/*']), problem: undefined, generation: 1 }),
    { message: containing('add pods/ephemeralcontainers to match.resources') },
  ],
  [
    'one of its kinds is not served',
    'KindsServed',
    () => (state = { inForce: version(1), problem: undefined, generation: 1, unserved: 'no racks' }),
    () => (state = { inForce: version(1), problem: undefined, generation: 1 }),
    { reason: 'NotServed', message: containing('no racks') },
  ],
  [
    'it is older than the review of reads',
    'ReadsReviewed',
    () => (verdict = 'earlier'),
    () => (verdict = 'reviewed'),
    { reason: 'WrittenEarlier', observedGeneration: 1 },
  ],
  [
    'work after deletions waits',
    'DeletionsFinished',
    () => (deletions = 'datacenters "fra1" was deleted, and objects still name it'),
    () => (deletions = ''),
    { message: 'datacenters "fra1" was deleted, and objects still name it' },
  ],
  [
    'permissions for that work are missing',
    'ActionsPermitted',
    () => (missing = 'the leader may not delete servers'),
    () => (missing = ''),
    { message: 'the leader may not delete servers' },
  ],
])('while %s, a condition says so, and the policy is Ready', async (_what, type, begin, end, expected) => {
  begin();
  await reconcile();
  expect(condition(type)).toMatchObject({ status: 'False', ...expected });
  expect(condition('Ready')).toMatchObject({ status: 'True' });
  await reconcile();
  expect(policies.writes()).toBe(1);
  end();
  await reconcile();
  expect(condition(type)).toBeUndefined();
});

test('a policy whose only kind is not served is in force, and not Ready', async () => {
  await reconcileWith({
    problem: { reason: 'UnknownKind', message: 'the API server serves no racks' },
  });
  expect(condition('Ready')).toMatchObject({ status: 'False', reason: 'UnknownKind' });
  expect(status()?.inForce).toMatchObject({ generation: 1 });
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

test.each<[string, () => void]>([
  [
    'is deleted',
    () => {
      policies.remove('servers');
    },
  ],
  ['has not been compiled', () => (state = undefined)],
  [
    'has changed since it was compiled',
    () => {
      edited(2);
    },
  ],
])('nothing is written for a policy that %s', async (_what, change) => {
  change();
  expect(await reconcile()).toEqual({ kind: 'await-change' });
  expect(policies.writes()).toBe(0);
});

describe('the conditions Ready, Reconciling and Stalled', () => {
  const judged = () => `${status()?.observedGeneration ?? ''} ${standing(policies.read('servers'))}`;

  test('are those of the generation in status.observedGeneration', async () => {
    await reconcile();
    expect(judged()).toBe('1 Ready');
    compiledNext();
    expect(judged()).toBe('1 Ready');
    await reconcile();
    expect(judged()).toBe('2 Ready');
  });

  test.each([
    ['InvalidPath', 'Stalled'],
    ['Forbidden', 'Reconciling'],
    ['DiscoveryFailed', 'Reconciling'],
  ])('with the problem %s are %s, also while an older version stays in force', async (reason, expected) => {
    await reconcileWith({ problem: { ...problem, reason } });
    expect(judged()).toBe(`1 ${expected}`);
    await reconcileWith({});
    expect(judged()).toBe('1 Ready');
  });

  test('are Reconciling until the webhooks are installed', async () => {
    installed = false;
    await reconcile();
    expect(judged()).toBe('1 Reconciling');
  });
});

describe('a version that cannot be enforced', () => {
  test('is not Ready, and the message names the problem and the version that stays', async () => {
    await reconcile();
    compiledNext(version(1), { problem });
    await reconcile();
    const ready = { status: 'False', reason: 'InvalidPath', observedGeneration: 2 };
    expect(condition('Ready')).toMatchObject(ready);
    expect(condition('Ready')?.message).toContain('spec.defaults[0].path: x');
    expect(condition('Ready')?.message).toContain('generation 1 stays in force');
    expect(condition('WebhooksInstalled')?.status).toBe('True');
    expect(status()?.inForce?.generation).toBe(1);
  });

  test('says so when nothing is enforced', async () => {
    await reconcileWith({ inForce: undefined, problem });
    expect(condition('Ready')?.message).toContain('nothing is enforced');
    expect(condition('WebhooksInstalled')?.status).toBe('False');
    expect(status()).not.toHaveProperty('inForce');
  });

  test('keeps status.inForce, even while that version cannot be enforced either', async () => {
    await reconcile();
    await reconcileWith({ inForce: undefined, problem });
    expect(status()?.inForce?.generation).toBe(1);
    await reconcile();
    expect(policies.writes()).toBe(2);
  });
});

describe('until the configurations carry the webhooks of a version', () => {
  test('it is neither Ready nor installed, the API server says why, and it does not become status.inForce', async () => {
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

  test('status.inForce is the version before, which a restarted replica needs', async () => {
    await reconcile();
    compiledNext();
    installed = false;
    await reconcile();
    expect(condition('Ready')?.message).toContain('generation 1 stays in force');
    expect(condition('WebhooksInstalled')?.status).toBe('False');
    expect(status()?.inForce?.generation).toBe(1);
  });
});

test('a new leader that has not read the configurations yet changes nothing', async () => {
  await reconcile();
  installed = undefined;
  await reconcile();
  expect(condition('Ready')?.status).toBe('True');
  expect(policies.writes()).toBe(1);
});

test('lastTransitionTime changes only with the status', async () => {
  await reconcile();
  now = '2026-11-21T13:00:00Z';
  compiledNext();
  await reconcile();
  const lastTransitionTime = '2026-11-21T12:00:00Z';
  expect(condition('Ready')).toMatchObject({ message: 'generation 2 is enforced', lastTransitionTime });
  expect(condition('WebhooksInstalled')).toMatchObject({ lastTransitionTime });
});

test('status.inForce does not keep rules that a new version dropped', async () => {
  await reconcile();
  const slim = compiled({ validate: {} }, { name: 'servers', generation: 2 });
  compiledNext(slim);
  await reconcile();
  expect(status()?.inForce).toEqual({ generation: 2, spec: slim.spec });
});

test('a write that meets a conflict fails, and is retried with the current object', async () => {
  const stale = policies.read('servers');
  edited(1);
  await expect(reconciler(() => stale)('servers', NEVER)).rejects.toMatchObject({ code: 409 });
  await reconcile();
  expect(condition('Ready')?.status).toBe('True');
});

test.each([
  ['before', 2],
  ['after', 1],
] as const)('killed %s its write it converges', async (when, writes) => {
  policies.interrupt(when);
  await untilDone(reconciler(), 'servers');
  expect(condition('Ready')?.status).toBe('True');
  expect(policies.writes()).toBe(writes);
});

describe('the result of the audit', () => {
  const found = { total: 3, objects: 2, checked: 10, checkedAt: '2026-11-21T12:00:00Z', generation: 1 };

  test.each<[string, Partial<PolicyState>, boolean]>([
    ['stays when a new leader has not audited yet', {}, true],
    ['stays while nothing is in force', { inForce: undefined, problem }, true],
    ['leaves the status when the policy has audit: false', { inForce: compiled({ audit: false }) }, false],
    [
      'leaves the status when the policy has none of its checks',
      { inForce: compiled({ validate: { immutable: ['spec.datacenter'] } }) },
      false,
    ],
  ])('%s', async (_what, change, stays) => {
    violations = found;
    await reconcile();
    expect(status()?.violations).toEqual(found);
    if (stays) violations = undefined;
    await reconcileWith(change);
    expect(status()?.conditions).toBeDefined();
    expect(status()?.violations).toEqual(stays ? found : undefined);
  });
});

test.each([true, false])(
  'status.inForce keeps a version that cannot be evaluated, without a new record (installed: %s)',
  async (isInstalled) => {
    record = 'mac';
    verdict = 'unreviewed';
    installed = isInstalled;
    const last = { generation: 1, spec: version(1).spec, record: 'lost' };
    policies.patch('servers', { status: { inForce: last } });
    await reconcileWith({
      inForce: { ...version(1), undecidable: { message: 'x', isTemporary: false } },
      problem,
    });
    expect(status()?.inForce).toEqual(last);
  },
);
