import { describe, expect, test } from 'vitest';

import { createCluster, NEVER, OWN_NAMESPACE } from '../../../test/support/runtime/fixtures.ts';
import { compileController } from '../../controllers/compile-controller.ts';
import { defineController } from '../../controllers/controller.ts';
import { ApiError } from '../../kube/api-error.ts';
import { configMaps } from '../../kube/well-known.ts';
import { createMetrics } from '../../server/metrics/metrics.ts';
import type { ConfigMap } from '../certificates/ca-bundle.ts';
import { createObserved } from './observed.ts';
import {
  CONTROLLERS_CONFIGMAP,
  createStateReconciler,
  parseState,
  stateOf,
  type PublishedController,
} from './published.ts';

const NOW = new Date('2026-03-01T12:00:00Z');
const after = (seconds: number): Date => new Date(NOW.getTime() + seconds * 1_000);
const watch = { apiGroups: ['people.example.com'], apiVersions: ['v1'], resources: ['users'] } as const;
const compiled = compileController('users', defineController({ watch, reconcile: () => undefined }));

function observe() {
  let now = NOW;
  const metrics = createMetrics();
  const observed = createObserved(compiled, metrics, () => now);
  const fail = (object: string, message: string) => {
    const error = new Error(message, { cause: new Error('disk full') });
    observed.pass(object, () => false)({ kind: 'failed', error, reason: 'ReconcileFailed' });
  };
  return { observed, metrics, fail, at: (seconds: number) => (now = after(seconds)) };
}

const DONE = { kind: 'done', requeueAt: undefined } as const;
const braked = { ...DONE, unready: { why: 'Reconciling', reason: 'KeepsChanging', message: 'm' } } as const;
const stalled = { ...DONE, unready: { why: 'Stalled', reason: 'BadSpec', message: 'm' } } as const;
const waits = { ...DONE, unready: { why: 'Reconciling', reason: 'Waiting', message: 'm' } } as const;

test('the published state has no credentials', () => {
  const { observed, fail } = observe();
  fail('ada', 'GET https://me:secret@cloud/ authorization: Bearer abc.def');
  const message = observed.row(undefined).troubles[0]?.message;
  expect(message).toBe('GET https://…@cloud/ authorization: Bearer … disk full');
});

describe('what a controller meets', () => {
  test('failing objects are counted, and the latest five are named with their causes and since when', () => {
    const { observed, fail, at } = observe();
    for (const second of [0, 1, 2, 3, 4, 5, 6]) {
      at(second);
      fail(`u${second}`, `no ${second}`);
    }
    at(60);
    fail('u0', 'again');
    const { failing, troubles, lastPass } = observed.row(undefined);
    expect(failing).toBe(7);
    expect(troubles.map(({ object }) => object)).toEqual(['u0', 'u6', 'u5', 'u4', 'u3']);
    const message = 'again: disk full';
    expect(troubles[0]).toMatchObject({ since: '2026-03-01T12:00:00Z', reason: 'ReconcileFailed', message });
    expect(lastPass).toEqual({ at: '2026-03-01T12:01:00Z', object: 'u0', result: 'error' });
  });

  test.each([
    ['a delayed object', braked, [0, 1, 0]],
    ['a stalled object', stalled, [0, 0, 1]],
    ['an object that waits', waits, [0, 0, 0]],
    ['a success', DONE, [0, 0, 0]],
    ['an object that is gone', { kind: 'gone' } as const, [0, 0, 0]],
    ['a pass that the brake holds: the state before stays', { ...DONE, isHeld: true }, [1, 0, 0]],
  ])('%s is counted as such', async (_what, result, expected) => {
    const { observed, fail, metrics } = observe();
    fail('a', 'no');
    observed.pass('a', () => false)(result);
    const row = observed.row(undefined);
    expect([row.failing, row.delayed, row.stalled]).toEqual(expected);
    expect(await metrics.text()).toContain(
      `gatehouse_controller_failing_objects{controller="users"} ${row.failing}\n`,
    );
  });

  test('a conflict, or the loss of the leadership, is no failure of the object', () => {
    const { observed } = observe();
    const error = new Error('conflict');
    observed.pass('a', () => true)({ kind: 'failed', error, reason: 'ReconcileFailed' });
    expect(observed.row(undefined).failing).toBe(0);
  });

  test.each([
    [404, 'NotServed'],
    [403, 'Forbidden'],
    [500, 'Failed'],
  ] as const)('a kind whose watch fails with %i is missing: %s', async (code, why) => {
    const { observed, metrics } = observe();
    const error = new ApiError({ method: 'GET', path: '/x' }, { code, status: {} });
    const kind = { group: 'people.example.com', resource: 'users' };
    observed.runs({ objects: () => 3, queued: () => 2, failures: () => [{ kind, error }] });
    const { missing, objects, queued } = observed.row(undefined);
    expect(missing).toMatchObject([{ kind: 'users.people.example.com', why }]);
    expect([objects, queued]).toEqual([3, 2]);
    expect(await metrics.text()).toContain('gatehouse_controller_missing_kinds{controller="users"} 1\n');
    observed.ends();
    expect(observed.row(undefined).missing).toEqual([]);
  });

  test('the oldest pass is named until it ends', () => {
    const { observed, at } = observe();
    const ended = observed.pass('old', () => false);
    at(60);
    observed.pass('new', () => false);
    expect(observed.row(undefined)).toMatchObject({ active: 2, oldestPass: { object: 'old' } });
    ended(DONE);
    expect(observed.row(undefined)).toMatchObject({ active: 1, oldestPass: { object: 'new' } });
  });
});

