import { createHmac } from 'node:crypto';
import { beforeEach, describe, expect, test } from 'vitest';
import { createClaimsInMemory, SETTLE_MS } from '../../../test/support/admission/claims.ts';
import { resourceOf } from '../../../test/support/definitions.ts';
import { compiled, DATACENTER, GROUP, NEVER, silent } from '../../../test/support/runtime/fixtures.ts';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { newDeletionRecord, withGone } from '../../admission/policy/references/deletion-record.ts';
import { targetKey } from '../../admission/policy/object-ref.ts';
import type { ReferenceRule } from '../../api/policy-validate.ts';
import type { KubeObject, ObjectRef } from '../../json/kube-object.ts';
import type { KubeClient } from '../../kube/client.ts';
import { createDeletionActionsReconciler, type DeletionActionsOptions } from './deletion-actions.ts';
import type { Progress } from './deletion-progress.ts';
import type { AccessQuestion } from '../../kube/access.ts';
import { createActionAccess } from './action-access.ts';

type Restores = Awaited<ReturnType<DeletionActionsOptions['restoresInProgress']>>;
const everywhere = () => true;
const START = Date.parse('2026-11-27T12:00:00Z');
const prove = (text: string) => createHmac('sha256', 'key').update(text).digest('base64url');
const dc = (name: string) => ({ group: GROUP, resource: 'datacenters', namespace: undefined, name });
const srv = (name: string): ObjectRef => ({ group: GROUP, resource: 'servers', namespace: 'shop', name });

let now: number;
let claims: ReturnType<typeof createClaimsInMemory>;
let stored: Map<string, KubeObject>;
let policies: CompiledPolicy[];
/** The spec of the policy in the API server. */
let spec: object | undefined;
let restore: Restores[number] | undefined;
let written: string[];
let progress: Progress[];
let listed: boolean;
let known: ObjectRef[];

const cascade: ReferenceRule = { ...DATACENTER, onTargetDelete: 'Cascade' };
/** The policy in force and in the API server. */
const govern = (...references: readonly ReferenceRule[]) => {
  policies = [compiled({ validate: { references } })];
  return (spec = policies[0]?.spec);
};

beforeEach(() => {
  now = START;
  claims = createClaimsInMemory();
  stored = new Map();
  govern(cascade);
  restore = undefined;
  written = [];
  progress = [];
  listed = true;
  known = [srv('s1'), srv('s2')];
  for (const name of ['s1', 's2']) put(srv(name), { datacenter: 'fra1' });
});

function put(ref: ObjectRef, content: object, change: object = {}) {
  const { name, namespace } = ref;
  const version = { uid: `uid-${name}`, resourceVersion: '1', creationTimestamp: '2026-11-27T11:00:00Z' };
  const metadata = { name, namespace, ...version, ...change };
  return stored.set(targetKey(ref), { metadata, spec: content } as KubeObject);
}
const live = (ref: ObjectRef) => Promise.resolve(stored.get(targetKey(ref)));
/** A user has created the target again. */
const recreate = () => put(dc('fra1'), {}, { uid: 'another' });
const recreatedAt = (time: number) =>
  put(srv('s2'), { datacenter: 'fra1' }, { creationTimestamp: new Date(time).toISOString() });

const order: Parameters<typeof newDeletionRecord>[0] = {
  policy: 'servers',
  reference: 'datacenter',
  action: 'Cascade',
  target: dc('fra1'),
  uid: 'uid-fra1',
  depth: 0,
};

/** Stores a record, and returns its name. */
function record(change: Partial<typeof order> = {}, goneAt?: number): string {
  const made = newDeletionRecord({ ...order, ...change }, now, prove);
  const named = made && goneAt !== undefined ? withGone(made, goneAt, prove) : made;
  if (made === undefined || named === undefined) throw new Error('no key');
  const { name = '' } = made.metadata;
  const creationTimestamp = new Date(now).toISOString();
  const metadata = { ...named.metadata, resourceVersion: 'r1', creationTimestamp };
  claims.stored.set(name, { ...named, metadata });
  return name;
}

