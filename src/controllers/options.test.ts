/** What a definition can set besides what it watches. */
import { describe, expect, test } from 'vitest';

import { defineController, type ControllerContext, type ControllerDefinition } from './controller.ts';
import { runController } from './run-controller.ts';

const WATCH = { apiGroups: ['example.com'], apiVersions: ['v1'], resources: ['teams'] } as const;

describe('own metrics', () => {
  const measured = async (work: (metric: ControllerContext['metric']) => void) =>
    await runController(
      defineController({
        watch: WATCH,
        metrics: {
          teams_seen_total: { type: 'counter', help: 'Teams.', labels: ['place'] },
          teams_size: { type: 'gauge', help: 'Size.' },
        },
        reconcile: (_team, { metric }) => {
          work(metric);
        },
      }),
      { object: { apiVersion: 'example.com/v1', kind: 'Team', metadata: { name: 'a' } } },
    );

  test('a run returns the calls', async () => {
    const { metrics, error } = await measured((metric) => {
      metric('teams_seen_total').add(2, { place: 'x' });
      metric('teams_size').set(3);
    });
    expect(error).toBeUndefined();
    expect(metrics).toEqual([
      { name: 'teams_seen_total', verb: 'add', value: 2, labels: { place: 'x' } },
      { name: 'teams_size', verb: 'set', value: 3, labels: {} },
    ]);
  });

  test.each<[what: string, work: (metric: ControllerContext['metric']) => void, problem: string]>([
    ['another name', (metric) => metric('x'), 'metric x: it is not in metrics, which has teams_seen_total'],
    ['another verb', (metric) => metric('teams_seen_total').set(1), 'a counter has add, remove, not set'],
    ['a falling counter', (metric) => metric('teams_seen_total').add(-1), '-1 is not a number'],
    ['no number', (metric) => metric('teams_size').set(NaN), 'NaN is not a number'],
    [
      'another label',
      (metric) => metric('teams_size').set(1, { x: 'y' }),
      'x is not in labels, which has none',
    ],
  ])('%s is an error of the pass', async (_what, work, problem) => {
    expect((await measured(work)).error?.message).toContain(problem);
  });
});

test.each<[what: string, more: object, problem: string]>([
  ['a name of Gatehouse', { metrics: { gatehouse_x: { type: 'counter', help: 'x' } } }, 'metrics: write'],
  [
    'a label of Gatehouse',
    { metrics: { x: { type: 'gauge', help: 'x', labels: ['controller'] } } },
    'metrics: write',
  ],
  ['no rate', { rateLimit: { passesPerSecond: 0 } }, 'rateLimit.passesPerSecond: write a number above 0'],
  [
    'half a burst',
    { rateLimit: { passesPerSecond: 1, burst: 0.5 } },
    'rateLimit.burst: write a number of passes',
  ],
  ['no longest delay', { retry: { baseSeconds: 1 } }, 'retry'],
])('defineController refuses %s', (_what, more, problem) => {
  expect(() => defineController({ watch: WATCH, reconcile: () => undefined, ...more })).toThrow(problem);
});

describe('a deletion that takes long', () => {
  const ending = {
    apiVersion: 'example.com/v1',
    kind: 'Team',
    metadata: {
      name: 'a',
      deletionTimestamp: '2026-01-01T00:00:00Z',
      finalizers: ['gatehouse.dev/controller-controller'],
    },
  };
  const ended = async (minutes: number, finalize: NonNullable<ControllerDefinition['finalize']>) =>
    await runController(defineController({ watch: WATCH, reconcile: () => undefined, finalize }), {
      object: ending,
      now: new Date(Date.UTC(2026, 0, 1, 0, minutes)),
    });
  const waits: NonNullable<ControllerDefinition['finalize']> = (_team, { wait }) =>
    wait('NotEmpty', 'the bucket has 3 objects');
  const throws: NonNullable<ControllerDefinition['finalize']> = () => {
    throw new Error('the cloud is down');
  };

  test.each([
    ['a wait', waits, 'not deleted since 2026-01-01T00:00:00Z: NotEmpty: the bucket has 3 objects'],
    ['an error', throws, 'not deleted since 2026-01-01T00:00:00Z: FinalizeFailed: the cloud is down'],
  ] as const)('%s is named as what blocks it', async (_what, finalize, message) => {
    const { conditions, events, object } = await ended(11, finalize);
    expect(conditions).toContainEqual(
      expect.objectContaining({ type: 'Ready', reason: 'FinalizeBlocked', message }),
    );
    expect(events).toContainEqual({ type: 'Warning', reason: 'FinalizeBlocked', message });
    expect(object?.metadata?.finalizers).toHaveLength(1);
  });

  test('before ten minutes, it is usual', async () => {
    const { conditions } = await ended(9, waits);
    expect(conditions).toContainEqual(expect.objectContaining({ type: 'Ready', reason: 'NotEmpty' }));
  });
});
