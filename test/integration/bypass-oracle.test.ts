/** The oracle of the bypass search: it has to find each planted violation, and leave alone what is explained. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

import { HANDLED, MARK } from '../bypass/kinds.ts';
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

const X = object('x', { capacity: 10 });
const withWidgets = (...widgets: readonly Json[]) => stored({ bins: [X], widgets });
const judge = (before: Stored, after: Stored, step: Step = ALICE) =>
  judgeStep(before, after, step, new Set());

const purple = widget({ color: 'purple' });
const kept = widget({}, { labels: { [MARK]: 'yes', keep: 'yes' } });

test.each<[string, Stored, Stored, Step]>([
  ['widgets/a: schema: spec.color is purple', withWidgets(), withWidgets(purple), ALICE],
  ['widgets/a: schema: spec.color is purple', withWidgets(), withWidgets(purple), RESTORER],
  ['widgets/a: keep: it was deleted', withWidgets(kept), withWidgets(), ALICE],
])('it finds %s', (problem, before, after, step) => {
  expect(judge(before, after, step)).toEqual([problem]);
});

test('it excuses what a window defers, what an exception permits, and what was wrong before', () => {
  expect(judge(withWidgets(), withWidgets(widget({ bin: 'nowhere', units: 3 })), RESTORER)).toEqual([]);
  expect(judge(withWidgets(), withWidgets(purple), MOVER)).toEqual([]);
  const labels = { [MARK]: 'yes', [HANDLED]: 'yes', n: 'y' };
  const labelled = widget({ bin: 'gone' }, { labels });
  expect(judge(withWidgets(widget({ bin: 'gone' })), withWidgets(labelled))).toEqual([]);
});

test.each(MUTANTS.flatMap(({ name, changes }) => changes.map((change) => [name, change] as const)))(
  'the hole can still be opened: %s',
  (_name, { file, from }) => {
    const source = readFileSync(join(import.meta.dirname, '..', '..', file), 'utf8');
    expect(source.split(from)).toHaveLength(2);
  },
);
