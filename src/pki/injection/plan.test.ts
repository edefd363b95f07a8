import { beforeAll, describe, expect, test } from 'vitest';
import { caBundle } from '../authority/authority.ts';
import { base64, firstAuthority } from '../../../test/support/pki/fixtures.ts';
import { handBackOperations, planInjection } from './plan.ts';
import type { BundleState } from './source.ts';
import { TARGET_KINDS, toTarget, type FieldSet, type RawTarget } from './target.ts';
import type { CertificatePem } from '../x509/pem.ts';

const now = new Date('2026-03-01T00:00:00Z');
let bundle: CertificatePem;
let other: CertificatePem;

beforeAll(async () => {
  bundle = caBundle(await firstAuthority(now), now);
  other = caBundle(await firstAuthority(now), now);
});

const { validating } = TARGET_KINDS;
const INJECT = 'gatehouse.dev/inject-cabundle';

type Entry = NonNullable<RawTarget['webhooks']>[number];
const viaService = (name: string, caBundleText?: string): Entry => ({
  name,
  clientConfig: {
    service: { namespace: 'prod', name: 'hook' },
    ...(caBundleText === undefined ? {} : { caBundle: base64(caBundleText) }),
  },
});
const viaUrl = (name: string): Entry => ({ name, clientConfig: { url: 'https://example.com/hook' } });
const asking = (value: string, ...webhooks: Entry[]): RawTarget => ({
  metadata: { name: 'hooks', annotations: { [INJECT]: value } },
  webhooks,
});
const owning = (raw: RawTarget, ...sets: readonly FieldSet[]): RawTarget => ({
  ...raw,
  metadata: {
    ...raw.metadata,
    managedFields: [
      { manager: 'helm', fieldsV1: {} },
      ...sets.map((fieldsV1) => ({ manager: 'gatehouse-cabundle', fieldsV1 })),
    ],
  },
});
const plan = (raw: RawTarget, state: BundleState = { kind: 'bundle', pem: bundle }, kind = validating) =>
  planInjection(kind, toTarget(kind, raw, []), state);

test.each([
  ['lacks annotations', () => ({ webhooks: [viaService('a')] })],
  ['has switched injection off', () => asking('false', viaService('a'))],
  ['lacks webhooks', () => asking('true')],
  [
    'is being deleted',
    () => ({
      ...asking('true', viaService('a')),
      metadata: { ...asking('true').metadata, deletionTimestamp: '2026-03-01T00:00:00Z' },
    }),
  ],
])('nothing is injected into a configuration that %s', (_what, of) => {
  expect(plan(of())).toEqual({ kind: 'none' });
});

test('cert-manager TestAppendCertificatesToBundle: does_not_append_existing_certificates: a configuration with the bundle in all entries is current', () => {
  expect(plan(asking('true', viaService('a', bundle), viaUrl('b')))).toEqual({
    kind: 'current',
    problem: undefined,
  });
});

test('other line ends do not matter', () => {
  expect(plan(asking('true', viaService('a', bundle.replaceAll('\n', '\r\n'))))).toMatchObject({
    kind: 'current',
  });
});

test.each([
  ['absent (cert-manager TestAppendCertificatesToBundle: append_to_empty_bundle)', () => undefined],
  ['empty', () => ''],
  ['a placeholder', () => '\n'],
  ['the bundle of another authority', () => other],
  ['truncated', () => bundle.slice(0, 100)],
  ['the bundle with another certificate', () => bundle + other],
  ['the bundle with garbage after it', () => `${bundle}garbage`],
  ['encoded twice', () => base64(bundle)],
])('the bundle is injected if the present value is %s', (_what, present) => {
  expect(plan(asking('true', viaService('a', present())))).toMatchObject({ kind: 'inject', stale: ['a'] });
});

test('an injection includes every entry with a Service that is not current, and no other', () => {
  expect(
    plan(asking('true', viaService('right', bundle), viaUrl('elsewhere'), viaService('wrong', other))),
  ).toEqual({
    kind: 'inject',
    stale: ['wrong'],
    bundle,
    routine: false,
    problem: undefined,
  });
});

test('a change to a bundle that overlaps with the current one is routine, and no other injection is', () => {
  const routine = (...webhooks: Entry[]) => plan(asking('true', ...webhooks));
  expect(routine(viaService('a', other + bundle))).toMatchObject({ routine: true });
  expect(routine(viaService('a', other + bundle), viaService('b'))).toMatchObject({ routine: false });
  expect(routine(viaService('a', other))).toMatchObject({ routine: false });
  expect(routine(viaService('a', bundle.repeat(200)))).toMatchObject({ routine: false });
});

