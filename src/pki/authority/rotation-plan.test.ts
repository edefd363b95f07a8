import { beforeAll, describe, expect, test } from 'vitest';
import {
  activate,
  distrustedWith,
  prepare,
  recordTrust,
  remove,
  replaceActive,
  activeGeneration,
  type Authority,
} from './authority.ts';
import { after, DAY, HOUR, MINUTE } from '../durations.ts';
import { firstAuthority, prepared, rotated, rotationState } from '../../../test/support/pki/fixtures.ts';
import { createGeneration, rootOf, type Generation, type NewGeneration } from './generation.ts';
import { generateKeyPair, randomSerial } from '../x509/keys.ts';
import { planRotation, refusal, rotationTime, type RotationState } from './rotation-plan.ts';
import { activationProblem } from './trial.ts';

const start = new Date('2026-03-01T12:00:00Z');
const now = after(start, DAY);
const VETO = { vetoing: ['CustomResourceDefinition x'], delaying: [] };
const DELAY = { vetoing: [], delaying: ['ConfigMap prod/x'] };
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
  healthy = rotationState({ authority: one, now });
});

const idAt = ({ generations }: Authority, index: number) => generations[index]?.id ?? '';
const plan = (change: Partial<RotationState>) => planRotation({ ...healthy, ...change });
const withAt = (authority: Authority, at: number, change: Partial<Generation>): Authority => ({
  ...authority,
  generations: authority.generations.map((generation, index) =>
    index === at ? { ...generation, ...change } : generation,
  ),
});
const with0 = (authority: Authority, change: Partial<Generation>) => withAt(authority, 0, change);
const withLast = (authority: Authority, change: Partial<Generation>) =>
  withAt(authority, authority.generations.length - 1, change);

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
  ])('service-ca %s', (_case, rotate, rotatedFor, kind) => {
    const authority = rotatedFor === undefined ? one : { ...one, rotatedFor };
    expect(plan({ authority, rotate }).kind).toBe(kind);
  });

  test('service-ca TestMaybeRotateSigningSecret: forced rotation required when half-expired is one rotation', () => {
    const late = rotationTime(activeGeneration(one));
    expect(plan({ now: late, rotate: 'leak' })).toEqual({ kind: 'prepare', reason: 'Requested' });
  });

  test('D4: a request during a rotation waits for the next rotation', () => {
    expect(plan({ authority: pending, rotate: 'leak', targetsWithout: () => VETO }).kind).toBe('none');
    expect(plan({ authority: two, rotate: 'leak' })).toEqual({ kind: 'prepare', reason: 'Requested' });
  });

  test('a seventh generation waits until the oldest is removed, and the message says when that is', async () => {
    let authority = three;
    while (authority.generations.length < 6) {
      expect(plan({ authority, rotate: 'leak' }).kind).toBe('prepare');
      authority = await rotated(authority, start);
    }
    const full = { authority: withLast(authority, { trustedUntil: after(now, 100 * DAY) }), rotate: 'leak' };
    expect(plan(full)).toMatchObject({ kind: 'none', phase: 'retiring' });
    expect(refusal({ ...healthy, ...full })).toContain('6 generations are trusted');
    expect(refusal({ ...healthy, ...full })).toContain('after 2026-06-10T13:00:00.000Z');
  });

  test('M1: an open restore window delays rotation and distrust, and the message explains it', () => {
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
    expect(plan({ authority: pending })).toEqual({ kind: 'publish', id, without: [] });
    expect(plan({ authority: pending, targetsWithout: () => VETO })).toMatchObject({
      kind: 'none',
      phase: 'publishing',
    });
    expect(plan({ authority: pending, targetsWithout: () => undefined }).kind).toBe('none');
  });

  test('the root is activated after the wait if every target still has it', () => {
    const authority = published(after(now, -10 * MINUTE));
    const id = idAt(pending, 0);
    expect(plan({ authority })).toEqual({ kind: 'activate', id, reason: 'Propagated', without: [] });
    expect(plan({ authority, targetsWithout: () => VETO }).kind).toBe('none');
    expect(plan({ authority, targetsWithout: () => undefined }).kind).toBe('none');
    expect(plan({ authority: published(after(now, -10 * MINUTE + 1)) })).toEqual({
      kind: 'none',
      phase: 'propagating',
      recheckAt: after(now, 1),
    });
  });

  test('an unreachable target delays nothing shortly before the old root expires: it would lose trust anyway', () => {
    const late = after(start, 640 * DAY);
    const stuck = { now: late, targetsWithout: () => VETO };
    expect(plan({ ...stuck, authority: pending }).kind).toBe('publish');
    expect(plan({ ...stuck, authority: published(after(late, -10 * MINUTE)) })).toMatchObject({
      kind: 'activate',
      reason: 'LastCall',
      without: ['CustomResourceDefinition x'],
    });
  });

  test('T12: a target in a namespace delays both steps for six hours after the generation was created', () => {
    const id = idAt(pending, 0);
    const end = after(start, 6 * HOUR);
    const stuck = { targetsWithout: () => DELAY, now: after(end, -1) };
    expect(plan({ ...stuck, authority: pending })).toMatchObject({ kind: 'none', recheckAt: end });
    const without = ['ConfigMap prod/x'];
    expect(plan({ ...stuck, authority: pending, now: end })).toEqual({ kind: 'publish', id, without });
    const authority = published(after(end, -HOUR));
    expect(plan({ ...stuck, authority })).toMatchObject({ kind: 'none', recheckAt: end });
    const activated = { kind: 'activate', id, reason: 'Propagated', without };
    expect(plan({ ...stuck, authority, now: end })).toEqual(activated);
    const both = () => ({ ...DELAY, vetoing: VETO.vetoing });
    expect(plan({ authority, now: end, targetsWithout: both }).kind).toBe('none');
  });

  test('the new root is activated immediately after the old one has expired', async () => {
    const late = after(start, 731 * DAY);
    const state = { authority: await createPending(late), now: late, targetsWithout: () => undefined };
    expect(plan(state)).toMatchObject({ kind: 'activate' });
  });
});

