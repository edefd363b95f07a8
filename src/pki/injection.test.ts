import { beforeAll, expect, test } from 'vitest';
import { caBundle } from './bundle.ts';
import { base64, firstAuthority } from './fixtures.ts';
import { planInjection, type Webhook, type WebhookConfiguration } from './injection.ts';
import type { CertificatePem } from './pem.ts';

const now = new Date('2026-03-01T00:00:00Z');
let bundle: CertificatePem;
let other: CertificatePem;

beforeAll(async () => {
  bundle = caBundle(await firstAuthority(now), now);
  other = caBundle(await firstAuthority(now), now);
});

const viaService = (name: string, caBundleText?: string): Webhook => ({
  name,
  clientConfig: {
    service: { namespace: 'prod', name: 'hook' },
    ...(caBundleText === undefined ? {} : { caBundle: base64(caBundleText) }),
  },
});
const viaUrl = (name: string): Webhook => ({ name, clientConfig: { url: 'https://example.com/hook' } });
const configuration = (...webhooks: Webhook[]): WebhookConfiguration => ({
  metadata: { name: 'hooks', annotations: { 'gatehouse.dev/inject-cabundle': 'true' } },
  webhooks,
});

test.each([
  ['has no annotations', () => ({ webhooks: [viaService('a')] })],
  [
    'has switched injection off',
    () => ({
      metadata: { annotations: { 'gatehouse.dev/inject-cabundle': 'false' } },
      webhooks: [viaService('a')],
    }),
  ],
  ['has no webhooks', () => configuration()],
  ['reaches its webhooks by url only', () => configuration(viaUrl('a'))],
])('nothing is injected into a configuration that %s', (_what, of) => {
  expect(planInjection(of(), bundle)).toEqual({ kind: 'none' });
});

test('a configuration that holds the bundle in all its entries is current', () => {
  expect(planInjection(configuration(viaService('a', bundle), viaUrl('b')), bundle)).toEqual({
    kind: 'current',
  });
});

test('a bundle that is only laid out otherwise is current', () => {
  const reformatted = `# our CA\r\n${bundle.replaceAll('\n', '\r\n')}`;
  expect(planInjection(configuration(viaService('a', reformatted)), bundle)).toEqual({ kind: 'current' });
});

test.each([
  ['absent', () => undefined],
  ['empty', () => ''],
  ['a placeholder', () => '\n'],
  ['that of another authority', () => other],
  ['cut off', () => bundle.slice(0, 100)],
  ['one certificate too many', () => bundle + other],
  ['encoded twice', () => base64(bundle)],
])('the bundle is injected where it is %s', (_what, present) => {
  const plan = planInjection(configuration(viaService('a', present())), bundle);
  expect(plan).toMatchObject({ kind: 'inject', stale: ['a'] });
});

test('an injection repeats every entry that goes through a Service, and no other', () => {
  const plan = planInjection(
    configuration(viaService('right', bundle), viaUrl('elsewhere'), viaService('wrong', other)),
    bundle,
  );
  const clientConfig = { caBundle: base64(bundle) };
  expect(plan).toEqual({
    kind: 'inject',
    entries: [
      { name: 'right', clientConfig },
      { name: 'wrong', clientConfig },
    ],
    stale: ['wrong'],
  });
});