function publishing(leader = 'one', cluster = createCluster()) {
  let now = NOW;
  let rows: readonly PublishedController[] = [observe().observed.row(undefined)];
  const stored = cluster.objects<ConfigMap>(configMaps);
  const place = { namespace: OWN_NAMESPACE, leader };
  const reconcile = createStateReconciler(
    cluster.client,
    place,
    () => rows,
    () => now,
  );
  const key = `${OWN_NAMESPACE}/${CONTROLLERS_CONFIGMAP}`;
  return {
    cluster,
    stored,
    key,
    run: (seconds: number, next = rows) => {
      now = after(seconds);
      rows = next;
      return reconcile(CONTROLLERS_CONFIGMAP, NEVER);
    },
    state: () => parseState(stored.read(key) ?? {}),
    row: observe().observed.row(undefined),
  };
}

describe('the ConfigMap', () => {
  test('is written if something differs, and not by a cluster at rest; passes alone are written each minute', async () => {
    const { run, stored, row, key, state } = publishing();
    const worked = { ...row, lastPass: { at: '2026-03-01T12:00:05Z', object: 'a', result: 'success' } };
    const steps: readonly (readonly [number, readonly PublishedController[], number])[] = [
      [0, [row], 1],
      [10, [row], 1],
      [20, [worked], 1],
      [70, [worked], 2],
      [80, [{ ...worked, failing: 1 }], 3],
      [3_600, [{ ...worked, failing: 1 }], 3],
    ];
    for (const [seconds, rows, writes] of steps) {
      await run(seconds, rows);
      expect([seconds, stored.writes()]).toEqual([seconds, writes]);
    }
    expect(stored.read(key)?.metadata?.labels).toMatchObject({ 'velero.io/exclude-from-backup': 'true' });
    expect(state()).toMatchObject({ leader: 'one', controllers: [{ name: 'users', failing: 1 }] });
  });

  test('without controllers, nothing is written, and a removed controller is only remembered', async () => {
    const empty = publishing();
    await empty.run(0, []);
    expect(empty.stored.writes()).toBe(0);
    const before = publishing();
    await before.run(0);
    const later = publishing('two', before.cluster);
    await later.run(60, []);
    await later.run(600, []);
    const former = [{ name: 'users', watches: 'users.people.example.com' }];
    expect(later.state()).toMatchObject({ leader: 'two', controllers: [], former });
    expect(later.stored.writes()).toBe(2);
  });

  test('another leader writes its name, even if nothing else differs, and repairs what is no state', async () => {
    const one = publishing();
    await one.run(0);
    const two = publishing('two', one.cluster);
    await two.run(1);
    expect(two.state()?.leader).toBe('two');
    two.stored.patch(two.key, { data: { 'report.json': 'garbage' } });
    await two.run(2);
    expect(two.state()).toBeUndefined();
    await two.run(700);
    expect(two.state()?.leader).toBe('two');
  });

  test('the state of thousands of controllers fits, and those with problems are shown', () => {
    const text = '\u{1f600}'.repeat(300);
    const trouble = {
      object: 'n'.repeat(317),
      kind: 'failing',
      reason: text,
      message: text,
      since: 's',
    } as const;
    const row = { ...publishing().row, troubles: Array.from({ length: 5 }, () => trouble) };
    const rows = Array.from({ length: 2_000 }, (_, index) => ({ ...row, failing: index === 1_999 ? 1 : 0 }));
    for (const all of [rows, rows.slice(0, 25)]) {
      const state = stateOf('one', all, undefined, NOW);
      expect(Buffer.byteLength(JSON.stringify(state, undefined, 1))).toBeLessThan(1_000_000);
    }
    const { controllers, omitted } = stateOf('one', rows, undefined, NOW);
    expect([controllers.length, omitted, controllers[0]?.failing]).toEqual([100, 1_900, 1]);
  });

  test.each([
    '',
    'x',
    '[]',
    '{"at":5}',
    '{"at":"2026-03-01T12:00:00Z","controllers":{}}',
    '{"at":"2026-03-01T12:00:00Z","controllers":[{"name":"a b","watches":"users"}]}',
    '{"at":"2026-03-01T12:00:00Z","controllers":[],"former":[{"name":"a","watches":"../x"}]}',
  ])('%j is no state', (text) => {
    expect(parseState({ data: { 'report.json': text } })).toBeUndefined();
  });
});