const reconcile = (name: string, change: Partial<DeletionActionsOptions> = {}) => leader(change)(name, NEVER);

/** A leader that has just started. */
function leader(change: Partial<DeletionActionsOptions> = {}) {
  return createDeletionActionsReconciler({
    policies: () => policies,
    client: { get: (() => Promise.resolve(spec === undefined ? undefined : { spec })) as KubeClient['get'] }, // a policy
    claims,
    prove,
    governed: { referrers: () => (listed ? known : undefined) },
    world: { read: live, confirm: live },
    restoresInProgress: () => Promise.resolve(restore === undefined ? [] : [restore]),
    write,
    onProgress: (one) => progress.push(one),
    now: () => new Date(now),
    log: silent,
    ...change,
  });
}

/** Reconciles until the record is gone, over two settle times at most. */
async function finish(name: string): Promise<void> {
  for (let pass = 0; pass < 20 && claims.stored.has(name); pass += 1) {
    await reconcile(name);
    now += SETTLE_MS / 8;
  }
}

test('the objects are deleted, and the record goes after the settle time', async () => {
  const name = record({}, START);
  await reconcile(name);
  expect(progress.at(-1)).toMatchObject({ state: 'working', done: 2 });
  await reconcile(name);
  expect([progress.at(-1)?.state, claims.stored.size]).toEqual(['finished', 1]);
  await finish(name);
  expect(written).toEqual(['delete s1', 'delete s2']);
  expect(claims.stored.size).toBe(0);
  expect(now - START).toBeGreaterThanOrEqual(SETTLE_MS);
});

const write: DeletionActionsOptions['write'] = (ref, _object, plan) => {
  written.push(`${plan.kind} ${ref.name}`);
  stored.delete(targetKey(ref));
  return Promise.resolve({ kind: 'deleted' });
};

describe('nothing is deleted', () => {
  const exceptions = [{ name: 'old', reason: 'a drill', namespaces: ['shop'] }];
  const references = [cascade];
  const auditing = () => compiled({ enforcement: 'Audit', validate: { references } });
  const excepting = () => compiled({ validate: { references }, exceptions });
  test.each<[string, number, () => unknown]>([
    ['while the target exists; the record expires', 0, () => put(dc('fra1'), {})],
    ['while the target waits for finalizers', 1, () => put(dc('fra1'), {}, { deletionTimestamp: '2026' })],
    ['if the target was created again', 0, recreate],
    [
      'while a restore is in progress',
      1,
      () => (restore = { window: 'first', since: now, mayWrite: everywhere }),
    ],
    ['while the governed objects are not listed', 1, () => (listed = false)],
    ['if the policy has another action', 0, () => govern({ ...cascade, onTargetDelete: 'Restrict' })],
    ['while the policy only audits; the record waits', 1, () => (policies = [auditing()])],
    ['if an exception covers the objects', 0, () => (policies = [excepting()])],
  ])('%s (records left: %i)', async (_when, left, change) => {
    change();
    await finish(record());
    expect(written).toEqual([]);
    expect(claims.stored.size).toBe(left);
    if (restore !== undefined) expect(progress.at(-1)?.message).toContain(`"${restore.window}"`);
  });

  const fail = () => Promise.reject(new Error('no answer'));

  test.each<[string, number, boolean, Partial<DeletionActionsOptions>]>([
    ['if the live read of the target fails', 1, true, { world: { read: fail, confirm: fail } }],
    ['if the RestoreWindows cannot be listed', 1, true, { restoresInProgress: fail }],
    ['if a record was forged or has another key', 0, false, { prove: (text) => prove(`${text} `) }],
    ['while the key is not known; the record stays', 1, false, { prove: () => undefined }],
  ])('%s (records left: %i)', async (_when, left, fails, change) => {
    const outcome = reconcile(record({}, START), change);
    if (fails) await expect(outcome).rejects.toThrow('no answer');
    else await outcome;
    expect(written).toEqual([]);
    expect(claims.stored.size).toBe(left);
  });

  test('in more than 16 levels', async () => {
    await finish(record({ depth: 17 }));
    expect(written).toEqual([]);
    expect(progress.at(-1)).toMatchObject({ state: 'stuck' });
  });
});

