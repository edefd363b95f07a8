import { expect, test } from 'vitest';

import { ApiError } from '../../kube/api-error.ts';
import { caBundle } from '../../pki/authority/bundle.ts';
import { base64, firstAuthority } from '../../../test/support/pki/fixtures.ts';
import { rootOf } from '../../pki/authority/generation.ts';
import { TARGET_KINDS, toTarget, type RawTarget, type TargetKind } from '../../pki/injection/target.ts';
import { listingOf, trustOf } from './target-store.ts';

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

test('a target trusts a root when all of its entries contain it, whatever else they contain', () => {
  expect(without(hooks(ASKS, bundle, other + bundle))).toEqual({ lacks: false, canVeto: true });
});

test.each([
  ['one entry lacks it', hooks(ASKS, bundle, other)],
  ['an entry is empty', hooks(ASKS, bundle, '')],
  ['an entry is garbage', hooks(ASKS, `${bundle}-----BEGIN CERTIFICATE-----`)],
])('a target is listed when %s', (_when, raw) => {
  expect(without(raw)).toEqual({ lacks: true, canVeto: true });
});

test.each([
  ['makes no request', {}],
  ['takes its bundle from another source', { 'gatehouse.dev/inject-cabundle-from': 'vault/ca' }],
  ['makes an invalid request', { 'gatehouse.dev/inject-cabundle': '' }],
])('an object that %s is not listed', (_what, annotations) => {
  expect(without(hooks(annotations, other))).toBeUndefined();
});

test('an object that is being deleted blocks nothing', () => {
  const { metadata, ...raw } = hooks(ASKS, other);
  const deletionTimestamp = now.toISOString();
  expect(without({ ...raw, metadata: { ...metadata, deletionTimestamp } })).toBeUndefined();
});

test('the objects of Gatehouse count without a request', () => {
  expect(without(hooks({}, other), TARGET_KINDS.validating, true)).toEqual({ lacks: true, canVeto: true });
  const metadata = { namespace: 'gatehouse-system', name: 'gatehouse-cabundle' };
  const data = { 'ca.crt': bundle };
  expect(without({ metadata }, TARGET_KINDS.configMap, true)).toEqual({ lacks: true, canVeto: true });
  expect(without({ metadata, data }, TARGET_KINDS.configMap, true)).toEqual({ lacks: false, canVeto: true });
});

test('T12: an object in a namespace has no veto', () => {
  const metadata = { namespace: 'prod', name: 'trust', annotations: ASKS };
  expect(without({ metadata }, TARGET_KINDS.configMap)).toEqual({ lacks: true, canVeto: false });
});

test('a text that is too large for a bundle counts as empty: nothing parses it', () => {
  const metadata = { namespace: 'prod', name: 'trust', annotations: ASKS };
  const large = { metadata, data: { 'ca.crt': bundle.repeat(200) } };
  expect(without(large, TARGET_KINDS.configMap)).toMatchObject({ lacks: true });
});

const answer = (code: number) => new ApiError({ method: 'GET', path: '/apis' }, { code, status: {} });
const broken = new Error('the connection broke');
const FAILED = { kind: 'failed', isLasting: false };
test.each([
  ['has not answered', undefined, false, 0, { kind: 'pending' }],
  ['has listed the kind', undefined, true, 0, { kind: 'complete' }],
  ['does not serve the kind', answer(404), false, 0, { kind: 'not-served' }],
  ['forbids the first list while it may be starting', answer(403), false, 4_999, FAILED],
  ['forbids the first list for longer', answer(403), false, 5_000, { ...FAILED, isLasting: true }],
  ['forbids the watch later', answer(403), true, 5_000, { ...FAILED, isLasting: true }],
  ['cannot be reached at first', broken, false, 60_000, FAILED],
  ['cannot be reached for a moment', broken, true, 0, { kind: 'complete' }],
])('when the API server %s, the listing is known', (_when, error, hasSynced, failingMs, listing) => {
  expect(listingOf(error, hasSynced, failingMs)).toMatchObject(listing);
});
