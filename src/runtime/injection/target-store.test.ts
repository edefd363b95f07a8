import { beforeAll, expect, test } from 'vitest';

import { caBundle } from '../../pki/authority/bundle.ts';
import { base64, firstAuthority } from '../../../test/support/pki/fixtures.ts';
import { rootOf } from '../../pki/authority/generation.ts';
import { TARGET_KINDS, toTarget, type RawTarget, type TargetKind } from '../../pki/injection/target.ts';
import { targetsWithoutRoot } from './target-store.ts';

const now = new Date('2026-11-21T12:00:00Z');
let bundle: string;
let root: string;
let other: string;
beforeAll(async () => {
  const authority = await firstAuthority(now);
  bundle = caBundle(authority, now);
  root = authority.generations.map((generation) => rootOf(generation).fingerprint256).join();
  other = caBundle(await firstAuthority(now), now);
});

const ASKS = { 'gatehouse.dev/inject-cabundle': 'true' };
const hooks = (annotations: Readonly<Record<string, string>>, ...bundles: readonly string[]): RawTarget => ({
  metadata: { name: 'hooks', annotations },
  webhooks: bundles.map((text, index) => ({
    name: `${String(index)}.example.com`,
    clientConfig: { service: {}, caBundle: base64(text) },
  })),
});
const without = (raw: RawTarget, kind: TargetKind = TARGET_KINDS.validating, own = 'gatehouse') =>
  targetsWithoutRoot([{ kind, list: () => [toTarget(kind, raw, [])], isOwn: (key) => key === own }], root);

test('a target trusts a root when all of its entries contain it, whatever else they contain', () => {
  expect(without(hooks(ASKS, bundle, other + bundle))).toEqual([]);
});

test.each([
  ['one entry lacks it', () => hooks(ASKS, bundle, other)],
  ['an entry is empty', () => hooks(ASKS, bundle, '')],
  ['an entry is garbage', () => hooks(ASKS, `${bundle}-----BEGIN CERTIFICATE-----`)],
])('a target is listed when %s', (_when, of) => {
  expect(without(of())).toEqual(['ValidatingWebhookConfiguration hooks']);
});

test.each([
  ['makes no request', {}],
  ['takes its bundle from another source', { 'gatehouse.dev/inject-cabundle-from': 'vault/ca' }],
  ['makes an invalid request', { 'gatehouse.dev/inject-cabundle': '' }],
])('an object that %s is not listed', (_what, annotations) => {
  expect(without(hooks(annotations, other))).toEqual([]);
});

test('an object that is being deleted blocks nothing', () => {
  const raw = hooks(ASKS, other);
  expect(without({ ...raw, metadata: { ...raw.metadata, deletionTimestamp: now.toISOString() } })).toEqual(
    [],
  );
});

test('the objects of Gatehouse count without a request', () => {
  expect(without(hooks({}, other), TARGET_KINDS.validating, 'hooks')).toEqual([
    'ValidatingWebhookConfiguration hooks',
  ]);
  const metadata = { namespace: 'gatehouse-system', name: 'gatehouse-cabundle' };
  const own = 'gatehouse-system/gatehouse-cabundle';
  expect(without({ metadata }, TARGET_KINDS.configMap, own)).toEqual([`ConfigMap ${own}`]);
  expect(without({ metadata, data: { 'ca.crt': bundle } }, TARGET_KINDS.configMap, own)).toEqual([]);
});