/** Many objects that reference the target, and the record of its deletion. */
function recordOfMany(): string {
  known = Array.from({ length: 20 }, (_, n) => srv(`m${n}`));
  for (const ref of known) put(ref, { datacenter: 'fra1' });
  return record({}, START);
}

test('a restore that begins in the middle stops the work', async () => {
  let asked = 0;
  const second = { window: 'second', since: now, mayWrite: everywhere };
  const restoresInProgress = () => Promise.resolve(asked++ < 2 ? [] : [second]);
  await reconcile(recordOfMany(), { restoresInProgress });
  expect(written).toHaveLength(8);
});

describe('a restore in one namespace', () => {
  const inSpa = (name: string): ObjectRef => ({ ...srv(name), namespace: 'spa' });
  const restoreIn = (...namespaces: readonly (string | undefined)[]) => {
    const mayWrite = ({ namespace }: ObjectRef) => namespaces.includes(namespace);
    restore = { window: 'tenant', since: now, mayWrite };
  };

  test('holds back its own objects until it is over, and no others', async () => {
    const name = record({}, START);
    known.push(inSpa('s3'), inSpa('young'));
    put(inSpa('s3'), { datacenter: 'fra1' });
    restoreIn('spa');
    put(inSpa('young'), { datacenter: 'fra1' }, { creationTimestamp: new Date(now).toISOString() });
    await reconcile(name);
    expect(written).toEqual(['delete s1', 'delete s2']);
    now += 2 * SETTLE_MS;
    await reconcile(name);
    expect(written).toHaveLength(2);
    expect(progress.at(-1)).toMatchObject({
      state: 'waiting',
      message: expect.stringContaining('"tenant"') as string,
    });
    restore = undefined;
    await finish(name);
    expect(written).toEqual(['delete s1', 'delete s2', 'delete s3']);
    expect(claims.stored.size).toBe(0);
  });

  test('that begins in the middle stops only the work there', async () => {
    let asked = 0;
    const name = recordOfMany();
    known = [...known.slice(0, 10), ...known.slice(10).map(({ name: own }) => inSpa(own))];
    for (const ref of known) put(ref, { datacenter: 'fra1' });
    restoreIn('spa');
    const begun = [restore].filter((one) => one !== undefined);
    await reconcile(name, { restoresInProgress: () => Promise.resolve(asked++ < 2 ? [] : begun) });
    expect(written).toHaveLength(8);
    await reconcile(name);
    expect(written).toHaveLength(10);
  });

  test('that may bring the target back holds back everything', async () => {
    restoreIn(undefined);
    await reconcile(record({}, START));
    expect(written).toEqual([]);
  });
});

test('an object of a target that is created again while the leader reads the object stays', async () => {
  const name = record({}, START);
  const read = (ref: ObjectRef) => {
    // `kubectl replace --force`: the user has created both again by the time of the read.
    recreate();
    put(ref, { datacenter: 'fra1' }, { uid: `new-${ref.name}` });
    return live(ref);
  };
  await reconcile(name, { world: { read, confirm: live } });
  expect(written).toEqual([]);
  await finish(name);
  expect(written).toEqual([]);
  expect(claims.stored.size).toBe(0);
});

test.each([
  ['a second', 1_000, 0],
  ['20 seconds', 20_000, 0],
  ['a second, if the restore begins after the deletion', 1_000, 5_000],
])(
  'an object that a restore creates after its target was deleted is kept: after %s',
  async (_when, later, before) => {
    const name = record();
    await reconcile(name);
    now += before;
    restore = { window: 'first', since: now, mayWrite: everywhere };
    await reconcile(name);
    now += later;
    recreatedAt(now);
    await reconcile(name);
    now += 20_000;
    restore = undefined;
    await finish(name);
    expect(written).toEqual(['delete s1']);
    expect(claims.stored.size).toBe(0);
  },
);

