import { beforeAll, describe, expect, test } from 'vitest';
import {
  distrustedWith,
  keylessGeneration,
  prepare,
  remove,
  replaceActive,
  activeGeneration,
  type Authority,
} from './authority.ts';
import { after, DAY, HOUR, MINUTE } from '../durations.ts';
import { firstAuthority, prepared, rotated } from '../../../test/support/pki/fixtures.ts';
import { createGeneration, rootOf, type Generation } from './generation.ts';
import { generateKeyPair, randomSerial } from '../x509/keys.ts';
import { planRotation, refusal, rotationPhase, rotationTime, type RotationState } from './rotation-plan.ts';

const start = new Date('2026-03-01T12:00:00Z');
const now = after(start, DAY);
const times = { propagationWaitMs: 10 * MINUTE, graceMs: DAY };
let one: Authority;
let pending: Authority;
let two: Authority;
let three: Authority;
let healthy: RotationState;

beforeAll(async () => {
  one = await firstAuthority(start);
  pending = await prepared(one, start);
  two = await rotated(one, start);
  three = await rotated(two, start);
  healthy = {
    authority: one,
    now,
    times,
    targetsWithout: () => [],
    liveCertsOf: () => 1,
    rotate: undefined,
    distrust: [],
    paused: undefined,
    imported: undefined,
  };
});

const idAt = ({ generations }: Authority, index: number) => generations[index]?.id ?? '';
const plan = (change: Partial<RotationState>) => planRotation({ ...healthy, ...change });
const with0 = (authority: Authority, change: Partial<Generation>): Authority => ({
  ...authority,
  generations: authority.generations.map((generation, index) =>
    index === 0 ? { ...generation, ...change } : generation,
  ),
});
const withLast = (authority: Authority, change: Partial<Generation>): Authority => ({
  ...authority,
  generations: authority.generations.map((generation, index) =>
    index === authority.generations.length - 1 ? { ...generation, ...change } : generation,
  ),
});

describe('start of a rotation', () => {
  test('service-ca TestMaybeRotateSigningSecret: rotation not required; the next check is within an hour', () => {
    expect(plan({})).toEqual({ kind: 'none', phase: 'steady', recheckAt: after(now, HOUR) });
  });

  test('service-ca TestMaybeRotateSigningSecret: time-based rotation required after half of the lifetime', () => {
    const half = rotationTime(activeGeneration(one));
    expect(half).toEqual(after(start, 365 * DAY - HOUR / 2));
    expect(plan({ now: after(half, -1) }).kind).toBe('none');
    expect(plan({ now: half })).toEqual({ kind: 'prepare', reason: 'HalfLife' });
  });

  test.each([
    ['TestForcedRotationRequired: no rotation without a reason', undefined, undefined, 'none'],
    ['TestForcedRotationRequired: no rotation if the stored reason matches', 'leak', 'leak', 'none'],
    ['TestForcedRotationRequired: rotation if the reason differs', 'leak', 'audit', 'prepare'],
    ['TestMaybeRotateSigningSecret: forced rotation required', 'leak', undefined, 'prepare'],
    ['TestMaybeRotateSigningSecret: forced rotation not required', 'leak', 'leak', 'none'],
  ])('service-ca %s', (_case, rotate, rotatedFor, kind) => {
    const authority = rotatedFor === undefined ? one : { ...one, rotatedFor };
    expect(plan({ authority, rotate }).kind).toBe(kind);
  });

  test('service-ca TestMaybeRotateSigningSecret: forced rotation required when half-expired is one rotation', () => {
    const late = rotationTime(activeGeneration(one));
    expect(plan({ now: late, rotate: 'leak' })).toEqual({ kind: 'prepare', reason: 'Requested' });
  });

  const half = () => rotationTime(activeGeneration(one));
  test.each([
    ['Ok', () => now, 'none'],
    ['almost nearing expiry', () => after(half(), -1), 'none'],
    ['just nearing expiry', half, 'prepare'],
    ['expired', () => after(start, 731 * DAY), 'prepare'],
  ])('cert-manager Test__caRequiresRegeneration: %s', (_case, at, kind) => {
    expect(plan({ now: at() }).kind).toBe(kind);
  });

  test('D4: a request during a rotation waits for the next rotation', () => {
    expect(plan({ authority: pending, rotate: 'leak', targetsWithout: () => ['x'] }).kind).toBe('none');
    expect(plan({ authority: two, rotate: 'leak' })).toEqual({ kind: 'prepare', reason: 'Requested' });
  });

  test('a fourth generation waits until the oldest is removed, and the message says so', () => {
    expect(plan({ authority: three, rotate: 'leak' })).toMatchObject({ kind: 'none', phase: 'retiring' });
    expect(refusal({ ...healthy, authority: three, rotate: 'leak' })).toContain('3 generations are trusted');
  });

  test('M1: an open restore window delays rotation and distrust, and the message says so', () => {
    const paused = 'the restore window x is open';
    for (const change of [{ rotate: 'leak' }, { distrust: [idAt(one, 0)] }, { now: after(start, 400 * DAY) }])
      expect(plan({ ...change, paused })).toMatchObject({ kind: 'none', phase: 'paused' });
    expect(refusal({ ...healthy, rotate: 'leak', paused })).toContain('while the restore window x is open');
    expect(refusal({ ...healthy, paused })).toBeUndefined();
  });
});

