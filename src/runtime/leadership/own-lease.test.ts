import { expect, test } from 'vitest';
import { silent } from '../../../test/support/runtime/fixtures.ts';
import type { LeaseObject } from '../../kube/lease/lease-record.ts';
import { createOwnLease, restrictionsOf } from './own-lease.ts';

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

function replica(...restrictions: [Parameters<typeof createOwnLease>[4]?]) {
  let now = START;
  const evidence: string[] = [];
  const due: string[] = [];
  let relisted = 0;
  const metrics = { rollback: (one: string) => evidence.push(one) };
  const clock = () => new Date(now);
  const own = createOwnLease(() => (relisted += 1), metrics, clock, silent, ...restrictions);
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

test('the epoch increases with each write, and annotations of other clients stay', () => {
  const { look, next } = replica();
  expect(next(undefined)).toEqual({ 'gatehouse.dev/epoch': '1' });
  look({ epoch: '7' });
  expect(next({ epoch: '7' })).toEqual({ theirs: 'kept', 'gatehouse.dev/epoch': '8' });
});

test('F11: a rollback is reported once; the next write stores it and requests the sweep', () => {
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

test('a completed sweep request is removed from the lease and not repeated', () => {
  const { look, next, sweepRequested, sweepDue, due } = replica();
  const standing = { epoch: '5', due: 'rollback-4' };
  look(standing); // a new leader takes it over
  expect(due).toEqual(['rollback-4']);
  sweepRequested('rollback-4');
  expect(next(standing)).not.toHaveProperty(['gatehouse.dev/sweep-due']);
  look({ ...standing, epoch: '6' }); // a pending write completes
  expect(sweepDue()).toBeUndefined();
});

test('an old time on the lease is no gap if this replica has seen a leader', () => {
  const { look, next, pass } = replica();
  look({ epoch: '5' }, { epoch: '6' });
  const copy = { epoch: '6', renewedAt: START - 3_600_000 };
  look(copy);
  expect(next(copy)).not.toHaveProperty(['gatehouse.dev/sweep-due']);
  pass(11 * 60_000);
  expect(next(copy)).toHaveProperty(['gatehouse.dev/sweep-due']);
});

test('the leader notes on the lease how it is restricted, and removes the notes of another leader', () => {
  const [namespaces, compat] = [['gatehouse-system', 'shop'], ['cert-manager'] as const];
  const restricted = replica({ without: ['restores', 'injection'], namespaces, compat });
  const annotations = restricted.notes.annotations(lease({ epoch: '1' }));
  const noted = { ...lease({}), metadata: { annotations } };
  expect(restrictionsOf(noted)).toEqual({ without: ['injection', 'restores'], namespaces, compat });
  const free = { metadata: { annotations: replica().notes.annotations(noted) } };
  expect(restrictionsOf(free)).toEqual({ without: [], namespaces: undefined, compat: [] });
});
