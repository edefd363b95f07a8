import { Readable } from 'node:stream';
import { describe, expect, onTestFinished, test } from 'vitest';
import fc from 'fast-check';
import { fenced, NotLeaderError } from './fence.ts';
import { fakeObject, manualClock, settle, type FakeObject } from '../../../test/support/kube/fake-lease.ts';
import type { LeaseNotes, LeaseObject } from './lease-record.ts';
import { createElection, LeadershipLostError, type Election } from './lease.ts';
import { createClient } from '../client.ts';
import type { Rest, RestRequest } from '../rest.ts';
import { secrets } from '../well-known.ts';

const log = { debug: () => undefined, info: () => undefined, warn: () => undefined, error: () => undefined };

type ManualClock = ReturnType<typeof manualClock>;

interface Candidate {
  readonly election: Election;
  readonly terms: AbortSignal[];
  readonly stop: () => Promise<void>;
  readonly running: Promise<void>;
}

function candidate(
  identity: string,
  lease: FakeObject,
  clock: ManualClock,
  work?: (signal: AbortSignal) => Promise<void>,
  notes?: LeaseNotes,
): Candidate {
  const terms: AbortSignal[] = [];
  const election = createElection({
    client: lease.client,
    namespace: 'gatehouse-system',
    name: 'gatehouse',
    identity,
    clock,
    random: () => 0.5,
    durationMs: 15_000,
    renewDeadlineMs: 10_000,
    retryMs: 2_000,
    log,
    labels: { 'velero.io/exclude-from-backup': 'true' },
    ...(notes === undefined ? {} : { notes }),
  });
  const controller = new AbortController();
  const untilAborted = (signal: AbortSignal) =>
    new Promise<void>((resolve) => {
      signal.addEventListener('abort', () => {
        resolve();
      });
    });
  const running = election.run((signal) => {
    terms.push(signal);
    return (work ?? untilAborted)(signal);
  }, controller.signal);
  running.catch(() => undefined);
  const stop = async (): Promise<void> => {
    controller.abort(new Error('stop'));
    await clock.advance(0);
    await running;
  };
  onTestFinished(() => {
    controller.abort(new Error('test over'));
  });
  return { election, terms, stop, running };
}

async function leading(work?: () => Promise<void>) {
  const clock = manualClock();
  const lease = fakeObject();
  const a = candidate('a', lease, clock, work);
  await clock.advance(0);
  return { clock, lease, a };
}

/** A candidate that finds the Lease of another process. */
function joining(spec: NonNullable<LeaseObject['spec']>) {
  const clock = manualClock();
  const lease = fakeObject();
  lease.put(held(spec));
  return { clock, lease, b: candidate('b', lease, clock) };
}

/** A Lease of another process. */
const held = (spec: NonNullable<LeaseObject['spec']>, metadata: object = {}): LeaseObject => ({
  metadata: { name: 'gatehouse', ...metadata },
  spec,
});

const specOf = (lease: FakeObject) => (lease.current() as LeaseObject | undefined)?.spec;

test('the first replica leads, with a Lease that is excluded from backups, and keeps it', async () => {
  const { clock, lease, a } = await leading();
  const b = candidate('b', lease, clock);
  await clock.advance(60_000);
  expect([a.election.isLeader(), b.election.isLeader()]).toEqual([true, false]);
  expect([a.terms.length, b.terms.length]).toEqual([1, 0]);
  expect(lease.current()?.metadata).toMatchObject({
    namespace: 'gatehouse-system',
    name: 'gatehouse',
    labels: { 'velero.io/exclude-from-backup': 'true' },
  });
  expect(specOf(lease)).toMatchObject({
    holderIdentity: 'a',
    leaseDurationSeconds: 15,
    leaseTransitions: 0,
    acquireTime: '2026-01-01T00:00:00.000000Z',
  });
});

test('a graceful stop hands over within half a retry period', async () => {
  const { clock, lease, a } = await leading();
  const b = candidate('b', lease, clock);
  await clock.advance(5_000);
  await a.stop();
  expect([a.election.isLeader(), a.terms[0]?.aborted]).toEqual([false, true]);
  expect(specOf(lease)?.holderIdentity).toBe('');
  await clock.advance(1_000);
  expect(b.election.isLeader()).toBe(true);
  expect(specOf(lease)).toMatchObject({ holderIdentity: 'b', leaseTransitions: 1 });
});