describe('T7: activation of a new root', () => {
  const published = (at: Date) => with0(pending, { publishedAt: at });

  test('once every target has the root, the time is recorded and the wait begins', () => {
    const id = idAt(pending, 0);
    expect(plan({ authority: pending })).toEqual({ kind: 'publish', id });
    expect(plan({ authority: pending, targetsWithout: () => ['ConfigMap x'] })).toMatchObject({
      kind: 'none',
      phase: 'publishing',
    });
    expect(plan({ authority: pending, targetsWithout: () => undefined }).kind).toBe('none');
  });

  test('the root is activated after the wait if every target still has it', () => {
    const authority = published(after(now, -10 * MINUTE));
    expect(plan({ authority })).toEqual({ kind: 'activate', id: idAt(pending, 0), reason: 'Propagated' });
    expect(plan({ authority, targetsWithout: () => ['x'] }).kind).toBe('none');
    expect(plan({ authority, targetsWithout: () => undefined }).kind).toBe('none');
    expect(plan({ authority: published(after(now, -10 * MINUTE + 1)) })).toEqual({
      kind: 'none',
      phase: 'propagating',
      recheckAt: after(now, 1),
    });
  });

  test('an unreachable target delays nothing shortly before the old root expires: it would lose trust anyway', () => {
    const late = after(start, 640 * DAY);
    const stuck = { now: late, targetsWithout: () => ['x'] };
    expect(plan({ ...stuck, authority: pending }).kind).toBe('publish');
    expect(plan({ ...stuck, authority: published(after(late, -10 * MINUTE)) })).toMatchObject({
      kind: 'activate',
      reason: 'LastCall',
    });
  });

  test('the new root is activated at once after the old one has expired', () => {
    const late = after(start, 731 * DAY);
    const fresh = createPending(late);
    return fresh.then((authority) => {
      expect(plan({ authority, now: late, targetsWithout: () => undefined })).toMatchObject({
        kind: 'activate',
      });
    });
  });
});

async function createPending(at: Date): Promise<Authority> {
  const keyPair = await generateKeyPair('ECDSA-P256');
  const previous = activeGeneration(one);
  return prepare(one, createGeneration({ keyPair, serial: randomSerial(), now: at, previous }), undefined);
}

describe('C1: wrong clocks', () => {
  test('a clock that jumps back starts no rotation', () => {
    expect(plan({ now: after(start, -400 * DAY) }).kind).toBe('none');
  });

  test('a pending generation from the future is removed', async () => {
    const authority = await createPending(after(now, 400 * DAY));
    expect(plan({ authority })).toEqual({
      kind: 'retire',
      ids: [idAt(authority, 0)],
      reason: 'FromTheFuture',
    });
  });

  test('a generation from a leader whose clock is ten minutes ahead is usable', async () => {
    const authority = await createPending(after(now, 10 * MINUTE));
    expect(plan({ authority }).kind).toBe('publish');
  });

  test('a publication time far in the future is replaced, so that it delays nothing', () => {
    const authority = with0(pending, { publishedAt: after(now, 400 * DAY) });
    expect(plan({ authority })).toEqual({ kind: 'publish', id: idAt(pending, 0) });
  });

  test('a drain time far in the future is replaced', () => {
    const authority = withLast(two, { drainedAt: after(now, 400 * DAY) });
    expect(plan({ authority, liveCertsOf: () => 0 })).toMatchObject({
      kind: 'note-drained',
      drained: [idAt(two, 1)],
    });
  });
});

