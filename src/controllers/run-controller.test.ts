import { describe, expect, test } from 'vitest';
import * as teams from '../../test/support/teams.ts';
import { again, configMap, readyOf, run, verbs } from '../../test/support/teams.ts';
import { defineController, type ControllerDefinition } from './controller.ts';

interface Team {
  readonly metadata: { readonly name: string };
  readonly spec: { readonly members: readonly string[] };
  readonly status?: { readonly serverId?: string };
}

const team = (members: readonly string[] = ['ann'], metadata: object = {}) => ({
  ...teams.team(metadata),
  spec: { members },
});

const define = (parts: Partial<ControllerDefinition<Team>> = {}) =>
  teams.define<Team>(async ({ apply }, { metadata, spec }) => {
    for (const name of spec.members) await apply(configMap(name, { data: { team: metadata.name } }));
  }, parts);

test('a pass applies, sets the status, and a second pass writes nothing', async () => {
  const first = await run(define(), team());
  expect(verbs(first)).toEqual(['apply configmaps teams/ann', 'status teams.example.com blue']);
  expect(first.writes[0]?.body).toMatchObject({
    data: { team: 'blue' },
    metadata: {
      labels: { 'gatehouse.dev/controller': 'teams' },
      ownerReferences: [{ kind: 'Team', name: 'blue', controller: true }],
    },
  });
  expect(first.object).toMatchObject({ status: { observedGeneration: 1 } });
  expect(readyOf(first)).toMatchObject({ status: 'True', reason: 'Reconciled' });
  expect(verbs(await again(define(), first))).toEqual([]);
});

test('objects that a pass stops applying are deleted, except those of another owner', async () => {
  const { object, cluster } = await run(define(), team(['ann', 'bob']));
  const configmaps = [...(cluster.configmaps ?? []), configMap('other')];
  const second = await again(define(), { object, cluster: { configmaps } }, { spec: { members: ['bob'] } });
  expect(verbs(second)).toEqual(['delete configmaps teams/ann']);
  const message = 'deleted ConfigMap teams/ann: the controller does not apply it any more';
  expect(second.events).toEqual([{ type: 'Normal', reason: 'Deleted', message }]);
});

test('a pass that waits, stalls or fails deletes nothing', async () => {
  const first = await run(define(), team());
  const waits = teams.define(({ wait }) => wait('Provisioning', 'the server starts', { afterSeconds: 5 }));
  const waiting = await again(waits, first);
  expect(verbs(waiting)).toEqual(['status teams.example.com blue']);
  expect(readyOf(waiting)).toMatchObject({ status: 'False', reason: 'Provisioning' });
  expect(waiting.requeueAt).toEqual(new Date('2026-01-02T03:04:10Z'));

  const stalls = teams.define(({ stall }) => stall('NoSuchRegion', 'there is no region mars'));
  const stalled = await again(stalls, waiting);
  const standing = stalled.conditions.map(({ type, status }) => `${type}=${status}`);
  expect(standing).toEqual(['Ready=False', 'Stalled=True']);

  const fails = teams.define(() => Promise.reject(new Error('the cloud\n says no')));
  const failing = await again(fails, first);
  expect(failing.error?.message).toBe('the cloud\n says no');
  const failure = { reason: 'ReconcileFailed', message: 'the cloud says no' };
  expect(readyOf(failing)).toMatchObject(failure);
  expect(failing.events).toEqual([{ type: 'Warning', ...failure }]);
  expect(failing.cluster.configmaps).toHaveLength(1);
  // a later success removes the error
  expect((await again(define(), failing)).conditions).toMatchObject([{ type: 'Ready', status: 'True' }]);
});

test('conditions of an earlier pass disappear, and one that is not True makes the object unready', async () => {
  const states = (...types: readonly ['True' | 'False', string][]) =>
    teams.define(({ condition }) => {
      for (const [status, type] of types) condition(type, status, 'Checked', `${type} was checked`);
    });
  const first = await run(states(['True', 'A'], ['False', 'B']));
  expect(readyOf(first)).toMatchObject({ status: 'False', reason: 'Checked', message: 'B: B was checked' });
  const second = await again(states(['True', 'C']), first);
  expect(second.conditions.map(({ type }) => type).toSorted()).toEqual(['C', 'Ready']);
});

describe('an object that exists', () => {
  const existing = (metadata: object) => configMap('ann', {}, metadata);
  const owner = { apiVersion: 'apps/v1', kind: 'Deployment', name: 'web', uid: 'u', controller: true };
  test.each<[string, object, string]>([
    ['without marks', {}, 'ConfigMap teams/ann exists and was not created for Team blue'],
    ['of a Deployment', { ownerReferences: [owner] }, 'ConfigMap teams/ann belongs to Deployment web'],
    [
      'of another object',
      { labels: { 'gatehouse.dev/controller': 'teams', 'gatehouse.dev/owner': 'other' } },
      'belongs to another object of the controller teams',
    ],
    [
      'of another controller',
      { labels: { 'gatehouse.dev/controller': 'users' } },
      'belongs to another object of the controller users',
    ],
  ])('%s is not taken', async (_what, metadata, message) => {
    const cluster = { configmaps: [existing(metadata)] };
    const result = await run(define(), team(), cluster);
    expect(result.error?.message).toContain(message);
    expect(verbs(result)).toEqual(['status teams.example.com blue']);
  });

  test('without marks is taken with adopt', async () => {
    const adopting = teams.define(({ apply }) => apply(existing({}), { adopt: true }));
    const cluster = { configmaps: [existing({})] };
    const result = await run(adopting, team(), cluster);
    expect(verbs(result)).toEqual(['apply configmaps teams/ann', 'status teams.example.com blue']);
  });

  test('and belongs to an owner with a former uid is still ours: the owner was restored', async () => {
    const first = await run(define(), team());
    const second = await run(define(), team(['ann'], { uid: 'new' }), first.cluster);
    expect(second.error).toBeUndefined();
    expect(second.writes[0]?.body).toMatchObject({ metadata: { ownerReferences: [{ uid: 'new' }] } });
  });
});