test('after a crash another replica leads when the duration has passed since it saw the last renewal, and not before', async () => {
  const dying = { holderIdentity: 'dead', leaseDurationSeconds: 15 };
  const { clock, lease, b } = joining({ ...dying, renewTime: '2026-01-01T00:00:00.000000Z' });
  await clock.advance(1);
  // The last renewal of the dead holder.
  lease.put(held({ ...dying, renewTime: '2026-01-01T00:00:01.000000Z' }));
  await clock.advance(15_000);
  expect(b.election.isLeader()).toBe(false);
  await clock.advance(1_000);
  expect(b.election.isLeader()).toBe(true);
});

test('timestamps of other machines are ignored', async () => {
  const spec = {
    holderIdentity: 'other',
    leaseDurationSeconds: 15,
    acquireTime: '1999-01-01T00:00:00.000000Z',
    renewTime: '1999-01-01T00:00:00.000000Z',
  };
  const { clock, lease, b } = joining(spec);
  await clock.advance(14_000);
  expect(b.election.isLeader()).toBe(false);
  // A write to the Lease that is not a renewal does not extend it either.
  lease.put(held(spec, { labels: { touched: 'yes' } }));
  await clock.advance(2_000);
  expect(b.election.isLeader()).toBe(true);
});

test('a leader that cannot renew stops at the renew deadline, before another replica can lead', async () => {
  const { clock, lease, a } = await leading();
  lease.fault = 'reject';
  await clock.advance(9_000);
  expect(a.election.isLeader()).toBe(true);
  await clock.advance(1_000);
  expect(a.election.isLeader()).toBe(false);
  expect(a.terms[0]?.reason).toBeInstanceOf(LeadershipLostError);
  lease.fault = 'none';
  await clock.advance(17_000);
  expect(a.terms).toHaveLength(2);
  expect(a.election.isLeader()).toBe(true);
});

test('a renewal counts even if its response is lost', async () => {
  const { clock, lease, a } = await leading();
  lease.fault = 'lose-answer';
  await clock.advance(4_000);
  lease.fault = 'none';
  await clock.advance(60_000);
  expect(a.terms).toHaveLength(1);
  expect(a.election.isLeader()).toBe(true);
});

test('a label that another client sets does not cost leadership', async () => {
  const { clock, lease, a } = await leading();
  lease.put({ ...lease.current(), metadata: { ...lease.current()?.metadata, labels: { mine: 'yes' } } });
  await clock.advance(30_000);
  expect(a.terms).toHaveLength(1);
  expect(lease.current()?.metadata?.labels).toEqual({ mine: 'yes', 'velero.io/exclude-from-backup': 'true' });
});

test('a suspended leader writes nothing when it resumes, even before its timers run', async () => {
  const { clock, a } = await leading();
  const written: string[] = [];
  const rest: Rest = {
    request: <T>({ method }: RestRequest) => {
      written.push(method);
      return Promise.resolve({} as T); // the caller ignores the response
    },
    stream: () => Readable.from([]),
    impersonate: () => rest,
  };
  const client = createClient(fenced(rest, a.election.isLeader));
  const metadata = { name: 'x', namespace: 'y', resourceVersion: '1' };
  await client.create(secrets, { metadata });
  expect(written).toEqual(['POST']);

  clock.jump(10_000);
  const object = { metadata };
  const ref = { name: 'x', namespace: 'y' };
  const attempts = [
    client.create(secrets, object),
    client.replace(secrets, object),
    client.replaceStatus(secrets, object),
    client.patchJson(secrets, ref, []),
    client.patchMerge(secrets, ref, {}),
    client.patchStatus(secrets, ref, {}),
    client.apply(secrets, object, { fieldManager: 'm' }),
    client.delete(secrets, ref),
    createClient(fenced(rest, a.election.isLeader).impersonate({ user: 'u' })).delete(secrets, ref),
  ];
  for (const attempt of attempts) await expect(attempt).rejects.toBeInstanceOf(NotLeaderError);
  await client.get(secrets, ref);
  expect(written).toEqual(['POST', 'GET']);
});