test('named entries are filled, even those with a url, and missing names are reported', () => {
  const raw = asking('a.b.c,u.r.l,x.y.z', viaService('a.b.c'), viaService('d.e.f'), viaUrl('u.r.l'));
  expect(plan(raw)).toMatchObject({
    kind: 'inject',
    stale: ['a.b.c', 'u.r.l'],
    problem: 'there is no webhook named x.y.z',
  });
  expect(plan(asking('x.y.z', viaService('a.b.c')))).toEqual({
    kind: 'invalid',
    problem: 'there is no webhook named x.y.z',
  });
});

test('webhooks with a url are filled for the annotations of other systems, as those do', () => {
  const raw = { metadata: { annotations: { 'cert-manager.io/inject-ca-from-secret': 'vault/ca' } } };
  const target = toTarget(validating, { ...raw, webhooks: [viaService('a'), viaUrl('b')] }, ['cert-manager']);
  expect(planInjection(validating, target, { kind: 'bundle', pem: bundle })).toMatchObject({
    stale: ['a', 'b'],
  });
});

test('the conversion of a CustomResourceDefinition by a url is filled on request', () => {
  const conversion = { strategy: 'Webhook', webhook: { clientConfig: { url: 'https://example.com' } } };
  const raw = { metadata: { annotations: { [INJECT]: 'true' } }, spec: { conversion } };
  expect(plan(raw, undefined, TARGET_KINDS.customResourceDefinition)).toMatchObject({ kind: 'inject' });
});

test('a configuration with only urls is a problem until its annotation names them', () => {
  expect(plan(asking('true', viaUrl('a.b.c')))).toEqual({
    kind: 'invalid',
    problem:
      'all webhooks have a url: name those that need the bundle, for example gatehouse.dev/inject-cabundle: a.b.c',
  });
  expect(plan(asking('a.b.c', viaUrl('a.b.c')))).toMatchObject({ kind: 'inject', stale: ['a.b.c'] });
});

test('nothing is written without a usable bundle', () => {
  const raw = asking('true', viaService('a', 'garbage'));
  expect(plan(raw, { kind: 'unknown' })).toEqual({ kind: 'wait' });
  expect(plan(raw, { kind: 'unusable', message: 'no' })).toEqual({ kind: 'invalid', problem: 'no' });
});

describe('ownership', () => {
  const applied: FieldSet = { 'f:webhooks': { 'k:{"name":"a"}': { '.': {}, 'f:name': {} } } };

  test.each<[string, () => RawTarget]>([
    ['is current', () => asking('true', viaService('a', bundle))],
    [
      'is stale, because an apply clears owned fields that it does not repeat',
      () => asking('b', viaService('a')),
    ],
    ['has an invalid annotation', () => asking('', viaService('a', bundle))],
    ['has lost its annotation', () => ({ webhooks: [viaService('a', bundle)] })],
  ])('is given up when the object %s', (_when, of) => {
    expect(plan(owning(of(), applied))).toEqual({ kind: 'hand-back' });
  });

  test('is kept if nobody else owns a field: the API server ignores an empty list of managers', () => {
    const raw = asking('true', viaService('a', bundle));
    const metadata = {
      ...raw.metadata,
      managedFields: [{ manager: 'gatehouse-cabundle', fieldsV1: applied }],
    };
    expect(plan({ ...raw, metadata })).toMatchObject({ kind: 'current' });
  });

  test('the operations remove all entries of ours, the last one first', () => {
    const target = toTarget(validating, owning(asking('true'), applied, applied), []);
    expect(handBackOperations(target)).toEqual([
      { op: 'remove', path: '/metadata/managedFields/2' },
      { op: 'remove', path: '/metadata/managedFields/1' },
    ]);
  });
});

test.each(['constructor', '__proto__', 'toString'])(
  'a ConfigMap may have its bundle in the key %s',
  (key) => {
    const annotations = { [INJECT]: 'true', 'gatehouse.dev/inject-cabundle-key': key };
    const raw = { metadata: { namespace: 'shop', name: 'ca', annotations }, data: { other: 'x' } };
    const found = plan(raw, { kind: 'bundle', pem: bundle }, TARGET_KINDS.configMap);
    expect(found).toMatchObject({ kind: 'inject', stale: [key] });
  },
);
