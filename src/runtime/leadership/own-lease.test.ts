import { expect, test } from 'vitest';
import type { LeaseObject } from '../../kube/lease/lease-record.ts';
import { createOwnLease } from './own-lease.ts';

const START = Date.parse('2026-03-01T12:00:00Z');

interface Lease {
  readonly epoch?: string;
  readonly version?: string;
  readonly renewedAt?: number;
  readonly rollback?: string;
  readonly due?: string;
}

const lease = ({ epoch, version = '1', renewedAt = START, rollback, due }: Lease): LeaseObject => ({
  metadata: {
    resourceVersion: version,
    annotations: {
      theirs: 'kept',
      ...(epoch === undefined ? {} : { 'gatehouse.dev/epoch': epoch }),
      ...(rollback === undefined ? {} : { 'gatehouse.dev/rollback': rollback }),
      ...(due === undefined ? {} : { 'gatehouse.dev/sweep-due': due }),
    },
  },
  spec: { holderIdentity: 'a', renewTime: new Date(renewedAt).toISOString() },
});

function replica() {
  let now = START;
  const evidence: string[] = [];
  const due: string[] = [];
  let relisted = 0;
  const own = createOwnLease({
    rollbacks: { tell: () => (relisted += 1) },
    metrics: { rollback: (one) => evidence.push(one) },
    serverClock: { now: () => new Date(now) },
    log: { warn: () => undefined },
  });
  own.onSweepDue((name) => due.push(name));
  return {
    ...own,
    look: (...leases: readonly Lease[]) => leases.map((one) => own.notes.judge(lease(one))),
    next: (over: Lease | undefined) => own.notes.annotations(over && lease(over)),
    evidence,
    due,
    relisted: () => relisted,
    pass: (ms: number) => (now += ms),
  };
}

test('the epoch rises with each write, and the annotations of others stay', () => {
  const { look, next } = replica();
  expect(next(undefined)).toEqual({ 'gatehouse.dev/epoch': '1' });
  look({ epoch: '7' });
  expect(next({ epoch: '7' })).toEqual({ theirs: 'kept', 'gatehouse.dev/epoch': '8' });
});

test('F11: a rollback is told once; the next write announces it, and asks for the sweep', () => {
  const { look, next, evidence, relisted, due, sweepDue } = replica();
  look({ epoch: '500', version: '6000' }, { epoch: '300', version: '5000' });
  look({ epoch: '300', version: '5000' });
  expect([evidence, relisted()]).toEqual([['Epoch'], 1]);
  expect(next({ epoch: '300' })).toEqual({
    theirs: 'kept',
    'gatehouse.dev/epoch': '501',
    'gatehouse.dev/rollback': '501',
    'gatehouse.dev/sweep-due': 'rollback-501',
  });
  const announced = { epoch: '501', version: '5004', rollback: '501', due: 'rollback-501' };
  look(announced, { ...announced, epoch: '502' });
  expect([due, sweepDue()]).toEqual([['rollback-501'], 'rollback-501']);
  expect(next(announced)['gatehouse.dev/sweep-due']).toBe('rollback-501');
});

test('what was asked for is taken off the lease, and not asked for again', () => {
  const { look, next, sweepAsked, sweepDue } = replica();
  const standing = { epoch: '5', due: 'rollback-4' };
  look(standing);
  sweepAsked('rollback-4');
  expect(sweepDue()).toBeUndefined();
  expect(next(standing)).not.toHaveProperty(['gatehouse.dev/sweep-due']);
  look({ ...standing, epoch: '6' }); // a pending write completes
  expect(sweepDue()).toBeUndefined();
});

test('a leader that starts takes over the sweep that the one before it had still to ask for', () => {
  const { look, due } = replica();
  look({ epoch: '5', due: 'startup-1772365799' });
  expect(due).toEqual(['startup-1772365799']);
});

test('a lease that nobody has renewed for more than ten minutes asks for a sweep', () => {
  const { look, next } = replica();
  const left = { epoch: '5', renewedAt: START - 11 * 60_000 };
  look(left);
  expect(next(left)['gatehouse.dev/sweep-due']).toBe(`startup-${START / 1_000 - 660}`);
  expect(next({ epoch: '5', renewedAt: START - 60_000 })).not.toHaveProperty(['gatehouse.dev/sweep-due']);
});

test('an old time on the lease is no absence where this replica has seen that somebody leads', () => {
  const { look, next, pass } = replica();
  look({ epoch: '5' }, { epoch: '6' });
  const copy = { epoch: '6', renewedAt: START - 3_600_000 };
  look(copy);
  expect(next(copy)).not.toHaveProperty(['gatehouse.dev/sweep-due']);
  pass(11 * 60_000);
  expect(next(copy)).toHaveProperty(['gatehouse.dev/sweep-due']);
});

test('a lease that was made by a version without an epoch gets one, and is no rollback', () => {
  const { look, next, evidence } = replica();
  look({ version: '10' }, { version: '14' });
  expect(evidence).toEqual([]);
  expect(next({})['gatehouse.dev/epoch']).toBe('1');
});