test('the wall clock detects a suspended virtual machine', async () => {
  const { clock, a } = await leading();
  clock.setWall(clock.now() + 3_600_000);
  expect(a.election.isLeader()).toBe(false);
});

test('setting the wall clock back prolongs nothing', async () => {
  const { clock, lease, a } = await leading();
  clock.setWall(0);
  lease.fault = 'reject';
  await clock.advance(10_000);
  expect(a.election.isLeader()).toBe(false);
});

test('an earlier replica with the same identity is another holder', async () => {
  const { clock, b } = joining({
    holderIdentity: 'b',
    leaseDurationSeconds: 15,
    acquireTime: '2025-01-01T00:00:00.000000Z',
  });
  await clock.advance(14_000);
  expect(b.election.isLeader()).toBe(false);
  await clock.advance(1_000);
  expect(b.election.isLeader()).toBe(true);
});

test('work that fails ends the election with its error and releases the Lease', async () => {
  const { lease, a } = await leading(() => Promise.reject(new Error('broken')));
  await expect(a.running).rejects.toThrow('broken');
  expect(specOf(lease)?.holderIdentity).toBe('');
});

test('work that continues after the loss of leadership ends the election, so that the process can exit', async () => {
  const { clock, lease, a } = await leading(() => new Promise(() => undefined));
  lease.fault = 'reject';
  await clock.advance(25_000);
  await expect(a.running).rejects.toThrow('did not stop within 15000 ms');
});

test('a leader whose last renewal was stored without an answer releases the Lease', async () => {
  const { clock, lease, a } = await leading();
  lease.fault = 'lose-answer';
  await clock.advance(2_000);
  lease.fault = 'none';
  await a.stop();
  expect(specOf(lease)?.holderIdentity).toBe('');
});

test('two replicas never lead at the same time, even if requests fail or a replica is suspended', async () => {
  const step = fc.record({
    ms: fc.integer({ min: 0, max: 9_000 }),
    fault: fc.constantFrom('none' as const, 'none' as const, 'reject' as const, 'lose-answer' as const),
    who: fc.constantFrom(0, 1),
    sleeps: fc.boolean(),
  });
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
      const lease = fakeObject();
      // Each replica has its own clock and network. Both advance in small steps, so that they interleave in many ways.
      const sides = [0, 1].map((n) => {
        const clock = manualClock(1_000_000_000_000 * (n + 1));
        const link: FakeObject = { ...lease };
        const via =
          <A extends unknown[], R>(call: (...args: A) => Promise<R>) =>
          async (...args: A): Promise<R> => {
            if (link.fault === 'reject') throw new Error('unreachable');
            const result = await call(...args);
            if (link.fault === 'lose-answer') throw new Error('answer lost');
            return result;
          };
        const { get, create, replace } = lease.client;
        const client = { get: via(get), create: via(create), replace: via(replace) } as FakeObject['client'];
        return { clock, link, ...candidate(`c${n}`, { ...link, client }, clock) };
      });
      for (const { ms, fault, who, sleeps } of steps) {
        const side = sides[who];
        if (side !== undefined) side.link.fault = fault;
        for (let left = ms; left > 0; left -= 500) {
          const piece = Math.min(500, left);
          for (const one of sides) {
            if (one === side && sleeps) one.clock.jump(piece);
            else await one.clock.advance(piece);
          }
          expect(sides.filter(({ election }) => election.isLeader()).length).toBeLessThan(2);
        }
      }
      for (const { stop } of sides) await stop();
      await settle();
    }),
    { numRuns: 60 },
  );
});

/** An epoch that only grows, like in the composition root. */
function epochNotes(): LeaseNotes {
  let highest = 0;
  const epochOf = (lease: LeaseObject | undefined) => Number(lease?.metadata?.annotations?.epoch ?? 0);
  return {
    judge: (lease) => {
      const epoch = epochOf(lease);
      const progress = epoch > highest ? 'forward' : epoch < highest ? 'back' : 'unchanged';
      highest = Math.max(highest, epoch);
      return progress;
    },
    annotations: (lease) => ({ ...lease?.metadata?.annotations, epoch: String(highest + 1) }),
  };
}