describe('T11: a generation whose certs clients would reject', () => {
  const due = after(now, -10 * MINUTE);
  const atLastCall = after(start, 640 * DAY);
  const unusable = (change: Partial<Generation>) => with0(pending, { publishedAt: due, ...change });
  const strangers = async () => createPendingOf(await firstAuthority(start), start);

  test.each<[string, () => Promise<Partial<Generation>>, string]>([
    [
      'because its key is another one',
      async () => ({ key: (await strangers()).key }),
      'clients reject a certificate that it signs',
    ],
    [
      'because its bridge leads nowhere',
      async () => ({ bridge: (await strangers()).bridge }),
      'clients that hold the root of generation',
    ],
    ['because its CA has ended since then', () => generationWith({ lifetimeMs: DAY - HOUR }), 'it ended at'],
    [
      'because it cannot sign names that are new in the settings',
      () => generationWith({ domains: ['example.com'] }),
      'its name constraints exclude db.prod.svc',
    ],
  ])('%s never signs: the active one continues, even at last call', async (_why, change, text) => {
    const made = await change();
    const authority = unusable({ ...made, publishedAt: due });
    const problem = expect.stringContaining(text) as string;
    const abandoned = { kind: 'abandon', id: idAt(authority, 0), problem };
    const tried = async (one: Authority, at: Date) => ({
      authority: one,
      now: at,
      activationProblem: await activationProblem(one, { dnsNames: ['db.prod.svc'], addresses: [] }, at),
    });
    expect(plan(await tried(authority, now))).toEqual(abandoned);
    expect(plan({ ...(await tried(authority, atLastCall)), targetsWithout: () => VETO }).kind).toBe(
      'abandon',
    );
    expect(plan(await tried(unusable({}), now)).kind).toBe('activate');
  });

  test('stays pending if it is imported, and the message names the problem', async () => {
    const authority = unusable({ key: (await strangers()).key });
    const { id, certificate, key } = activeGeneration(one);
    const [imported] = authority.generations;
    if (imported?.key === undefined || key === undefined) throw new Error('there is no key');
    const problem = await activationProblem(authority, { dnsNames: ['db.prod.svc'], addresses: [] }, now);
    const state = { authority, imported: { ...imported, key: imported.key }, activationProblem: problem };
    for (const at of [now, atLastCall]) expect(plan({ ...state, now: at }).kind).toBe('none');
    expect(refusal({ ...healthy, ...state })).toBe(
      `the CA ${imported.id} is published, and must not sign: clients reject a certificate that it signs. Put another CA into its secret`,
    );
    expect(plan({ authority, imported: { id, certificate, key } })).toMatchObject({ reason: 'Withdrawn' });
  });
});

const createPendingOf = async (authority: Authority, at: Date): Promise<Generation> => {
  const [generation] = (await prepared(authority, at)).generations;
  if (generation === undefined) throw new Error('the authority is empty');
  return generation;
};

const generationWith = async (
  change: Partial<Pick<NewGeneration, 'now' | 'lifetimeMs' | 'domains'>>,
): Promise<Generation> =>
  await createGeneration({
    keyPair: await generateKeyPair('ECDSA-P256'),
    serial: randomSerial(),
    now: start,
    previous: activeGeneration(one),
    ...change,
  });

