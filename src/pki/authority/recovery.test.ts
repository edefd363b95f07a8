import { beforeAll, describe, expect, test } from 'vitest';

import { type AuthorityEvidence, judgeAuthority, startOver } from './recovery.ts';
import { parseAuthority, toSecretData } from './secret.ts';
import { activeGeneration, type Authority, caBundle, remove, replaceActive } from './authority.ts';
import { after, DAY } from '../durations.ts';
import { rootOf, signWith, type Generation } from './generation.ts';
import { signRoot } from '../x509/certificate.ts';
import { generateKeyPair, randomSerial } from '../x509/keys.ts';
import { joinCertificatePems, type CertificatePem } from '../x509/pem.ts';
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

  test('the last good copy replaces an older copy with a generation that was removed since', () => {
    const oldest = one.generations[0]?.id ?? '';
    const lastGood = remove(two, [oldest]);
    const published = [caBundle(lastGood, now)];
    expect(judge({ ...stored(two), published, lastGood })).toEqual({
      kind: 'write-back',
      reason: 'OlderThanPublished',
      authority: lastGood,
    });
    expect(judge({ ...stored(two), published, lastGood, consent: 'a user wants it' })).toMatchObject({
      kind: 'adopt',
    });
    const suppliedAgain = { ...two, gone: [oldest] };
    expect(judge({ ...stored(suppliedAgain), published, lastGood })).toMatchObject({ kind: 'usable' });
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

const ownerKeys = generateKeyPair('ECDSA-P256');

/** A root of an owner's CA that ends after this many years. The key is always the same. */
async function renewed(years: number): Promise<CertificatePem> {
  const { publicKey, privateKey } = await ownerKeys;
  const term = { serial: randomSerial(), notBefore: now, notAfter: after(now, years * 365 * DAY) };
  return (await signRoot('owner', { publicKey, sign: signWith(privateKey) }, term)).certificate;
}

describe('a part that vanished or moved back while its generation stays', () => {
  const oldest = () => two.generations.length - 1;
  const withAt = (at: number, change: Partial<Generation>): Authority => ({
    ...two,
    gone: ['0badc0de'],
    rotatedFor: 'leak',
    generations: two.generations.map((one, index) => (index === at ? { ...one, ...change } : one)),
  });
  const good = () => withAt(-1, {});

  test.each<[string, () => Authority]>([
    ['a bridge', () => withAt(0, { bridge: undefined })],
    ['another bridge', () => withAt(0, { bridge: stranger.generations[0]?.certificate })],
    ['the record of trust', () => withAt(oldest(), { trustedUntil: after(now, -DAY) })],
    ['the time of publication', () => withAt(0, { publishedAt: undefined })],
    ['the time of creation', () => withAt(0, { createdAt: after(now, -DAY) })],
    ['the generations that are gone', () => ({ ...good(), gone: [] })],
    ['the request for the last rotation', () => ({ generations: two.generations, gone: ['0badc0de'] })],
    ['a root', () => withAt(oldest(), { certificate: activeGeneration(stranger).certificate })],
  ])('%s is restored from the last good copy', (_part, shrunk) => {
    const evidence = { ...stored(shrunk()), published: [], lastGood: good() };
    expect(judge(evidence)).toEqual({ kind: 'write-back', reason: 'Incomplete', authority: good() });
    expect(judge({ ...evidence, consent: 'a user wants it' })).toMatchObject({ kind: 'adopt' });
  });

  test('former roots are restored next to those that another leader added', async () => {
    const [first, second, third] = [await renewed(1), await renewed(2), await renewed(3)];
    const of = (certificate: CertificatePem, ...former: readonly CertificatePem[]): Authority => {
      const [active] = one.generations;
      if (active === undefined) throw new Error('there is no generation');
      const formerRoots = former.length === 0 ? undefined : joinCertificatePems(former);
      return { generations: [{ ...active, certificate, formerRoots }] };
    };
    const lastGood = of(second, first);
    expect(judge({ ...stored(of(third, second)), published: [], lastGood })).toEqual({
      kind: 'write-back',
      reason: 'Incomplete',
      authority: of(third, second, first),
    });
    expect(judge({ ...stored(of(third, second, first)), published: [], lastGood })).toMatchObject({
      kind: 'usable',
    });
  });

  test('later changes of another leader stay', () => {
    const later = { ...good(), gone: ['feedbeef', '0badc0de'], rotatedFor: 'audit' };
    const shrunk = { ...later, generations: withAt(0, { bridge: undefined }).generations };
    expect(judge({ ...stored(later), lastGood: good() })).toEqual({ kind: 'usable', authority: later });
    expect(judge({ ...stored(shrunk), lastGood: good() })).toMatchObject({ authority: later });
    const full = { ...good(), gone: Array.from({ length: 16 }, (_, index) => String(index)) };
    expect(judge({ ...stored(full), lastGood: good() })).toMatchObject({ kind: 'usable' });
  });

  test('a time in the future, which a wrong clock wrote, may be corrected', () => {
    const ahead = withAt(0, { publishedAt: after(now, DAY) });
    expect(judge({ ...stored(good()), lastGood: ahead })).toMatchObject({ kind: 'usable' });
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

  test('a root counts as published even if another part of the bundle is broken', () => {
    const padded = `-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n${caBundle(two, now)}`;
    expect(judge({ ...stored(one), published: [padded] })).toMatchObject({
      kind: 'broken',
      reason: 'OlderThanPublished',
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
    const authority = startOver(fresh, verdict.retained, 'asked before');
    const written = { ...authority, gone: [], rotatedFor: 'asked before' };
    expect(parseAuthority(toSecretData(authority))).toEqual(written);
    expect(activeGeneration(authority).id).toBe(fresh.generations[0]?.id);
  });

  test('an expired root is not kept', () => {
    const end = rootOf(activeGeneration(two)).validToDate;
    const retainedAt = (at: Date) => judge({ ...GARBAGE, consent, now: at });
    expect(retainedAt(end)).toEqual({ kind: 'start-over', retained: [] });
    expect(retainedAt(after(end, -1))).toMatchObject({ retained: [{}, {}] });
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
