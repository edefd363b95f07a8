/** The oracle of the chaos suite: it has to find each wrong verdict that is planted, and leave what is right alone. */
import { describe, expect, test } from 'vitest';

import { machine, STAMP, type Machine, type MachineSpec } from '../chaos/kinds.ts';
import { judgeLeaders, type ReplicaWrite } from '../chaos/leader-writes.ts';
import { judgeAnswer, problemsOfStored, type Expected, type Heard } from '../chaos/oracle.ts';
import { contradiction } from '../chaos/stored.ts';
import { createTally } from '../chaos/tally.ts';

const ACCEPT: Expected = { kind: 'accept' };
const REFUSE: Expected = { kind: 'refuse', because: 'spec.units' };

const stored = (spec: MachineSpec, stamp = 'r1', name = 'one'): Machine => {
  const one = machine('east', name, spec);
  return { ...one, metadata: { ...one.metadata, labels: { [STAMP]: stamp } } };
};

const answered = (code: number, message: string, object?: Machine): Heard => ({ code, message, object });
const denied = (why: string) =>
  answered(403, `admission webhook "validate.gatehouse.dev" denied the request: ${why}`);

const SENT: MachineSpec = { rack: 'rack-0', units: 3, serial: 's' };
const GOOD: MachineSpec = { ...SENT, tier: 'standard' };

describe('an answer', () => {
  test.each<[string, Expected, Heard, string | undefined]>([
    ['an accepted valid object', ACCEPT, answered(201, '', stored(GOOD)), undefined],
    ['a refused invalid object', REFUSE, denied('spec.units: a machine has 64 units at most'), undefined],
    ['an accepted invalid object', REFUSE, answered(201, '', stored(GOOD)), 'accepted, though'],
    ['a refused valid object', ACCEPT, denied('spec.rack: there is none'), 'refused, though'],
    ['a refusal for another reason', REFUSE, denied('spec.rack: there is none'), 'not for spec.units'],
    ['a missing default', ACCEPT, answered(201, '', stored(SENT)), 'spec.tier is absent'],
    ['the mutation of an old policy', ACCEPT, answered(201, '', stored(GOOD, 'r0')), 'its stamp is "r0"'],
    ['a changed field', ACCEPT, answered(201, '', stored({ ...GOOD, serial: 't' })), 'spec.serial is "t"'],
  ])('%s: %4$s', (_what, expected, heard, why) => {
    const judged = judgeAnswer(expected, heard, SENT, ['r1']);
    if (why === undefined) expect(judged).toEqual({ kind: 'right' });
    else expect(judged).toMatchObject({ kind: 'wrong', why: expect.stringContaining(why) as string });
  });

  test.each<[string, Heard, string]>([
    ['a broken webhook call', answered(500, 'failed calling webhook "a": EOF'), 'undecided'],
    ['a decision to try again', answered(429, 'admission webhook "a" denied the request: w'), 'undecided'],
    ['an API server that is down', { code: undefined, message: 'connect ECONNREFUSED' }, 'not-asked'],
  ])('%s is not a verdict, for any expected answer', (_what, heard, kind) => {
    for (const expected of [ACCEPT, REFUSE])
      expect(judgeAnswer(expected, heard, SENT, ['r1']).kind).toBe(kind);
  });
});

describe('a stored object', () => {
  const check = (...machines: readonly Machine[]) =>
    problemsOfStored(machines, new Set(['rack-0']), new Set(['r0', 'r1'])).map(({ why }) => why);

  test.each<[string, readonly Machine[], readonly string[]]>([
    ['right', [stored(GOOD), stored({ ...GOOD, serial: 't' }, 'r0', 'two')], []],
    ['wrong: a missing rack', [stored({ ...GOOD, rack: 'gone' })], ['its rack gone does not exist']],
    ['wrong: without a tier', [stored(SENT)], ['its tier is missing']],
    ['wrong: without a stamp', [stored(GOOD, '')], ['its stamp is ""']],
    [
      'wrong: the serial of another object',
      [stored(GOOD), stored(GOOD, 'r1', 'two')],
      ['its serial s is also that of east/one'],
    ],
  ])('is %s', (_what, machines, problems) => {
    expect(check(...machines)).toEqual(problems);
  });

  test.each<[string, MachineSpec | undefined, Machine | undefined, boolean]>([
    ['is right if it is as written', SENT, stored(GOOD), true],
    ['is wrong if it is not as written', SENT, stored({ ...GOOD, units: 4 }), false],
    ['is wrong if it was deleted', undefined, stored(GOOD), false],
  ])('%s', (_what, spec, found, isFine) => {
    expect(contradiction({ spec }, found) === undefined).toBe(isFine);
  });
});

test('a request without a verdict counts as a failure, except while the test had stopped all replicas', () => {
  const tally = createTally();
  tally.record('POST', { kind: 'undecided', why: 'failed calling webhook "a": EOF' }, 100, 200);
  tally.record('POST', { kind: 'not-asked', why: 'connect ECONNREFUSED' }, 300, 400);
  const { failed, notAsked } = tally.take([{ from: 150, to: 160 }]);
  expect(failed.map(({ from }) => from)).toEqual([300]);
  expect(notAsked.map(({ from }) => from)).toEqual([100]);
});

describe('writes of leaders', () => {
  const lease = (replica: string, done: number): ReplicaWrite => ({
    replica,
    target: 'update leases x',
    isLease: true,
    received: done - 1,
    done,
  });
  const write = (replica: string, received: number): ReplicaWrite => ({
    replica,
    target: 'patch secrets x',
    isLease: false,
    received,
    done: received + 5,
  });

  test('are right when leaders follow one another', () => {
    const writes = [lease('a', 1), write('a', 2), lease('b', 10), write('b', 11), lease('a', 20)];
    expect(judgeLeaders(writes)).toEqual({ writes: 2, terms: 3, problems: [] });
  });

  test.each<[string, readonly ReplicaWrite[]]>([
    ['from a replica that has lost the lease', [lease('a', 1), lease('b', 10), write('a', 11)]],
    ['from a replica that never had the lease', [lease('a', 1), write('b', 2)]],
    ['before the lease exists', [write('a', 1), lease('a', 2)]],
  ])('%s are wrong', (_what, writes) => {
    expect(judgeLeaders(writes).problems).toHaveLength(1);
  });
});