const createPending = async (now: Date): Promise<Authority> =>
  prepare(one, await generationWith({ now }), undefined);

describe('C1: wrong clocks', () => {
  test('a clock that jumps back starts no rotation', () => {
    expect(plan({ now: after(start, -400 * DAY) }).kind).toBe('none');
  });

  test('a pending generation from the future is removed', async () => {
    const authority = await createPending(after(now, 400 * DAY));
    const ids = [idAt(authority, 0)];
    expect(plan({ authority })).toEqual({ kind: 'retire', ids, reason: 'FromTheFuture' });
  });

  test('a generation from a leader whose clock is ten minutes ahead is usable', async () => {
    const authority = await createPending(after(now, 10 * MINUTE));
    expect(plan({ authority }).kind).toBe('publish');
  });

  test('a publication time far in the future is replaced, so that it delays nothing', () => {
    const authority = with0(pending, { publishedAt: after(now, 400 * DAY) });
    expect(plan({ authority })).toEqual({ kind: 'publish', id: idAt(pending, 0), without: [] });
  });
});

describe('T9: the record of the latest end of a cert', () => {
  const recorded = (at: Date, longestLifeMs: number | undefined = 90 * DAY) =>
    plan({ authority: with0(one, { trustedUntil: at }), longestLifeMs });

  test('is extended before a signer needs it, at most twice a day', () => {
    const id = idAt(one, 0);
    const until = after(now, 91 * DAY);
    const due = recorded(after(now, 90 * DAY + 12 * HOUR - 1));
    expect(due).toEqual({ kind: 'record-trust', ids: [id], until });
    expect(recorded(after(now, 90 * DAY + 12 * HOUR)).kind).toBe('none');
    expect(recorded(until)).toMatchObject({ kind: 'none', recheckAt: after(now, HOUR) });
    expect(recorded(until, 365 * DAY)).toMatchObject({ until: after(now, 366 * DAY) });
  });

  test('is never longer than the life of the root, and never decreases', () => {
    const { validToDate } = rootOf(activeGeneration(one));
    const extended = recordTrust(one, [idAt(one, 0)], after(validToDate, DAY));
    expect(activeGeneration(extended).trustedUntil).toEqual(validToDate);
    expect(
      plan({ authority: extended, now: after(validToDate, -DAY), targetsWithout: () => VETO }).kind,
    ).toBe('prepare');
    expect(recordTrust(extended, [idAt(one, 0)], now)).toEqual(extended);
  });

  test('is extended while a rotation is paused, because signers need it', () => {
    const authority = with0(one, { trustedUntil: now });
    expect(plan({ authority, paused: 'a window is open' }).kind).toBe('record-trust');
  });

  test('of an older version is missing: it may have signed certs of any length until now', () => {
    const authority = withLast(with0(two, { trustedUntil: undefined }), { trustedUntil: undefined });
    const ids = authority.generations.map(({ id }) => id);
    const until = after(now, 365 * DAY);
    expect(plan({ authority })).toEqual({ kind: 'record-trust', ids, until });
    expect(plan({ authority: with0(pending, { trustedUntil: undefined }) }).kind).toBe('publish');
  });

  test('of the previous generation lasts for one life of a cert when the next one takes over', () => {
    const published = with0(pending, { publishedAt: after(now, -10 * MINUTE) });
    const short = withLast(published, { trustedUntil: after(now, 90 * DAY) });
    expect(plan({ authority: short }).kind).toBe('record-trust');
    expect(plan({ authority: published, longestLifeMs: undefined }).kind).toBe('none');
    const next = activate(withLast(published, { trustedUntil: after(now, 91 * DAY) }), idAt(pending, 0), now);
    expect(next.generations.map(({ trustedUntil }) => trustedUntil)).toEqual(
      [91, 91].map((days) => after(now, days * DAY)),
    );
  });
});

