/** The oracle of the chaos suite: it has to find each wrong verdict that is planted, and leave what is right alone. */
import { describe, expect, test } from 'vitest';

import { machine, RESTORED_NAMESPACE, STAMP, type Machine, type MachineSpec } from '../chaos/kinds.ts';
import { judgeLeaders, type ReplicaWrite } from '../chaos/leader-writes.ts';
import { judgeAnswer, problemsOfStored, type Expected, type Heard } from '../chaos/oracle.ts';
import { contradiction } from '../chaos/stock.ts';
import { createTally, type Facts } from '../chaos/tally.ts';

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
  test.each<[string, Expected, Heard]>([
    ['an accepted valid object', ACCEPT, answered(201, '', stored(GOOD))],
    ['a refused invalid object', REFUSE, denied('spec.units: a machine has 64 units at most')],
  ])('%s is right', (_what, expected, heard) => {
    expect(judgeAnswer(expected, heard, SENT, ['r1'])).toEqual({ kind: 'right' });
  });

  test.each<[string, Expected, Heard, string]>([
    ['an accepted invalid object', REFUSE, answered(201, '', stored(GOOD)), 'accepted, though'],
    ['a refused valid object', ACCEPT, denied('spec.rack: there is none'), 'refused, though'],
    ['a refusal for another reason', REFUSE, denied('spec.rack: there is none'), 'not for spec.units'],
    ['a missing default', ACCEPT, answered(201, '', stored(SENT)), 'spec.tier is absent'],
    ['a missing mutation', ACCEPT, answered(201, '', stored(GOOD, '')), 'its stamp is ""'],
    ['the mutation of an old policy', ACCEPT, answered(201, '', stored(GOOD, 'r0')), 'its stamp is "r0"'],
    [
      'a lost field',
      ACCEPT,
      answered(201, '', stored({ ...GOOD, units: undefined })),
      'spec.units is absent',
    ],
    ['a changed field', ACCEPT, answered(201, '', stored({ ...GOOD, serial: 't' })), 'spec.serial is "t"'],
  ])('%s is wrong', (_what, expected, heard, why) => {
    const judged = judgeAnswer(expected, heard, SENT, ['r1']);
    expect(judged).toMatchObject({ kind: 'wrong', why: expect.stringContaining(why) as string });
  });

  test('both stamps are right during a change of the policy', () => {
    for (const stamp of ['r0', 'r1'])
      expect(judgeAnswer(ACCEPT, answered(200, '', stored(GOOD, stamp)), SENT, ['r0', 'r1']).kind).toBe(
        'right',
      );
  });

  test.each<[string, Heard, string]>([
    [
      'a broken webhook call',
      answered(500, 'Internal error occurred: failed calling webhook "a": EOF'),
      'undecided',
    ],
    [
      'a decision to try again',
      answered(429, 'admission webhook "a" denied the request: was claimed a moment ago'),
      'undecided',
    ],
    ['an API server that is down', { code: undefined, message: 'connect ECONNREFUSED' }, 'not-asked'],
    ['an API server without storage', answered(500, 'etcdserver: leader changed'), 'not-asked'],
    ['an object that is gone', answered(404, 'machines.chaos.example.com "one" not found'), 'not-asked'],
  ])('%s is no verdict, whatever the expected answer', (_what, heard, kind) => {
    for (const expected of [ACCEPT, REFUSE])
      expect(judgeAnswer(expected, heard, SENT, ['r1']).kind).toBe(kind);
  });
});

