/** The oracle of the bypass search: it has to find each planted violation, and leave alone what is explained. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';

import { HANDLED, HOLD, MARK } from '../bypass/kinds.ts';
import { MUTANTS } from '../bypass/mutants.ts';
import type { Json } from '../bypass/objects.ts';
import { judgeStep, type Stored } from '../bypass/oracle.ts';
import type { Kind, Step, Write } from '../bypass/steps.ts';

const write = (rest: Partial<Write> = {}): Write => ({
  ...{ via: 'merge', kind: 'widgets', name: 'a', set: [], forged: [], padding: 'none' },
  ...{ as: 'alice', version: 'v1', dryRun: false, bare: false },
  ...rest,
});
const ALICE: Step = [write()];
const RESTORER: Step = [write({ as: 'restorer' })];
const MOVER: Step = [write({ as: 'mover' })];

let versions = 0;
const object = (name: string, spec: object, metadata: object = {}): Json => ({
  metadata: { name, uid: `uid-of-${name}`, resourceVersion: String((versions += 1)), ...metadata },
  spec,
});
const widget = (spec: object = {}, metadata: object = {}, name = 'a'): Json =>
  object(
    name,
    { bin: 'x', color: 'red', tier: 'standard', ...spec },
    { labels: { [MARK]: 'yes', [HANDLED]: 'yes' }, ...metadata },
  );
const bin = (capacity: number, name = 'x') => object(name, { capacity });
const DELETING = { deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: [HOLD] };

function stored(objects: Partial<Record<Kind, readonly Json[]>>): Stored {
  const named = (kind: Kind) =>
    new Map(
      (objects[kind] ?? []).map((one) => [(one.metadata as { readonly name: string }).name, one] as const),
    );
  return {
    widgets: named('widgets'),
    bins: named('bins'),
    deployments: named('deployments'),
    pods: named('pods'),
  };
}

const X = bin(10);
const withWidgets = (...widgets: readonly Json[]) => stored({ bins: [X], widgets });
const judge = (before: Stored, after: Stored, step: Step = ALICE) =>
  judgeStep(before, after, step, new Set());

describe('a violation is found', () => {
  test.each<[string, Json]>([
    ['schema', widget({ color: 'purple' })],
    ['schema', widget({ color: undefined })],
    ['default', widget({ tier: undefined })],
    ['mutation', widget({}, { labels: { [HANDLED]: 'yes' } })],
    ['handled', widget({}, { labels: { [MARK]: 'yes' } })],
    ['owner', widget({ owner: 'root' })],
    ['replicas', widget({ replicas: 6 })],
    ['bin', widget({ bin: 'nowhere' })],
    ['bin', widget({ bin: undefined })],
    ['spare', widget({ spare: 'nowhere' })],
    ['fits', widget({ units: 11 })],
    ['fits', widget({ units: 1, bin: 'nowhere' })],
    ['phase', { ...widget(), status: { phase: 'broken' } }],
    ['default', widget({ tier: undefined }, DELETING)],
  ])('%s: in a new object', (check, one) => {
    expect(judge(withWidgets(), withWidgets(one)).join('\n')).toContain(`widgets/a: ${check}: `);
  });

  test.each<[string, Json, Json]>([
    ['immutable', widget({ zone: 'east' }), widget({ zone: 'west' })],
    ['immutable', widget({ zone: 'east' }), widget()],
    ['level', widget({ level: 3 }), widget({ level: 2 })],
    ['owner', widget({}, DELETING), widget({ owner: 'root' }, DELETING)],
    ['fits', widget({ units: 11 }), widget({ units: 12 })],
    ['bin', widget({ bin: 'gone' }, DELETING), widget({ bin: 'nowhere' }, { ...DELETING, uid: 'another' })],
  ])('%s: in a change', (check, old, now) => {
    expect(judge(withWidgets(old), withWidgets(now)).join('\n')).toContain(`widgets/a: ${check}: `);
  });

  test('a shared serial', () => {
    const [one, two] = [widget({ serial: 's' }), widget({ serial: 's' }, {}, 'b')];
    expect(judge(withWidgets(one), withWidgets(one, two))).toEqual([
      'widgets: unique: a and b share the serial s',
    ]);
    expect(judge(withWidgets(one, two), withWidgets(one, two))).toEqual([]);
  });

  test('a deletion', () => {
    const kept = widget({}, { labels: { [MARK]: 'yes', keep: 'yes' } });
    expect(judge(withWidgets(kept), withWidgets())).toEqual(['widgets/a: keep: it was deleted']);
    const home = widget({ home: 'x' });
    expect(judge(withWidgets(home), stored({ widgets: [home] }))).toEqual([
      'bins/x: home: it was deleted, and widgets/a names it',
    ]);
    const pods = [object('keep', {})];
    expect(judge(stored({ pods }), stored({}))).toEqual(['pods/keep: keep: it was deleted']);
  });

  test('a Deployment', () => {
    const deployments = [object('d', { replicas: 9 }, { labels: { verdict: 'bad' } })];
    expect(judge(stored({}), stored({ deployments }))).toEqual([
      'deployments/d: verdict: the verdict is bad',
      'deployments/d: replicas: spec.replicas is 9',
    ]);
  });
});

describe('nothing is reported', () => {
  test.each<[string, Step, Json | undefined, Json]>([
    ['a valid object', ALICE, undefined, widget({ units: 10 })],
    ['the window of the restorer', RESTORER, undefined, widget({ bin: 'nowhere', units: 3 })],
    ['an exception for a user', MOVER, undefined, widget({ color: 'purple' })],
    ['an exception for a name', ALICE, undefined, widget({ owner: 'root' }, {}, 'exempt-d')],
    [
      'the same violation as before',
      ALICE,
      widget({ bin: 'gone' }),
      widget({ bin: 'gone' }, { labels: { [MARK]: 'yes', [HANDLED]: 'yes', n: 'y' } }),
    ],
    [
      'the same check during the deletion',
      ALICE,
      widget({ units: 11 }, DELETING),
      widget({ units: 12 }, DELETING),
    ],
  ])('%s', (_what, step, old, now) => {
    expect(judge(withWidgets(...(old === undefined ? [] : [old])), withWidgets(now), step)).toEqual([]);
  });

  test('only the checks that a window defers are excused', () => {
    const found = judge(withWidgets(), withWidgets(widget({ bin: 'nowhere', color: 'purple' })), RESTORER);
    expect(found).toEqual(['widgets/a: schema: spec.color is purple']);
    const fits = judge(withWidgets(), withWidgets(widget({ units: 11 })), RESTORER);
    expect(fits.join()).toContain('widgets/a: fits: ');
  });

  test('a value that a restorer has stored twice', () => {
    const restored = new Set<unknown>();
    const [one, two, three] = ['a', 'b', 'c'].map((name) => widget({ serial: 's' }, {}, name));
    if (one === undefined || two === undefined || three === undefined) throw new Error('three widgets');
    expect(judgeStep(withWidgets(one), withWidgets(one, two), RESTORER, restored)).toEqual([]);
    expect(judgeStep(withWidgets(one, two), withWidgets(one, two, three), ALICE, restored)).toEqual([]);
  });
});

test.each(MUTANTS.flatMap(({ name, changes }) => changes.map((change) => [name, change] as const)))(
  'the hole can still be opened: %s',
  (_name, { file, from }) => {
    const source = readFileSync(join(import.meta.dirname, '..', '..', file), 'utf8');
    expect(source.split(from)).toHaveLength(2);
  },
);