test('an object that is created while the target waits for finalizers goes with it', async () => {
  const name = record();
  put(dc('fra1'), {}, { deletionTimestamp: new Date(now).toISOString() });
  const one = leader();
  for (let pass = 0; pass < 60; pass += 1) {
    await one(name, NEVER);
    now += 5_000;
  }
  recreatedAt(now);
  stored.delete(targetKey(dc('fra1')));
  await one(name, NEVER);
  await finish(name);
  expect(written).toEqual(['delete s1', 'delete s2']);
});

test('an object that cannot be deleted does not keep the others, and is reported', async () => {
  const name = record({}, START);
  known.push(srv('s3'));
  put(srv('s3'), { datacenter: 'fra1' });
  const result = await reconcile(name, {
    write: (ref, ...rest) =>
      ref.name === 's1' ? Promise.resolve({ kind: 'refused', message: 'still named' }) : write(ref, ...rest),
  });
  expect(result).toEqual({ kind: 'requeue', at: new Date(START + 1_000) });
  expect(written).toEqual(['delete s2', 'delete s3']);
  expect(progress.at(-1)).toMatchObject({ state: 'stuck', done: 2, stuck: [{ kind: 'stuck' }] });
  expect(progress.at(-1)?.message).toContain('"s1" in namespace "shop": still named');
});

test('a cascade writes the record of the next level first, with its depth', async () => {
  const peer = { name: 'peer', path: 'spec.peer', target: { apiGroup: GROUP, resource: 'servers' } };
  govern(cascade, { ...peer, onTargetDelete: 'Cascade' });
  known = [srv('s1')];
  const name = record({ depth: 3 }, START);
  await reconcile(name, {
    write: (...args) => {
      expect(claims.stored.size).toBe(2);
      return write(...args);
    },
  });
  const [next] = [...claims.stored.values()].filter(({ metadata }) => metadata.name !== name);
  const deeper = { rule: 'references/peer', values: ['Cascade', '4'], holder: { name: 's1' } };
  expect(next?.spec).toMatchObject(deeper);
});

test('a name that something writes back is reported, not removed for ever', async () => {
  govern({ ...cascade, onTargetDelete: 'SetNull' });
  const name = record({ action: 'SetNull' }, START);
  const result = await reconcile(name, {
    write: (_ref, object) => Promise.resolve({ kind: 'patched', object }),
  });
  expect(result).toEqual({ kind: 'requeue', at: new Date(START + 30_000) });
  expect(progress.at(-1)).toMatchObject({ state: 'stuck', done: 0 });
  expect(progress.at(-1)?.message).toContain('writes the reference back');
});

test('the status of the policy has the ClusterRole that is missing, until it is granted', async () => {
  const told: string[] = [];
  let allowed = false;
  const asked: AccessQuestion[] = [];
  const client = {
    create: ((_resource: unknown, { spec }: { spec: { resourceAttributes: AccessQuestion } }) => {
      asked.push(spec.resourceAttributes);
      return Promise.resolve({ status: { allowed } });
    }) as KubeClient['create'], // a SelfSubjectAccessReview
  };
  const { reconcile, missing } = createActionAccess(
    () => policies,
    client,
    { resolve: () => Promise.resolve(resourceOf(GROUP, 'servers', 'Server')) },
    undefined,
    (name) => told.push(name),
  );
  expect(await reconcile('servers', NEVER)).toMatchObject({ kind: 'requeue' });
  expect(missing('servers')).toMatch(
    /lacks permission to delete servers\.infra\.example\.com after a target is deleted\. Add this ClusterRole:\n[^]*aggregate-to-actions/,
  );
  await reconcile('servers', NEVER);
  expect(told).toEqual(['servers']);
  allowed = true;
  expect(await reconcile('servers', NEVER)).toMatchObject({ kind: 'requeue' });
  expect([missing('servers'), told]).toEqual(['', ['servers', 'servers']]);
  expect(await reconcile('no-policy', NEVER)).toEqual({ kind: 'gone' });
  expect(asked[0]).toMatchObject({ verb: 'delete', group: GROUP, resource: 'servers' });
});