async function leaderAndFollower() {
  const clock = manualClock();
  const lease = fakeObject();
  const a = candidate('a', lease, clock, undefined, epochNotes());
  await clock.advance(0);
  const b = candidate('b', lease, clock, undefined, epochNotes());
  await clock.advance(9_000);
  const copy = structuredClone(lease.current());
  await clock.advance(20_000);
  return { clock, lease, a, b, copy };
}

/** The current Lease, held by a replica that is gone. */
const dead = (lease: FakeObject, change: object = {}) => {
  const { metadata, ...current } = lease.current() as LeaseObject;
  const spec = { ...current.spec, holderIdentity: 'dead', leaseDurationSeconds: 3_600, ...change };
  return { metadata: { ...metadata }, spec };
};

describe('C3: a leader whose lease is overwritten takes it back within 5 s, in the same term', () => {
  test.each([
    ['with a holder that is gone', (scene: Scene) => dead(scene.lease)],
    [
      'with a holder that is gone but looks alive',
      (scene: Scene) => dead(scene.lease, { renewTime: new Date(scene.clock.now()).toISOString() }),
    ],
    ['with the other replica', (scene: Scene) => dead(scene.lease, { holderIdentity: 'b' })],
    ['with its own older copy', (scene: Scene) => scene.copy],
    [
      'without any field of ours',
      (scene: Scene) => ({ ...dead(scene.lease), metadata: { name: 'gatehouse' } }),
    ],
    ['by being deleted', () => undefined],
  ])('%s', async (_how, replacement) => {
    const scene = await leaderAndFollower();
    const { clock, lease, a, b } = scene;
    lease.put(replacement(scene));
    await clock.advance(5_000);
    expect(specOf(lease)?.holderIdentity).toBe('a');
    await clock.advance(60_000);
    expect([a.election.isLeader(), b.election.isLeader()]).toEqual([true, false]);
    expect([a.terms.length, a.terms[0]?.aborted, b.terms.length]).toEqual([1, false, 0]);
    expect(lease.writes.filter(({ spec }: LeaseObject) => spec?.holderIdentity === 'b')).toEqual([]);
  });
});

type Scene = Awaited<ReturnType<typeof leaderAndFollower>>;

test('C3: an old copy that names a previous leader does not restore its leadership', async () => {
  const { clock, lease, a, b, copy } = await leaderAndFollower();
  // `a` loses the lease to `b`, and both keep running.
  lease.put({
    ...lease.current(),
    spec: { ...specOf(lease), holderIdentity: 'b' },
    metadata: { ...lease.current()?.metadata, annotations: { epoch: '1000' } },
  } as LeaseObject);
  await clock.advance(40_000);
  const leader = [a, b].find(({ election }) => election.isLeader());
  const other = [a, b].find((one) => one !== leader);
  if (leader === undefined || other === undefined) throw new Error('expected a leader and another replica');
  const before = other.terms.length;
  lease.put(copy);
  await clock.advance(60_000);
  expect([leader.election.isLeader(), other.election.isLeader()]).toEqual([true, false]);
  expect(other.terms).toHaveLength(before);
});

test('a leader yields to a successor: the epoch has increased', async () => {
  const { clock, lease, a } = await leaderAndFollower();
  const taken = dead(lease);
  lease.put({ ...taken, metadata: { ...taken.metadata, annotations: { epoch: '1000' } } });
  await clock.advance(5_000);
  expect(a.election.isLeader()).toBe(false);
  expect(a.terms[0]?.aborted).toBe(true);
  expect(specOf(lease)?.holderIdentity).toBe('dead');
});

test('after a rollback without renewals, one replica leads again, with a higher epoch than ever', async () => {
  const { clock, lease, a, b, copy } = await leaderAndFollower();
  const epoch = Number((lease.current() as LeaseObject).metadata?.annotations?.epoch);
  lease.fault = 'reject';
  await clock.advance(60_000);
  expect([a.election.isLeader(), b.election.isLeader()]).toEqual([false, false]);
  lease.fault = 'none';
  lease.put(copy);
  await clock.advance(20_000);
  expect([a.election.isLeader(), b.election.isLeader()].filter(Boolean)).toHaveLength(1);
  expect(Number((lease.current() as LeaseObject).metadata?.annotations?.epoch)).toBeGreaterThan(epoch);
});
