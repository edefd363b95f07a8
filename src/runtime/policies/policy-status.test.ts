import { beforeEach, describe, expect, test } from 'vitest';

import type {
  AdmissionPolicy,
  AdmissionPolicySpec,
  AdmissionPolicyStatus,
} from '../../api/admission-policy.ts';
import type { Condition } from '../../json/kube-object.ts';
import {
  compiled,
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

function edited(generation: number): void {
  policies.edit('servers', (policy) => ({ ...policy, metadata: { ...policy.metadata, generation } }));
}

test('a policy that a subresource bypasses says so until it covers the subresource', async () => {
  const pods = (resources: readonly string[]) =>
    compiled({
      match: { apiGroups: [''], resources },
      validate: { rules: [{ name: 'named', expression: 'object.spec.containers.size() < 3' }] },
    });
  state = { inForce: pods(['pods']), problem: undefined, generation: 1 };
  await reconcile();
  expect(condition('SubresourcesCovered')).toMatchObject({
    status: 'False',
    message: expect.stringContaining('add pods/ephemeralcontainers to match.resources') as string,
  });
  state = { inForce: pods(['pods/*']), problem: undefined, generation: 1 };
  await reconcile();
  expect(condition('SubresourcesCovered')).toBeUndefined();
});

test('a policy that names a kind that is not served says so until it is, and is Ready for the others', async () => {
  state = {
    inForce: version(1),
    problem: undefined,
    generation: 1,
    unserved: 'the API server serves no racks',
  };
  await reconcile();
  expect(condition('Ready')).toMatchObject({ status: 'True' });
  expect(condition('KindsServed')).toMatchObject({ status: 'False', reason: 'NotServed' });
  state = { inForce: version(1), problem: undefined, generation: 1 };
  await reconcile();
  expect(condition('KindsServed')).toBeUndefined();
});

test('a policy whose only kind is not served is in force, and not Ready', async () => {
  const unknown = { reason: 'UnknownKind', message: 'the API server serves no racks' };
  state = { inForce: version(1), problem: unknown, generation: 1 };
  await reconcile();
  expect(condition('Ready')).toMatchObject({ status: 'False', reason: 'UnknownKind' });
  expect(status()?.inForce).toMatchObject({ generation: 1 });
});

test('a policy in force is Ready and installed, and status.inForce holds it', async () => {
  await reconcile();
  expect(condition('Ready')).toMatchObject({ status: 'True', reason: 'InForce', observedGeneration: 1 });
  expect(condition('WebhooksInstalled')).toMatchObject({ status: 'True', reason: 'Installed' });
  expect(status()?.inForce).toEqual({ generation: 1, spec: version(1).spec });
});

test('running twice writes nothing the second time', async () => {
  await reconcile();
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
  [
    'has not been compiled',
    () => {
      state = undefined;
    },
  ],
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
    edited(2);
    expect(judged()).toBe('1 Ready');
    state = { inForce: version(2), problem: undefined, generation: 2 };
    await reconcile();
    expect(judged()).toBe('2 Ready');
  });

  test.each([
    ['InvalidPath', 'Stalled'],
    ['Forbidden', 'Reconciling'],
    ['DiscoveryFailed', 'Reconciling'],
  ])('with the problem %s are %s, also while an older version stays in force', async (reason, expected) => {
    state = { inForce: version(1), problem: { ...problem, reason }, generation: 1 };
    await reconcile();
    expect(judged()).toBe(`1 ${expected}`);
    state = { inForce: version(1), problem: undefined, generation: 1 };
    await reconcile();
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
    edited(2);
    state = { inForce: version(1), problem, generation: 2 };
    await reconcile();
    expect(condition('Ready')).toMatchObject({
      status: 'False',
      reason: 'InvalidPath',
      observedGeneration: 2,
    });
    expect(condition('Ready')?.message).toContain('spec.defaults[0].path: x');
    expect(condition('Ready')?.message).toContain('generation 1 stays in force');
    expect(condition('WebhooksInstalled')?.status).toBe('True');
    expect(status()?.inForce?.generation).toBe(1);
  });

  test('says so when nothing is enforced', async () => {
    state = { inForce: undefined, problem, generation: 1 };
    await reconcile();
    expect(condition('Ready')?.message).toContain('nothing is enforced');
    expect(condition('WebhooksInstalled')?.status).toBe('False');
    expect(status()).not.toHaveProperty('inForce');
  });

  test('keeps status.inForce, even while that version cannot be enforced either', async () => {
    await reconcile();
    state = { inForce: undefined, problem, generation: 1 };
    await reconcile();
    expect(status()?.inForce?.generation).toBe(1);
    await reconcile();
    expect(policies.writes()).toBe(2);
  });
});