describe('a stored object', () => {
  const check = (...machines: readonly Machine[]) =>
    problemsOfStored(machines, new Set(['rack-0']), new Set(['r0', 'r1'])).map(({ why }) => why);

  test('is right if it satisfies every policy', () => {
    expect(check(stored(GOOD), stored({ ...GOOD, serial: 't' }, 'r0', 'two'))).toEqual([]);
  });

  test('of a restore may lack a stamp', () => {
    const { metadata, spec } = stored(GOOD, '');
    expect(check({ ...machine(RESTORED_NAMESPACE, metadata?.name ?? '', spec) })).toEqual([]);
  });

  test.each<[string, Machine, string]>([
    ['with a missing rack', stored({ ...GOOD, rack: 'gone' }), 'its rack gone does not exist'],
    ['without a rack', stored({ ...GOOD, rack: undefined }), 'it names no rack'],
    ['with too many units', stored({ ...GOOD, units: 65 }), 'it has 65 units'],
    ['without a tier', stored(SENT), 'it has no tier'],
    ['without a stamp', stored(GOOD, ''), 'its stamp is ""'],
  ])('%s is wrong', (_what, one, why) => {
    expect(check(one)).toEqual([why]);
  });

  test('with the serial of another object is wrong', () => {
    expect(check(stored(GOOD), stored(GOOD, 'r1', 'two'))).toEqual(['its serial s is also that of east/one']);
  });

  test.each<[string, readonly (MachineSpec | undefined)[], Machine | undefined, boolean]>([
    ['is right if it is as written', [SENT], stored(GOOD), true],
    ['is wrong if it is not as written', [SENT], stored({ ...GOOD, units: 4 }), false],
    ['is wrong if it is lost', [SENT], undefined, false],
    ['is wrong if it was deleted', [undefined], stored(GOOD), false],
    ['is right if it equals one of the unanswered writes', [undefined, SENT], stored(GOOD), true],
    [
      'is wrong if it equals none of the unanswered writes',
      [SENT, { ...SENT, units: 4 }],
      stored({ ...GOOD, units: 5 }),
      false,
    ],
  ])('%s', (_what, possible, found, isFine) => {
    expect(contradiction({ possible }, found) === undefined).toBe(isFine);
  });
});

describe('a broken webhook call', () => {
  const broken = { kind: 'undecided', why: 'failed calling webhook "a": EOF' } as const;
  const waiting = { at: 150, port: 1, unanswered: () => true };
  const nothing: Facts = { outages: [], breaks: [], kills: [] };
  const judged = (facts: Facts, times = 1) => {
    const tally = createTally();
    for (let time = 0; time < times; time += 1) tally.record('POST', broken, 100, 200);
    const { failed, cutOff, notAsked } = tally.take(facts);
    return { failed: failed.length, cutOff: cutOff.length, notAsked: notAsked.length };
  };

  test('is excused by a connection that broke at a kill during the request, once for each such connection', () => {
    const facts = { ...nothing, breaks: [waiting], kills: [149] };
    expect(judged(facts)).toEqual({ failed: 0, cutOff: 1, notAsked: 0 });
    expect(judged(facts, 2)).toEqual({ failed: 1, cutOff: 1, notAsked: 0 });
  });

  test.each<[string, Facts]>([
    ['nothing broke', { ...nothing, kills: [149] }],
    ['no process was killed', { ...nothing, breaks: [waiting] }],
    [
      'the connection was idle',
      { ...nothing, breaks: [{ ...waiting, unanswered: () => false }], kills: [149] },
    ],
    ['it broke before the request', { ...nothing, breaks: [{ ...waiting, at: 99 }], kills: [98] }],
    ['it broke after the answer', { ...nothing, breaks: [{ ...waiting, at: 300 }], kills: [299] }],
  ])('counts as a failure when %s', (_what, facts) => {
    expect(judged(facts)).toEqual({ failed: 1, cutOff: 0, notAsked: 0 });
  });

  test('does not count while etcd was down', () => {
    expect(judged({ ...nothing, outages: [{ from: 150, to: 160 }] })).toEqual({
      failed: 0,
      cutOff: 0,
      notAsked: 1,
    });
    expect(judged({ ...nothing, outages: [{ from: 210, to: 260 }] }).failed).toBe(1);
  });
});

test('a request that never reached admission counts as a failure if the API server was not stopped', () => {
  const tally = createTally();
  tally.record('POST', { kind: 'not-asked', why: 'connect ECONNREFUSED' }, 100, 200);
  expect(tally.take({ outages: [], breaks: [], kills: [] }).failed).toHaveLength(1);
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
    const verdict = judgeLeaders([
      lease('a', 1),
      write('a', 2),
      lease('b', 10),
      write('b', 11),
      lease('a', 20),
    ]);
    expect(verdict).toEqual({ writes: 2, terms: 3, problems: [] });
  });

  test.each<[string, readonly ReplicaWrite[]]>([
    ['from a replica that has lost the lease', [lease('a', 1), lease('b', 10), write('a', 11)]],
    ['from a replica that never had the lease', [lease('a', 1), write('b', 2)]],
    ['before the lease exists', [write('a', 1), lease('a', 2)]],
  ])('%s are wrong', (_what, writes) => {
    expect(judgeLeaders(writes).problems).toHaveLength(1);
  });
});
