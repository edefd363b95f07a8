import { beforeAll, describe, expect, test } from 'vitest';

import { type AuthorityEvidence, judgeAuthority, startOver } from './recovery.ts';
import { parseAuthority, toSecretData } from './secret.ts';
import { activeGeneration, type Authority, caBundle, remove, replaceActive } from './authority.ts';
import { after, DAY } from '../durations.ts';
import { activated, firstAuthority, prepared } from '../../../test/support/pki/fixtures.ts';

const now = new Date('2026-03-01T12:00:00Z');
let one: Authority;
let pending: Authority;
let two: Authority;
let stranger: Authority;
let healthy: AuthorityEvidence;

beforeAll(async () => {
  one = await firstAuthority(now);
  pending = await prepared(one, now);
  two = activated(pending, now);
  stranger = await firstAuthority(after(now, DAY));
  healthy = {
    stored: { kind: 'readable', authority: two },
    published: [caBundle(two, now)],
    servingCerts: 0,
    lastGood: undefined,
    consent: undefined,
    now,
  };
});

const judge = (change: Partial<AuthorityEvidence>) => judgeAuthority({ ...healthy, ...change });
const stored = (authority: Authority) => ({ stored: { kind: 'readable', authority } as const });
const ABSENT = { stored: { kind: 'absent' } as const };
const EMPTY = { stored: { kind: 'empty' } as const };
const GARBAGE = { stored: { kind: 'unreadable', message: 'x.crt: it is missing' } as const };
const NOTHING = { published: [], servingCerts: 0, lastGood: undefined };

test('an authority that contains all published roots is used', () => {
  expect(judge({})).toEqual({ kind: 'usable', authority: two });
  expect(judge({ published: [] })).toMatchObject({ kind: 'usable' });
});

describe('creation of a new authority without consent', () => {
  test('a new authority is created only in a provably empty cluster', () => {
    expect(judge({ ...ABSENT, ...NOTHING })).toEqual({ kind: 'bootstrap' });
    expect(judge({ ...EMPTY, ...NOTHING })).toEqual({ kind: 'bootstrap' });
  });

  test.each<[string, () => Partial<AuthorityEvidence>]>([
    ['a bundle is published', () => ({ published: [caBundle(one, now)] })],
    ['an emptied bundle is published', () => ({ published: [''] })],
    ['a serving cert exists', () => ({ servingCerts: 1 })],
  ])('no authority is created while %s', (_what, change) => {
    expect(judge({ ...ABSENT, ...NOTHING, ...change() })).toMatchObject({
      kind: 'broken',
      reason: 'Missing',
    });
    expect(judge({ ...EMPTY, ...NOTHING, ...change() })).toMatchObject({
      kind: 'broken',
      reason: 'Unreadable',
    });
  });

  test('no authority is created while the Secret is unreadable, even in an empty cluster', () => {
    expect(judge({ ...GARBAGE, ...NOTHING })).toEqual({
      kind: 'broken',
      reason: 'Unreadable',
      message: 'x.crt: it is missing',
    });
  });
});

describe('D5: writing the last good copy back', () => {
  test.each([
    ['deleted', ABSENT, 'Missing'],
    ['emptied', EMPTY, 'Unreadable'],
    ['corrupted', GARBAGE, 'Unreadable'],
  ])('the last good copy is written back if the Secret was %s', (_how, change, reason) => {
    expect(judge({ ...change, lastGood: two })).toEqual({ kind: 'write-back', reason, authority: two });
  });

  test('the last good copy replaces an older copy, or the copy of another cluster', () => {
    for (const authority of [one, pending, stranger])
      expect(judge({ ...stored(authority), lastGood: two })).toEqual({
        kind: 'write-back',
        reason: 'OlderThanPublished',
        authority: two,
      });
  });

  test('a copy that lacks a published root is not written back: another leader has a newer one', () => {
    expect(judge({ ...ABSENT, lastGood: one })).toMatchObject({ kind: 'broken', reason: 'Missing' });
    expect(judge({ ...stored(one), lastGood: one })).toMatchObject({
      kind: 'broken',
      reason: 'OlderThanPublished',
    });
  });

  test('the last good copy does not overrule later changes of another leader', () => {
    const retired = remove(two, [one.generations[0]?.id ?? '']);
    expect(judge({ ...stored(retired), lastGood: two })).toMatchObject({ kind: 'usable' });
    const fresh = activeGeneration(stranger);
    const distrusted = replaceActive(
      two,
      two.generations.map(({ id }) => id),
      fresh,
      now,
    );
    expect(judge({ ...stored(distrusted), lastGood: two })).toMatchObject({ kind: 'usable' });
  });
});

describe('T: detection of an older copy', () => {
  test('a published root that the copy does not contain reveals an older copy', () => {
    expect(judge(stored(one))).toMatchObject({
      kind: 'broken',
      message: expect.stringContaining(`generation ${two.generations[0]?.id ?? ''}`) as string,
    });
  });

  test('the root of a removed generation reveals nothing: a bundle may be outdated', () => {
    const retired = remove(two, [one.generations[0]?.id ?? '']);
    expect(judge(stored(retired))).toMatchObject({ kind: 'usable' });
    expect(parseAuthority(toSecretData(retired))).toEqual(retired);
  });

  test('foreign roots in a bundle and unreadable bundles reveal nothing', () => {
    const foreign = caBundle(one, now).replace('BEGIN', 'BEGUN');
    expect(judge({ published: [foreign, 'garbage', '-----BEGIN CERTIFICATE-----'] })).toMatchObject({
      kind: 'usable',
    });
  });
});

describe('with the consent of a user', () => {
  const consent = 'lost in the fire';

  test('a lost authority is replaced, and the published roots stay trusted', async () => {
    const verdict = judge({ ...EMPTY, consent });
    if (verdict.kind !== 'start-over') throw new Error(verdict.kind);
    expect(verdict.retained.map(({ id }) => id).sort()).toEqual(two.generations.map(({ id }) => id).sort());
    const fresh = await firstAuthority(now);
    const authority = startOver(fresh, verdict.retained);
    expect(parseAuthority(toSecretData(authority))).toEqual(authority);
    expect(activeGeneration(authority).id).toBe(fresh.generations[0]?.id);
  });

  test('an expired root is not kept', () => {
    expect(judge({ ...GARBAGE, consent, now: after(now, 731 * DAY) })).toEqual({
      kind: 'start-over',
      retained: [],
    });
  });

  test('an older copy is used, and the newer roots stay trusted until nothing needs them', () => {
    const verdict = judge({ ...stored(one), consent });
    expect(verdict).toMatchObject({
      kind: 'adopt',
      authority: { generations: [{ state: 'active' }, { state: 'retiring', key: undefined }] },
    });
    if (verdict.kind === 'adopt')
      expect(parseAuthority(toSecretData(verdict.authority))).toEqual(verdict.authority);
  });

  test('a good copy takes precedence, and the consent is removed', () => {
    expect(judge({ ...GARBAGE, consent, lastGood: two })).toMatchObject({ kind: 'write-back' });
    expect(judge({ consent })).toEqual({ kind: 'adopt', authority: two });
  });
});