describe('until the configurations carry the webhooks of a version', () => {
  beforeEach(() => {
    installed = false;
  });

  test('it is neither Ready nor installed, and does not become status.inForce', async () => {
    await reconcile();
    expect(condition('Ready')).toMatchObject({ status: 'False', reason: 'NotInstalled' });
    expect(condition('Ready')?.message).toContain('nothing is enforced');
    expect(condition('WebhooksInstalled')).toMatchObject({ status: 'False', reason: 'NotInstalled' });
    expect(status()).not.toHaveProperty('inForce');
  });

  test('the message of the API server says why', async () => {
    refusal = '422 Invalid: webhooks[3].rules';
    await reconcile();
    for (const type of ['Ready', 'WebhooksInstalled']) expect(condition(type)?.message).toContain(refusal);
  });

  test('status.inForce is the version before, which a restarted replica needs', async () => {
    installed = true;
    await reconcile();
    edited(2);
    state = { inForce: version(2), problem: undefined, generation: 2 };
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
  edited(2);
  state = { inForce: version(2), problem: undefined, generation: 2 };
  await reconcile();
  expect(condition('Ready')).toMatchObject({
    message: 'generation 2 is enforced',
    lastTransitionTime: '2026-11-21T12:00:00Z',
  });
  expect(condition('WebhooksInstalled')?.lastTransitionTime).toBe('2026-11-21T12:00:00Z');
});

test('status.inForce does not keep rules that a new version dropped', async () => {
  await reconcile();
  const slim = compiled({ validate: {} }, { name: 'servers', generation: 2 });
  edited(2);
  state = { inForce: slim, problem: undefined, generation: 2 };
  await reconcile();
  expect(status()?.inForce).toEqual({ generation: 2, spec: slim.spec });
});

test('a write that meets a conflict fails, and is retried with the current object', async () => {
  const stale = policies.read('servers');
  edited(1);
  await expect(reconciler(() => stale)('servers', NEVER)).rejects.toMatchObject({
    code: 409,
  });
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

test('the result of the audit is in the status, and stays when a new leader has not audited yet', async () => {
  violations = { total: 3, objects: 2, checked: 10, checkedAt: '2026-11-21T12:00:00Z', generation: 1 };
  await reconcile();
  expect(status()?.violations).toEqual(violations);
  violations = undefined;
  await reconcile();
  expect(status()?.violations).toMatchObject({ total: 3 });
});

test.each<[string, Partial<AdmissionPolicySpec>]>([
  ['audit: false', { audit: false }],
  ['none of its checks', { validate: { immutable: ['spec.datacenter'] } }],
])('the result of the audit leaves the status when the policy has %s', async (_what, spec) => {
  violations = { total: 3, objects: 2, checked: 10, checkedAt: '2026-11-21T12:00:00Z', generation: 1 };
  await reconcile();
  state = { inForce: compiled(spec), problem, generation: 1 };
  await reconcile();
  expect(status()?.conditions).toBeDefined();
  expect(status()).not.toHaveProperty('violations');
});

test('the result of the audit stays while nothing is in force', async () => {
  violations = { total: 3, objects: 2, checked: 10, checkedAt: '2026-11-21T12:00:00Z', generation: 1 };
  await reconcile();
  state = { inForce: undefined, problem, generation: 1 };
  await reconcile();
  expect(status()?.violations).toEqual(violations);
});

test('status.inForce carries the record of the version in force, so that replicas believe it after a restart', async () => {
  record = 'mac';
  await reconcile();
  expect(status()?.inForce?.record).toBe('mac');
});

test.each([true, false])(
  'status.inForce keeps a version that cannot be evaluated, without a new record (installed: %s)',
  async (isInstalled) => {
    record = 'mac';
    verdict = 'unreviewed';
    installed = isInstalled;
    const last = { generation: 1, spec: version(1).spec, record: 'lost' };
    policies.edit('servers', (policy) => ({ ...policy, status: { inForce: last } }));
    const undecidable = { message: 'x', isTemporary: false };
    state = { inForce: { ...version(1), undecidable }, problem, generation: 1 };
    await reconcile();
    expect(status()?.inForce).toEqual(last);
  },
);

test('a policy that is older than the review of reads says so until its next write', async () => {
  verdict = 'earlier';
  await reconcile();
  expect(condition('Ready')?.status).toBe('True');
  expect(condition('ReadsReviewed')).toMatchObject({
    status: 'False',
    reason: 'WrittenEarlier',
    observedGeneration: 1,
  });
  await reconcile();
  expect(policies.writes()).toBe(1);
  verdict = 'reviewed';
  await reconcile();
  expect(condition('ReadsReviewed')).toBeUndefined();
});

test('work after deletions that waits, and missing permissions for it, are conditions until they are over', async () => {
  deletions = 'datacenters "fra1" was deleted, and objects still name it';
  missing = 'the leader may not delete servers';
  await reconcile();
  expect(condition('DeletionsFinished')).toMatchObject({ status: 'False', message: deletions });
  expect(condition('ActionsPermitted')).toMatchObject({ status: 'False', message: missing });
  expect(condition('Ready')).toMatchObject({ status: 'True' });
  deletions = '';
  missing = '';
  await reconcile();
  expect(condition('DeletionsFinished')).toBeUndefined();
  expect(condition('ActionsPermitted')).toBeUndefined();
});
