import { describe, expect, test } from 'vitest';

import type { AdmissionPolicySpec } from '../../api/admission-policy.ts';
import type { KubeObject, ObjectRef } from '../../json/kube-object.ts';
import type { CompiledPolicy } from './compile.ts';
import type { Decision } from '../review/decision.ts';
import type { JsonObject } from '../../json/json.ts';
import { applyPatch } from '../../json/json-patch.ts';
import { mutate } from './mutate.ts';
import {
  createRequest as create,
  DATACENTER,
  emptyWorld,
  GROUP,
  NIGHTLY,
  policyOf,
  updateRequest as update,
} from '../../../test/support/admission/policy.ts';
import { targetKey } from './object-ref.ts';
import { OutOfReachError, type AdmissionContext, type RequestWorld } from './world.ts';
import type { AdmissionRequest } from '../review/request.ts';
import { validate } from './validate.ts';

const disks = {
  name: 'class',
  path: 'spec.disks[*].class',
  namespacePath: 'spec.disks[*].namespace',
  target: { apiGroup: GROUP, resource: 'classes' },
};

const policy = (spec: Partial<AdmissionPolicySpec> = {}, name = 'servers'): CompiledPolicy =>
  policyOf({ validate: { immutable: ['spec.serial'], references: [DATACENTER, disks] }, ...spec }, name);

interface Cluster {
  readonly stored?: readonly string[];
  readonly live?: readonly string[];
  readonly broken?: readonly string[];
  readonly evidence?: 'open' | 'broken';
}

/** A world with these targets, by name. `reads` and `asks` record the live reads and the restore lookups. */
function worldOf({ stored = [], live = [], broken = [], evidence }: Cluster = {}) {
  const reads: string[] = [];
  const asks: string[] = [];
  const read = (ref: ObjectRef): Promise<KubeObject | undefined> => {
    reads.push(targetKey(ref));
    if (broken.includes(ref.name)) return Promise.reject(new Error('connection refused'));
    return Promise.resolve(live.includes(ref.name) ? {} : undefined);
  };
  const world: RequestWorld = {
    ...emptyWorld(),
    find: ({ name }) => (stored.includes(name) ? {} : undefined),
    confirm: read,
    read,
    restoreEvidence: ({ userInfo }) => {
      asks.push(userInfo.username);
      if (evidence === 'broken') return Promise.reject(new Error('connection refused'));
      return Promise.resolve(evidence === 'open' ? NIGHTLY : undefined);
    },
  };
  return { world, reads, asks };
}

const circumstancesIn = (world: RequestWorld): AdmissionContext => ({
  world,
  signal: new AbortController().signal,
  now: Date.parse('2026-11-21T12:00:00Z'),
});

const judge = async (
  request: AdmissionRequest,
  policies: readonly CompiledPolicy[],
  cluster: Cluster = {},
) => {
  const { world, reads, asks } = worldOf(cluster);
  const decision = await validate(request, policies, circumstancesIn(world));
  return { decision, reads, asks };
};
const messageOf = (decision: Decision) => (decision.kind === 'allow' ? '' : decision.message);
const ALLOW = { kind: 'allow', patch: [], warnings: [], auditAnnotations: {} };

