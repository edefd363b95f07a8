import { beforeEach, describe, expect, test } from 'vitest';
import { ApiError } from '../../../test/support/runtime/fixtures.ts';
import { caBundle } from '../../pki/authority/authority.ts';
import { base64, firstAuthority } from '../../../test/support/pki/fixtures.ts';
import { rootOf } from '../../pki/authority/generation.ts';
import { TARGET_KINDS, toTarget, type RawTarget, type TargetKind } from '../../pki/injection/target.ts';
import { createTargetRecords, listingOf, trustOf } from './target-store.ts';

const now = new Date('2026-11-21T12:00:00Z');
const authority = await firstAuthority(now);
const bundle = caBundle(authority, now);
const root = authority.generations.map((generation) => rootOf(generation).fingerprint256).join();
const other = caBundle(await firstAuthority(now), now);

const ASKS = { 'gatehouse.dev/inject-cabundle': 'true' };
const hooks = (annotations: Readonly<Record<string, string>>, ...bundles: readonly string[]): RawTarget => ({
  metadata: { name: 'hooks', annotations },
  webhooks: bundles.map((text, index) => ({
    name: `${String(index)}.example.com`,
    clientConfig: { service: {}, caBundle: base64(text) },
  })),
});
/** What the rotation waits for; undefined: the object is no target. */
function without(raw: RawTarget, kind: TargetKind = TARGET_KINDS.validating, own = false) {
  const trust = trustOf(kind, toTarget(kind, raw, []), own);
  return trust && { lacks: !trust.roots.has(root), canVeto: trust.canVeto };
}

const metadata = { namespace: 'prod', name: 'trust', annotations: ASKS };
const { configMap, validating } = TARGET_KINDS;
const garbage = `${bundle}-----BEGIN CERTIFICATE-----`;
const from = { 'gatehouse.dev/inject-cabundle-from': 'vault/ca' };
const deleting = { ...hooks(ASKS, other), metadata: { ...metadata, deletionTimestamp: now.toISOString() } };

test.each<[string, RawTarget, TargetKind, boolean | undefined, boolean?]>([
  ['has the root if each entry has it', hooks(ASKS, bundle, other + bundle), validating, false],
  ['lacks the root if one entry lacks it', hooks(ASKS, bundle, other), validating, true],
  ['lacks the root if one entry is empty', hooks(ASKS, bundle, ''), validating, true],
  ['lacks the root if it holds garbage', hooks(ASKS, garbage), validating, true],
  ['counts not if it asks for nothing', hooks({}, other), validating, undefined],
  ['counts not if it has another source', hooks(from, other), validating, undefined],
  ['counts not if it is being deleted', deleting, validating, undefined],
  ['counts without a request if it is ours', hooks({}, other), validating, true, true],
  ['cannot veto in a namespace (T12)', { metadata }, configMap, true],
  ['is empty if it is too large', { metadata, data: { 'ca.crt': bundle.repeat(200) } }, configMap, true],
])('a target %s', (_what, raw, kind, lacks, own = false) => {
  const expected = { lacks, canVeto: kind === validating };
  expect(without(raw, kind, own)).toEqual(lacks === undefined ? undefined : expected);
});

const forbidden = new ApiError(403, 'no');
const broken = new Error('the connection broke');
const FAILED = { kind: 'failed', isLasting: false };
test.each([
  ['has not answered', undefined, false, 0, { kind: 'pending' }],
  ['has listed the kind', undefined, true, 0, { kind: 'complete' }],
  ['does not serve the kind', new ApiError(404, 'not found'), false, 0, { kind: 'not-served' }],
  ['forbids the first list while it may be starting', forbidden, false, 4_999, FAILED],
  ['forbids the first list for longer', forbidden, false, 5_000, { ...FAILED, isLasting: true }],
  ['forbids the watch later', forbidden, true, 5_000, { ...FAILED, isLasting: true }],
  ['cannot be reached at first', broken, false, 60_000, FAILED],
])('when the API server %s, the listing is known', (_when, error, hasSynced, failingMs, listing) => {
  expect(listingOf(error, hasSynced, failingMs)).toMatchObject(listing);
});

describe('the records of the targets', () => {
  const trusting = (...roots: readonly string[]) => ({ roots: new Set(roots), canVeto: false });
  const names = Array.from({ length: 600 }, (_, n) => `ConfigMap prod/${n}`);
  let changes: number;
  let ms: number;
  let records: ReturnType<typeof createTargetRecords>;
  beforeEach(() => {
    [changes, ms] = [0, 1_000];
    const kinds = ['APIService', 'ConfigMap'] as const;
    records = createTargetRecords(
      kinds,
      () => void (changes += 1),
      () => ms,
    );
  });

  test('tell when the first of 600 targets lags, and when the last one has the root', () => {
    const { trust, without } = records;
    for (const name of names) trust(name, trusting('old'));
    expect(changes).toBe(0); // no question concerns them
    expect(without('new').delaying).toHaveLength(600);
    for (const name of names) {
      trust(name, trusting()); // the watch knows the new version, but not its content
      trust(name, trusting('old', 'new'));
    }
    expect(changes).toBe(1);
    expect(without('new').delaying).toEqual([]);
    trust('ConfigMap prod/late', trusting('old'));
    expect(without('new').delaying).toEqual(['ConfigMap prod/late']);
    trust('ConfigMap prod/late', undefined);
    expect(changes).toBe(3);
  });

  test('T12: a target that another client keeps reverting loses its veto until it is settled', () => {
    const { trust, report, without } = records;
    trust('APIService x', { roots: new Set(), canVeto: true });
    expect(without('new')).toEqual({ vetoing: ['APIService x'], delaying: [] });
    for (let time = 0; time < 2; time++) report('APIService', 'x', 'contended');
    expect(without('new')).toEqual({ vetoing: [], delaying: ['APIService x'] });
    expect(changes).toBe(1);
    report('APIService', 'x', 'stale');
    expect(without('new').vetoing).toHaveLength(1);
  });

  test('count every kind and state; staleness is the age of the oldest target that is not current', () => {
    const { report, targets, staleSeconds } = records;
    report('ConfigMap', 'prod/a', 'stale');
    ms += 5_000;
    report('ConfigMap', 'prod/b', 'stale');
    report('ConfigMap', 'prod/a', 'contended');
    report('APIService', 'v1.x', 'stale');
    report('APIService', 'v1.x', undefined);
    ms += 5_000;
    expect(staleSeconds()).toBe(10);
    report('ConfigMap', 'prod/a', 'current');
    expect(staleSeconds()).toBe(5);
    expect(targets()).toHaveLength(8);
    expect(targets().filter(({ count }) => count > 0)).toEqual([
      { kind: 'ConfigMap', state: 'current', count: 1 },
      { kind: 'ConfigMap', state: 'stale', count: 1 },
    ]);
    report('ConfigMap', 'prod/b', 'current');
    expect(staleSeconds()).toBe(0);
  });
});