describe('T8: removal of an old root', () => {
  const drained = (ago: number) => withLast(two, { drainedAt: after(now, -ago) });

  test('the time of the last serving cert is recorded, and cleared if another cert appears', () => {
    expect(plan({ authority: two, liveCertsOf: () => 0 })).toEqual({
      kind: 'note-drained',
      drained: [idAt(two, 1)],
      live: [],
    });
    expect(plan({ authority: drained(HOUR), liveCertsOf: () => 2 })).toMatchObject({ live: [idAt(two, 1)] });
    expect(plan({ authority: two, liveCertsOf: () => undefined }).kind).toBe('none');
  });

  test('the root stays during the grace period, and while it has or may have serving certs', () => {
    const over = drained(DAY);
    expect(plan({ authority: drained(DAY - 1), liveCertsOf: () => 0 })).toMatchObject({
      kind: 'none',
      phase: 'retiring',
      recheckAt: after(now, 1),
    });
    expect(plan({ authority: over, liveCertsOf: () => 0 })).toEqual({
      kind: 'retire',
      ids: [idAt(two, 1)],
      reason: 'Drained',
    });
    expect(plan({ authority: over, liveCertsOf: () => undefined }).kind).toBe('none');
    expect(plan({ authority: over, liveCertsOf: () => 1 }).kind).toBe('note-drained');
  });

  test('the root stays while a target has no newer root', () => {
    const state = { authority: drained(DAY), liveCertsOf: () => 0 };
    expect(plan({ ...state, targetsWithout: () => ['x'] }).kind).toBe('none');
    expect(plan({ ...state, targetsWithout: () => undefined }).kind).toBe('none');
  });

  test('an expired root is removed even if it has serving certs', async () => {
    const authority = await rotated(one, after(start, 400 * DAY));
    const end = rootOf(activeGeneration(one)).validToDate;
    const state = { authority, liveCertsOf: () => 5, targetsWithout: () => undefined };
    expect(plan({ ...state, now: after(end, -1) }).kind).toBe('none');
    expect(plan({ ...state, now: end })).toEqual({ kind: 'retire', ids: [idAt(one, 0)], reason: 'Expired' });
  });

  test('roots are removed from the oldest on: bridges lead through a generation in the middle', () => {
    const [, middle, oldest] = three.generations.map(({ id }) => id);
    const authority = {
      ...three,
      generations: three.generations.map((generation, index) =>
        index === 1 ? { ...generation, drainedAt: start } : generation,
      ),
    };
    const liveCertsOf = (id: string) => (id === middle ? 0 : 1);
    expect(plan({ authority, liveCertsOf }).kind).toBe('none');
    const both = withLast(authority, { drainedAt: start });
    expect(plan({ authority: both, liveCertsOf: () => 0 })).toMatchObject({ ids: [middle, oldest] });
  });

  test('the bridge to a removed root is removed too', () => {
    const rest = remove(three, [idAt(three, 2)]);
    expect(rest.generations.map(({ bridge }) => bridge !== undefined)).toEqual([true, false]);
    expect(rest.gone).toEqual([idAt(three, 2)]);
  });
});