describe('a reference', () => {
  const fra1 = create({ datacenter: 'fra1' });
  const Enforce = { restore: { references: 'Enforce' } } as const;

  test.each<[string, Cluster, Partial<AdmissionPolicySpec>, Decision['kind'], number, number]>([
    ['in the store', { stored: ['fra1'], evidence: 'broken' }, {}, 'allow', 0, 0],
    ['only in the API server', { live: ['fra1'], evidence: 'broken' }, {}, 'allow', 1, 0],
    ['missing', {}, {}, 'deny', 1, 1],
    ['missing during a restore', { evidence: 'open' }, {}, 'allow', 1, 1],
    ['missing during a restore that must not defer it', { evidence: 'open' }, Enforce, 'deny', 1, 0],
    ['missing while the restore evidence is unknown', { evidence: 'broken' }, {}, 'retry', 1, 1],
    ['unknown', { broken: ['fra1'] }, {}, 'retry', 1, 1],
    ['unknown and not deferrable', { broken: ['fra1'] }, Enforce, 'retry', 1, 0],
    ['unknown during a restore', { broken: ['fra1'], evidence: 'open' }, {}, 'allow', 1, 1],
    ['missing, for a policy that warns', { evidence: 'broken' }, { enforcement: 'Warn' }, 'allow', 1, 0],
    ['unknown, for a policy that warns', { broken: ['fra1'] }, { enforcement: 'Warn' }, 'allow', 1, 0],
  ])(
    'with a target that is %s gets the expected decision',
    async (_what, cluster, spec, kind, reads, asks) => {
      const result = await judge(fra1, [policy(spec)], cluster);
      expect([result.decision.kind, result.reads.length, result.asks.length]).toEqual([kind, reads, asks]);
    },
  );

  test('to a target that Gatehouse never reads is denied, because a retry would not help', async () => {
    const { world } = worldOf({});
    const confirm = () => Promise.reject(new OutOfReachError('Gatehouse does not read namespace other'));
    expect(await validate(fra1, [policy()], circumstancesIn({ ...world, confirm }))).toMatchObject({
      kind: 'deny',
      code: 403,
      message:
        'could not find out whether datacenters.infra.example.com "fra1" exists, which spec.datacenter references: ' +
        'Gatehouse does not read namespace other (policy servers)',
    });
  });

  test('of a policy that only warns or audits leaves a trace, even if the lookup failed', async () => {
    const traces = async (enforcement: 'Warn' | 'Audit', cluster: Cluster) =>
      (await judge(fra1, [policy({ enforcement })], cluster)).decision;
    expect(await traces('Warn', {})).toMatchObject({
      warnings: [expect.stringContaining('not found; create it or fix the name')],
    });
    expect(await traces('Warn', { broken: ['fra1'] })).toMatchObject({
      warnings: [expect.stringContaining('could not find out')],
    });
    expect(await traces('Audit', {})).toMatchObject({
      warnings: [],
      auditAnnotations: {
        violations: expect.stringContaining('spec.datacenter: Datacenter "fra1"') as string,
      },
    });
    expect(await traces('Audit', { broken: ['fra1'] })).toMatchObject({
      auditAnnotations: { unchecked: 'servers/datacenter=datacenters.infra.example.com/fra1' },
    });
  });

  test.each<[string, AdmissionRequest]>([
    ['absent', create({})],
    ['null', create({ datacenter: null })],
    ['unchanged on update', update({ datacenter: 'gone' }, { datacenter: 'gone', units: 2 })],
    [
      'unchanged but in another list position',
      update({ disks: [{ class: 'a' }, { class: 'b' }] }, { disks: [{ class: 'b' }] }),
    ],
    [
      'unchanged and never valid',
      update({ datacenter: 7, disks: [{ class: {} }] }, { datacenter: 7, disks: [{ class: {} }] }),
    ],
    ['in a deletion', { ...update({}, {}), operation: 'DELETE', object: undefined }],
  ])('is not checked when it is %s', async (_what, request) => {
    expect(await judge(request, [policy()], { evidence: 'broken' })).toEqual({
      decision: ALLOW,
      reads: [],
      asks: [],
    });
  });

  test('is checked when an update names a target that only another reference named', async () => {
    const spare = { ...DATACENTER, name: 'spare', path: 'spec.spare' };
    const { decision } = await judge(update({ datacenter: 'gone' }, { datacenter: 'gone', spare: 'gone' }), [
      policy({ validate: { references: [DATACENTER, spare] } }),
    ]);
    expect(decision).toMatchObject({ kind: 'deny', causes: [{ field: 'spec.spare' }] });
  });

  test.each([7, { name: 'fra1' }, '..', 'a%2fb', 'a\nb', 'x'.repeat(254)])(
    'with the value %j is denied without a live read',
    async (value) => {
      const { decision, reads } = await judge(create({ datacenter: value }), [policy()], {
        evidence: 'open',
      });
      expect(decision).toMatchObject({
        kind: 'deny',
        causes: [{ field: 'spec.datacenter', reason: 'FieldValueInvalid' }],
      });
      expect(reads).toEqual([]);
      expect(messageOf(decision)).not.toMatch(/\p{Cc}/u);
    },
  );

  test('a target named in many fields and policies is read once', async () => {
    const request = create({ disks: [{ class: 'a' }, { class: 'a' }, { class: 'a', namespace: 'other' }] });
    const { reads } = await judge(request, [
      policy(),
      policy({}, 'more'),
      policy({ enforcement: 'Warn' }, 'warns'),
    ]);
    expect(reads.toSorted()).toEqual([
      'classes.infra.example.com/other/a',
      'classes.infra.example.com/store/a',
    ]);
  });

  test('thousands of missing targets cost few reads and a bounded message', async () => {
    const many = Array.from({ length: 5_000 }, (_, index) => ({ class: `c${index}` }));
    const { decision, reads } = await judge(create({ disks: many }), [policy()]);
    expect(decision.kind).toBe('deny');
    expect(reads).toHaveLength(16);
    expect(messageOf(decision).length).toBeLessThan(8_193);
  });

  test('with a missing target is denied even if another lookup failed', async () => {
    const request = create({ datacenter: 'fra1', disks: [{ class: 'ssd' }] });
    const { decision } = await judge(request, [policy()], { broken: ['ssd'] });
    expect(decision.kind).toBe('deny');
  });

  test('an exception in the store is a bug and is rethrown', () => {
    const { world } = worldOf();
    const failing: RequestWorld = {
      ...world,
      find: () => {
        throw new TypeError('bug');
      },
    };
    expect(() => validate(fra1, [policy()], circumstancesIn(failing))).toThrow('bug');
  });
});

