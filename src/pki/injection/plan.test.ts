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

const { validating, customResourceDefinition, configMap } = TARGET_KINDS;
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
  ['has only webhooks with a url', () => asking('true', viaUrl('a'))],
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

test('an injection includes every entry with a Service, and no other', () => {
  expect(
    plan(asking('true', viaService('right', bundle), viaUrl('elsewhere'), viaService('wrong', other))),
  ).toEqual({
    kind: 'inject',
    slots: ['right', 'wrong'],
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
    slots: ['a.b.c', 'u.r.l'],
    problem: 'there is no webhook named x.y.z',
  });
  expect(plan(asking('x.y.z', viaService('a.b.c')))).toEqual({
    kind: 'invalid',
    problem: 'there is no webhook named x.y.z',
  });
});

test('nothing is written without a usable bundle', () => {
  const raw = asking('true', viaService('a', 'garbage'));
  expect(plan(raw, { kind: 'unknown' })).toEqual({ kind: 'wait' });
  expect(plan(raw, { kind: 'unusable', message: 'no' })).toEqual({ kind: 'invalid', problem: 'no' });
});

describe('ownership', () => {
  const leaf = { 'f:clientConfig': { 'f:caBundle': {} } };
  const applied = (...names: string[]): FieldSet => ({
    'f:webhooks': Object.fromEntries(
      names.map((name) => [`k:{"name":"${name}"}`, { '.': {}, 'f:name': {}, ...leaf }]),
    ),
  });
  const trimmed = (...names: string[]): FieldSet => ({
    'f:webhooks': Object.fromEntries(names.map((name) => [`k:{"name":"${name}"}`, leaf])),
  });

  test("after an apply, ownership of the entries' names is given up, and then the object is current", () => {
    const raw = asking('true', viaService('a', bundle));
    expect(plan(owning(raw, applied('a')))).toEqual({ kind: 'hand-back', keep: ['a'], released: [] });
    expect(plan(owning(raw, trimmed('a')))).toMatchObject({ kind: 'current' });
  });

  test('everything is released when the annotation is removed', () => {
    const raw = { webhooks: [viaService('a', bundle)] };
    expect(plan(owning(raw, trimmed('a')))).toEqual({ kind: 'hand-back', keep: [], released: ['a'] });
  });

  test('an entry that the annotation stops listing is released before an apply, which would clear it', () => {
    const raw = asking('a.b.c', viaService('a.b.c'), viaService('d.e.f', bundle));
    expect(plan(owning(raw, trimmed('a.b.c', 'd.e.f')))).toEqual({
      kind: 'hand-back',
      keep: ['a.b.c'],
      released: ['d.e.f'],
    });
  });

  test('B2: nothing in a CustomResourceDefinition stays owned', () => {
    const conversion = {
      strategy: 'Webhook',
      webhook: { clientConfig: { service: {}, caBundle: base64(bundle) } },
    };
    const raw = { metadata: { annotations: { [INJECT]: 'true' } }, spec: { conversion } };
    const fields = customResourceDefinition.configuration([], bundle);
    const owned = { 'f:spec': { 'f:conversion': { 'f:webhook': leaf } } };
    expect(fields).toBeDefined();
    expect(plan(owning(raw, owned), undefined, customResourceDefinition)).toMatchObject({
      kind: 'hand-back',
    });
    const target = toTarget(customResourceDefinition, owning(raw, owned), []);
    expect(handBackOperations(customResourceDefinition, target, ['spec.conversion'])).toEqual([
      { op: 'remove', path: '/metadata/managedFields/1' },
    ]);
  });

  test('an invalid request releases nothing', () => {
    const raw = asking('', viaService('a', bundle));
    expect(plan(owning(raw, trimmed('a')))).toMatchObject({ kind: 'invalid' });
  });

  test('the operations reduce the first own entry and remove the others, the last one first', () => {
    const target = toTarget(validating, owning(asking('true'), applied('a', 'b'), applied('a')), []);
    expect(handBackOperations(validating, target, ['a'])).toEqual([
      { op: 'remove', path: '/metadata/managedFields/2' },
      { op: 'replace', path: '/metadata/managedFields/1/fieldsV1', value: trimmed('a') },
    ]);
    expect(handBackOperations(validating, target, [])).toEqual([
      { op: 'remove', path: '/metadata/managedFields/2' },
      { op: 'remove', path: '/metadata/managedFields/1' },
    ]);
  });

  test('a ConfigMap that asks for another key releases the old one', () => {
    const annotations = { [INJECT]: 'true', 'gatehouse.dev/inject-cabundle-key': 'new' };
    const raw = owning(
      { metadata: { annotations }, data: { 'ca.crt': bundle } },
      { 'f:data': { 'f:ca.crt': {} } },
    );
    expect(plan(raw, undefined, configMap)).toEqual({ kind: 'hand-back', keep: [], released: ['ca.crt'] });
  });
});