test('the finalizer comes before everything, and goes after finalize and what it waits for', async () => {
  const finalizing = define({ finalize: () => undefined });
  const first = await run(finalizing, team());
  expect(verbs(first)[0]).toBe('finalizers teams.example.com blue');
  const metadata = { ...first.object?.metadata, deletionTimestamp: '2026-01-02T03:04:05Z' };
  const failing = define({ finalize: () => Promise.reject(new Error('still in use')) });
  const refused = await again(failing, first, { metadata });
  expect(readyOf(refused)).toMatchObject({ reason: 'FinalizeFailed', message: 'still in use' });
  expect(refused.object?.metadata?.finalizers).toEqual(['gatehouse.dev/controller-teams']);
  expect((await again(finalizing, first, { metadata })).object).toBeUndefined();
});

describe('progress', () => {
  const creating = (create: (id: string, attempt: number) => string) =>
    define({
      reconcile: async (object, { progress, status }) => {
        if (object.status?.serverId !== undefined) return;
        const { id, attempt } = await progress.start('create-server');
        status({ serverId: create(id, attempt) });
        progress.finish();
      },
    });

  test('keeps its id over a crash between the call and its result', async () => {
    const calls: [string, number][] = [];
    const crashing = creating((id, attempt) => {
      calls.push([id, attempt]);
      if (attempt === 1) throw new Error('the connection broke');
      return 'server-1';
    });
    const first = await run(crashing, team());
    expect(first.error?.message).toBe('the connection broke');
    const second = await again(crashing, first);
    expect(calls.map(([, attempt]) => attempt)).toEqual([1, 2]);
    expect(new Set(calls.map(([id]) => id)).size).toBe(1);
    expect(second.object).toMatchObject({ status: { serverId: 'server-1' } });
    expect(second.object).not.toMatchObject({ status: { progress: expect.anything() as object } });
    // The record goes in the write that stores the result.
    expect(second.writes.map(({ verb }) => verb)).toEqual(['status', 'status']);
    expect(second.writes[1]?.body).toMatchObject({ serverId: 'server-1', progress: null });
    expect(verbs(await again(crashing, second))).toEqual([]);
  });

  test('a second operation has another id, and cannot start before the first has finished', async () => {
    const two = teams.define(async ({ progress }) => {
      await progress.start('create');
      await progress.start('resize');
    });
    const result = await run(two);
    expect(result.error?.message).toBe('create is not finished: finish it before resize');
  });
});

test('kinds that are not declared, and calls after the pass, fail with what to do', async () => {
  const secret = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'a', namespace: 'b' } };
  const undeclared = teams.define(({ apply }) => apply(secret));
  expect((await run(undeclared)).error?.message).toBe('Secret v1 is not in owns: add its plural there');
  expect(() => defineController({ watch: { apiGroups: [''] }, reconcile: 1 } as never)).toThrow(
    'defineController: watch.apiVersions: write a list with one API version such as v1; watch.resources: write a list with one plural such as users; reconcile: write a function',
  );
});

describe('a controller with leaderOnly: false', () => {
  const watch = { apiGroups: ['example.com'], apiVersions: ['v1'], resources: ['teams'] } as const;
  const quiet = { watch, leaderOnly: false, writesStatus: false, reconcile: () => undefined };
  const reason = 'because a controller with leaderOnly: false must not write';

  test.each<[string, object]>([
    [`owns: remove it, ${reason}`, { owns: [] }],
    [`finalize: remove it, ${reason}`, { finalize: () => undefined }],
    [`writesStatus: write false, ${reason}`, { writesStatus: undefined }],
    [`leaderOnly: write true or false`, { leaderOnly: 'no' }],
  ])('is refused with the reason %s', (problem, parts) => {
    expect(() => defineController({ ...quiet, ...parts })).toThrow(`defineController: ${problem}`);
  });

  test.each<[string, ControllerDefinition['reconcile'], string]>([
    ['event', (_team, { event }) => event('Normal', 'A', 'a'), 'so use log'],
    ['condition', (_team, { condition }) => condition('A', 'True', 'A'), 'set writesStatus'],
    [
      'apply',
      async (_team, { apply }) => {
        await apply(configMap('a'));
      },
      'is not in owns',
    ],
  ])('writes nothing, not even an Event about the failure: %s', async (_verb, reconcile, message) => {
    const result = await run(defineController({ ...quiet, reconcile }));
    expect(result.error?.message).toContain(message);
    expect([result.events, verbs(result)]).toEqual([[], []]);
  });
});

test('a controller of a built-in kind does not write the status, and an attempt fails with the reason', async () => {
  const object = configMap('a');
  const watch = { apiGroups: [''], apiVersions: ['v1'], resources: ['configmaps'] } as const;
  const quiet = await run(defineController({ watch, reconcile: () => undefined }), object);
  expect(verbs(quiet)).toEqual([]);
  const reconcile: ControllerDefinition['reconcile'] = (_map, { condition }) => condition('A', 'True', 'A');
  const failed = await run(defineController({ watch, reconcile }), object);
  const message = "the status of configmaps is not this controller's: set writesStatus if it is";
  expect(failed.error?.message).toBe(message);
  expect(verbs(failed)).toEqual([]);
  expect(failed.events).toMatchObject([{ type: 'Warning', reason: 'ReconcileFailed' }]);
});
