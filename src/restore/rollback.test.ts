import { expect, test } from 'vitest';
import { judgeSight, toNumber, type LeaseMemory, type LeaseSight, type SightVerdict } from './rollback.ts';

const sight = (epoch?: number, version?: number, rollback?: string): LeaseSight => ({
  epoch: epoch === undefined ? undefined : BigInt(epoch),
  resourceVersion: version === undefined ? undefined : BigInt(version),
  rollback,
});

/** What each look says, one after the other. */
function look(...sights: readonly LeaseSight[]): readonly SightVerdict[] {
  let memory: LeaseMemory | undefined;
  return sights.map((one) => {
    const verdict = judgeSight(memory, one);
    memory = verdict.memory;
    return verdict;
  });
}

const evidence = (...sights: readonly LeaseSight[]) =>
  look(...sights).map(({ rollback }) => rollback?.evidence);
const courses = (...sights: readonly LeaseSight[]) => look(...sights).map(({ course }) => course);

test('a lease that is renewed again and again shows no rollback', () => {
  const sights = [sight(7, 100), sight(8, 104), sight(8, 104), sight(9, 120)];
  expect(evidence(...sights)).toEqual([undefined, undefined, undefined, undefined]);
  expect(courses(...sights)).toEqual(['onward', 'onward', 'standing', 'onward']);
});

test.each([
  ['epoch and resourceVersion', sight(300, 5_000), 'Epoch'],
  ['the epoch, where etcd skipped ahead in its revisions', sight(300, 1_000_006_000), 'Epoch'],
  ['the resourceVersion, where the epoch is gone', sight(undefined, 5_000), 'ResourceVersion'],
])('F11: a lease that went back in %s is a rollback', (_what, now, by) => {
  const [, verdict] = look(sight(500, 6_000), now);
  expect(verdict?.rollback?.evidence).toBe(by);
  expect(verdict?.course).toBe('back');
});

test('the next epoch is above all that were ever seen, so that nobody takes the new time for the old', () => {
  expect(look(sight(500, 6_000), sight(300, 5_000)).at(-1)?.memory.highest).toBe(500n);
});

test('one rollback is reported once, also while the old copy stays and when somebody goes on from it', () => {
  const copy = sight(300, 5_000);
  expect(evidence(sight(500, 6_000), copy, copy, sight(301, 5_004))).toEqual([
    undefined,
    'Epoch',
    undefined,
    undefined,
  ]);
});

test('an old copy stays one, however often it is looked at, until a leader goes on above all epochs', () => {
  const copy = sight(300, 5_000);
  expect(courses(sight(500, 6_000), copy, copy, sight(301, 5_004), sight(501, 5_008))).toEqual([
    'onward',
    'back',
    'back',
    'back',
    'onward',
  ]);
});

test('a second rollback is another one', () => {
  expect(evidence(sight(500, 6_000), sight(300, 5_000), sight(501, 5_004), sight(300, 5_000))).toEqual([
    undefined,
    'Epoch',
    undefined,
    'Epoch',
  ]);
});

test('a replica that looked too late to see the old copy is told', () => {
  expect(evidence(sight(500, 6_000), sight(501, 5_004, '501'))).toEqual([undefined, 'ResourceVersion']);
  expect(evidence(sight(500, 6_000), sight(501, 1_000_006_004, '501'))).toEqual([undefined, 'Told']);
  expect(evidence(sight(501, 1_000_006_004, '501'), sight(502, 1_000_006_008, '501'))).toEqual([
    undefined,
    undefined,
  ]);
});

test('a replica that saw it itself is not told again, and knows when it has been announced', () => {
  const verdicts = look(
    sight(500, 6_000),
    sight(300, 5_000),
    sight(501, 5_004, '501'),
    sight(502, 5_008, '501'),
  );
  expect(verdicts.map(({ rollback }) => rollback?.evidence)).toEqual([
    undefined,
    'Epoch',
    undefined,
    undefined,
  ]);
  expect(verdicts.map(({ memory }) => memory.unannounced)).toEqual([false, true, false, false]);
});

test('the announcement of a rollback that was before one started is no news', () => {
  expect(evidence(sight(900, 6_000, '501'))).toEqual([undefined]);
});

test('what is not a number is unknown, never a rollback', () => {
  const nothing: LeaseSight = {
    epoch: toNumber('x'),
    resourceVersion: toNumber('aGk='),
    rollback: undefined,
  };
  expect(evidence(sight(500, 6_000), nothing, sight(501, 6_004))).toEqual([undefined, undefined, undefined]);
  expect(courses(sight(500, 6_000), nothing)).toEqual(['onward', 'standing']);
});

test('an annotation that was taken away hides no rollback of the epoch after it', () => {
  expect(evidence(sight(500, 6_000), sight(undefined, 6_004), sight(300, 6_008)).at(-1)).toBe('Epoch');
});

test.each([
  ['12', 12n],
  ['9007199254740993', 9_007_199_254_740_993n],
  ['', undefined],
  ['-1', undefined],
  ['1e3', undefined],
  ['1'.repeat(31), undefined],
  [undefined, undefined],
])('of %j the number is %s', (text, number) => {
  expect(toNumber(text)).toBe(number);
});