describe('T8, T9: removal of an old root', () => {
  const longAgo = { activatedAt: after(now, -100 * DAY) };
  const ended = (ago: number) => withLast(with0(two, longAgo), { trustedUntil: after(now, -ago) });

  test('a record that ends before the certs that it covers was moved back: it is corrected, and the root stays', () => {
    const activatedAt = after(now, -DAY);
    const [id, until] = [idAt(two, 1), after(activatedAt, 90 * DAY)];
    const authority = with0(ended(HOUR), { activatedAt });
    expect(plan({ authority })).toEqual({ kind: 'record-trust', ids: [id], until, isMovedBack: true });
    const corrected = recordTrust(authority, [id], until);
    expect(plan({ authority: corrected }).kind).toBe('none');
    const unlinked = with0(authority, { bridge: undefined });
    const itself = withLast(unlinked, longAgo);
    expect(plan({ authority: itself }).kind).toBe('retire');
  });

  test('the root stays until its last cert has expired, for the slowest tolerated clock too', () => {
    expect(plan({ authority: ended(HOUR - 1) })).toMatchObject({
      kind: 'none',
      phase: 'retiring',
      recheckAt: after(now, 1),
    });
    const ids = [idAt(two, 1)];
    expect(plan({ authority: ended(HOUR) })).toEqual({ kind: 'retire', ids, reason: 'CertsExpired' });
  });

  test('the root remains while a target lacks a newer root', () => {
    const authority = ended(HOUR);
    expect(plan({ authority, targetsWithout: () => VETO }).kind).toBe('none');
    expect(plan({ authority, targetsWithout: () => undefined }).kind).toBe('none');
  });

  test('T12: a target in a namespace does not keep the old root', () => {
    const state = { authority: ended(HOUR), targetsWithout: () => DELAY };
    expect(plan(state).kind).toBe('retire');
    const young = { ...state, authority: with0(state.authority, { createdAt: after(now, -6 * HOUR + 1) }) };
    expect(plan(young).kind).toBe('none');
  });

  test('an expired root is removed even if targets hold it', async () => {
    const authority = await rotated(one, after(start, 400 * DAY));
    const end = rootOf(activeGeneration(one)).validToDate;
    const state = { authority, targetsWithout: () => undefined };
    expect(plan({ ...state, now: after(end, -1) }).kind).toBe('record-trust');
    const expired = plan({ ...state, now: end, longestLifeMs: undefined });
    expect(expired).toEqual({ kind: 'retire', ids: [idAt(one, 0)], reason: 'Expired' });
  });

  test('roots are removed from the oldest on: bridges lead through a generation in the middle', () => {
    const [, middle, oldest] = three.generations.map(({ id }) => id);
    const old = withAt(with0(three, longAgo), 1, longAgo);
    const authority = withAt(old, 1, { ...longAgo, trustedUntil: start });
    expect(plan({ authority }).kind).toBe('none');
    const both = withLast(authority, { trustedUntil: start });
    expect(plan({ authority: both })).toMatchObject({ ids: [middle, oldest] });
  });

  test('the bridge to a removed root is removed too', () => {
    const rest = remove(three, [idAt(three, 2)]);
    expect(rest.generations.map(({ bridge }) => bridge !== undefined)).toEqual([true, false]);
    expect(rest.gone).toEqual([idAt(three, 2)]);
  });
});

describe('T3: distrust', () => {
  test('the active generation is removed and replaced immediately, without a bridge', async () => {
    const id = idAt(one, 0);
    const order = plan({ distrust: ['ffffffff', id] });
    expect(order).toEqual({ kind: 'distrust', id, ids: [id], replace: true });
    const fresh = await generationWith({ now });
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

  test('a distrust takes precedence over all other steps', () => {
    expect(plan({ authority: pending, distrust: [idAt(pending, 1)], rotate: 'leak' }).kind).toBe('distrust');
  });
});

describe('an imported CA', () => {
  const importOf = ({ id, certificate, key }: Generation) => {
    if (key === undefined) throw new Error('the generation lacks a key');
    return { id, certificate, key };
  };

  test('a new imported CA becomes pending, regardless of the age of the old one', async () => {
    const imported = importOf(activeGeneration(await firstAuthority(now)));
    expect(plan({ imported })).toEqual({ kind: 'prepare', reason: 'ImportedCaChanged' });
    const same = importOf(activeGeneration(one));
    expect(plan({ imported: same, now: after(start, 400 * DAY) }).kind).toBe('none');
  });

  test('a pending CA that was imported by mistake is dropped after it has left its Secret', async () => {
    const wrong = { ...activeGeneration(await firstAuthority(now)), state: 'pending' } as const;
    const authority = prepare(one, wrong, undefined);
    expect(plan({ authority, imported: importOf(wrong) }).kind).toBe('none');
    const dropped = { kind: 'retire', ids: [wrong.id], reason: 'Withdrawn' };
    expect(plan({ authority, imported: importOf(activeGeneration(one)) })).toEqual(dropped);
  });

  test('Gatehouse does not rotate an imported CA, and the message explains it', () => {
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
    const old = importOf(activeGeneration(one));
    expect(refusal({ ...healthy, authority: two, imported: old })).toContain('was replaced before');
  });
});