describe('T3: distrust', () => {
  test('the active generation is removed and replaced at once, without a bridge', async () => {
    const id = idAt(one, 0);
    const order = plan({ distrust: ['ffffffff', id] });
    expect(order).toEqual({ kind: 'distrust', id, ids: [id], replace: true });
    const keyPair = await generateKeyPair('ECDSA-P256');
    const fresh = createGeneration({ keyPair, serial: randomSerial(), now, previous: activeGeneration(one) });
    const next = replaceActive(one, [id], fresh, now);
    expect(next).toMatchObject({
      gone: [id],
      generations: [{ id: fresh.id, state: 'active', bridge: undefined }],
    });
  });

  test('older generations with a bridge to the distrusted one are removed too: its bridge is public', () => {
    const [newest, middle, oldest] = three.generations.map(({ id }) => id);
    expect(distrustedWith(three, middle ?? '')).toEqual([middle, oldest]);
    expect(distrustedWith(three, oldest ?? '')).toEqual([oldest]);
    expect(distrustedWith(three, newest ?? '')).toEqual([newest, middle, oldest]);
  });

  test('an older generation without a bridge to the distrusted one stays', () => {
    const cut = with0(two, { bridge: undefined });
    expect(distrustedWith(cut, idAt(cut, 0))).toEqual([idAt(cut, 0)]);
  });

  test('the pending generation is removed with the active one: one Secret has both keys', () => {
    const ids = pending.generations.map(({ id }) => id);
    for (const id of ids) expect(distrustedWith(pending, id)).toEqual(ids);
  });

  test('bridges to removed generations are removed too', () => {
    const rest = remove(three, [idAt(three, 1), idAt(three, 2)]);
    expect(rest.generations).toMatchObject([{ state: 'active', bridge: undefined }]);
  });

  test('a distrust that is done changes nothing more: the annotation may stay', () => {
    expect(plan({ distrust: ['ffffffff'] }).kind).toBe('none');
  });

  test('a distrust takes precedence over all other steps', () => {
    expect(plan({ authority: pending, distrust: [idAt(pending, 1)], rotate: 'leak' }).kind).toBe('distrust');
  });
});

describe('an imported CA', () => {
  const importOf = ({ id, certificate, key }: Generation) => {
    if (key === undefined) throw new Error('the generation has no key');
    return { id, certificate, key };
  };

  test('a new imported CA becomes pending, regardless of the age of the old one', async () => {
    const imported = importOf(activeGeneration(await firstAuthority(now)));
    expect(plan({ imported })).toEqual({ kind: 'prepare', reason: 'ImportedCaChanged' });
    const same = importOf(activeGeneration(one));
    expect(plan({ imported: same, now: after(start, 400 * DAY) }).kind).toBe('none');
  });

  test('Gatehouse does not rotate an imported CA, and the message says so', () => {
    const imported = importOf(activeGeneration(one));
    expect(plan({ imported, rotate: 'leak' }).kind).toBe('none');
    expect(refusal({ ...healthy, imported, rotate: 'leak' })).toContain('not ours to rotate');
  });

  test('a distrusted CA is removed only after its owner supplied another one', async () => {
    const id = idAt(one, 0);
    const imported = importOf(activeGeneration(one));
    expect(plan({ imported, distrust: [id] }).kind).toBe('none');
    expect(refusal({ ...healthy, imported, distrust: [id] })).toContain('put a new CA into its secret first');
    const next = importOf(activeGeneration(await firstAuthority(now)));
    expect(plan({ imported: next, distrust: [id] })).toMatchObject({ kind: 'distrust', replace: true });
  });

  test('a distrusted CA is not imported again', async () => {
    const imported = importOf(activeGeneration(await firstAuthority(now)));
    expect(plan({ imported, distrust: [imported.id] }).kind).toBe('none');
    expect(refusal({ ...healthy, imported, distrust: [imported.id] })).toContain('not to be trusted');
  });

  test('a retiring CA is not imported again', () => {
    const old = { ...importOf(activeGeneration(one)) };
    expect(plan({ authority: two, imported: old }).kind).toBe('none');
    expect(refusal({ ...healthy, authority: two, imported: old })).toContain('was replaced before');
  });
});

test('each phase of a rotation has its name', () => {
  const phaseOf = (authority: Authority) => rotationPhase({ authority, paused: undefined });
  expect([one, pending, with0(pending, { publishedAt: now }), two].map(phaseOf)).toEqual([
    'steady',
    'publishing',
    'propagating',
    'retiring',
  ]);
});

test('a generation without a key was created when its certificate becomes valid', () => {
  const { id, certificate } = activeGeneration(one);
  expect(keylessGeneration(id, certificate, now)).toMatchObject({ state: 'retiring', key: undefined });
});