describe('an immutable field', () => {
  test.each<[string, JsonObject, JsonObject, Decision['kind']]>([
    ['rewritten in another key order', { serial: { a: 1, b: 2 } }, { serial: { b: 2, a: 1 } }, 'allow'],
    ['changed beyond 2^53', { serial: 9007199254740992n }, { serial: 9007199254740993n }, 'deny'],
  ])('that is %s gets the expected decision', async (_what, before, after, kind) => {
    expect((await judge(update(before, after), [policy()], { evidence: 'open' })).decision.kind).toBe(kind);
  });

  test('cannot change while the object is being deleted', async () => {
    const request = update({ serial: 'a' }, { serial: 'b' }, { deletionTimestamp: '2026-01-01T00:00:00Z' });
    expect((await judge(request, [policy()])).decision).toMatchObject({
      kind: 'deny',
      message:
        'spec.serial: was set and cannot be changed to "b": keep the value it has, or delete the object and create it again (policy servers)',
      causes: [{ field: 'spec.serial', reason: 'FieldValueForbidden' }],
    });
  });

  test('of a Secret is not quoted', async () => {
    const secrets = { group: '', version: 'v1', resource: 'secrets' };
    const { decision } = await judge(
      { ...update({ serial: 'a' }, { serial: 'hunter2' }), resource: secrets },
      [policy()],
    );
    expect(messageOf(decision)).toMatch(/^spec\.serial: was set and cannot be changed/);
    expect(messageOf(decision)).not.toContain('hunter2');
  });
});

test('violations of all policies share one message, separate from warnings and audit annotations', async () => {
  const request = update({ serial: 'a' }, { serial: 'b', datacenter: 'fra1' });
  const { decision } = await judge(request, [
    policy({}, 'one'),
    policy({ enforcement: 'Warn' }, 'two'),
    policy({ enforcement: 'Audit' }, 'three'),
  ]);
  expect(messageOf(decision).match(/policy \w+/g)).toEqual(['policy one', 'policy one']);
  expect(decision).toMatchObject({
    kind: 'deny',
    warnings: { length: 2 },
    auditAnnotations: { violations: expect.stringContaining('policy three') as string },
  });
});

describe('mutate', () => {
  const first = policy({
    defaults: [
      { path: 'spec.tier', value: 'standard' },
      { path: 'spec.disks[*].size', value: 1 },
    ],
  });
  const alone = circumstancesIn(worldOf().world);
  const second = policy({
    defaults: [
      { path: 'spec.tier', value: 'other' },
      { path: 'metadata.labels.a', value: 'b' },
    ],
  });

  test('fills missing fields in policy order, and is idempotent', async () => {
    const request = create({ disks: [{}, { size: 5 }] });
    const decision = await mutate(request, [first, second], alone);
    const after = applyPatch(request.object ?? {}, decision.kind === 'allow' ? decision.patch : []);
    const filled = { tier: 'standard', disks: [{ size: 1 }, { size: 5 }] };
    expect(after).toEqual(create(filled, { labels: { a: 'b' } }).object);
    expect(await mutate({ ...request, object: after }, [first, second], alone)).toEqual(ALLOW);
  });

  test.each<[string, AdmissionRequest]>([
    ['a deletion', { ...update({}, {}), operation: 'DELETE', object: undefined }],
    [
      'an object that loses its last finalizer',
      { ...update({}, {}), oldObject: create({}, { deletionTimestamp: 'x', finalizers: ['a/b'] }).object },
    ],
    ['a connection', { ...create({}), operation: 'CONNECT' }],
  ])('leaves %s unchanged', (_what, request) => {
    expect(mutate(request, [first], alone)).toEqual(ALLOW);
  });
});

test('a refusal does not repeat a value of one megabyte', async () => {
  const { decision } = await judge(create({ datacenter: '\u0000'.repeat(1 << 20) }), [policy()]);
  expect(decision.kind).toBe('deny');
  expect(JSON.stringify(decision).length).toBeLessThan(10_000);
});
