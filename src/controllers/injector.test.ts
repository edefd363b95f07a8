import { beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { caBundle } from '../pki/bundle.ts';
import { base64, firstAuthority } from '../pki/fixtures.ts';
import type { Webhook, WebhookConfiguration } from '../pki/injection.ts';
import type { CertificatePem } from '../pki/pem.ts';
import { createObjects, NEVER, silent, untilDone, type Objects } from './fixtures.ts';
import { createInjector, type InjectorDeps } from './injector.ts';

const now = new Date('2026-11-21T12:00:00Z');
let bundle: CertificatePem;
let otherBundle: CertificatePem;
beforeAll(async () => {
  bundle = caBundle(await firstAuthority(now), now);
  otherBundle = caBundle(await firstAuthority(now), now);
});

type Applied = Parameters<InjectorDeps['apply']>;

let configurations: Objects<WebhookConfiguration>;
let applied: Applied[1][];
beforeEach(() => {
  configurations = createObjects();
  applied = [];
});

const injector = (change: Partial<InjectorDeps> = {}) =>
  createInjector({ configuration: configurations.read, bundle: () => bundle, apply, log: silent, ...change });

/** Server-side apply, as far as it goes here: entries are merged by name, for the version that was looked at. */
async function apply(...[{ name, resourceVersion }, entries]: Applied): Promise<void> {
  applied.push(entries);
  const live = configurations.read(name);
  const webhooks = (live?.webhooks ?? []).map((webhook): Webhook => {
    const entry = entries.find((candidate) => candidate.name === webhook.name);
    return { ...webhook, clientConfig: { ...webhook.clientConfig, ...entry?.clientConfig } };
  });
  const metadata = { ...live?.metadata, ...(resourceVersion === undefined ? {} : { resourceVersion }) };
  await configurations.replace({ ...live, metadata, webhooks });
}

const viaService = (name: string, caBundleText?: string) => ({
  name,
  failurePolicy: 'Fail',
  clientConfig: {
    service: { namespace: 'prod', name: 'hook' },
    ...(caBundleText === undefined ? {} : { caBundle: base64(caBundleText) }),
  },
});
const asking = (...webhooks: Webhook[]): WebhookConfiguration => ({
  metadata: { name: 'hooks', annotations: { 'gatehouse.dev/inject-cabundle': 'true' } },
  webhooks,
});

test('the bundle goes into every entry that reaches its webhook through a Service, and nothing else changes', async () => {
  const url = { name: 'c', clientConfig: { url: 'https://example.com' } };
  configurations.add(asking(viaService('a'), viaService('b', otherBundle), url));
  await injector()('hooks', NEVER);
  const clientConfig = { caBundle: base64(bundle) };
  expect(applied).toEqual([
    [
      { name: 'a', clientConfig },
      { name: 'b', clientConfig },
    ],
  ]);
  expect(configurations.read('hooks')).toMatchObject(
    asking(viaService('a', bundle), viaService('b', bundle), url),
  );
});

test('running twice writes nothing the second time', async () => {
  configurations.add(asking(viaService('a')));
  await injector()('hooks', NEVER);
  expect(await injector()('hooks', NEVER)).toEqual({ kind: 'await-change' });
  expect(configurations.writes()).toBe(1);
});

test('a bundle that someone wiped comes back', async () => {
  configurations.add(asking(viaService('a')));
  await injector()('hooks', NEVER);
  configurations.edit('hooks', (live) => ({ ...live, webhooks: [viaService('a')] }));
  await injector()('hooks', NEVER);
  expect(configurations.read('hooks')?.webhooks?.[0]?.clientConfig.caBundle).toBe(base64(bundle));
});

test('a new bundle replaces the one before', async () => {
  configurations.add(asking(viaService('a', bundle)));
  await injector({ bundle: () => otherBundle })('hooks', NEVER);
  expect(configurations.read('hooks')?.webhooks?.[0]?.clientConfig.caBundle).toBe(base64(otherBundle));
});

describe('nothing is written', () => {
  test.each<[string, WebhookConfiguration | undefined]>([
    ['into a configuration that does not ask', { metadata: { name: 'hooks' }, webhooks: [viaService('a')] }],
    ['into one without webhooks', asking()],
    ['into one that reaches its webhooks by url', asking({ name: 'a', clientConfig: { url: 'https://x' } })],
    ['when there is none', undefined],
  ])('%s', async (_where, configuration) => {
    if (configuration !== undefined) configurations.add(configuration);
    expect(await injector()('hooks', NEVER)).toEqual({ kind: 'await-change' });
    expect(applied).toEqual([]);
  });

  test('before there is an authority', async () => {
    configurations.add(asking(viaService('a')));
    await injector({ bundle: () => undefined })('hooks', NEVER);
    expect(applied).toEqual([]);
  });
});

test('an apply for a version that is gone is a failure, to be tried again on what is there then', async () => {
  configurations.add(asking(viaService('a'), viaService('b')));
  const stale = configurations.read('hooks');
  configurations.edit('hooks', () => asking(viaService('a')));
  await expect(injector({ configuration: () => stale })('hooks', NEVER)).rejects.toMatchObject({ code: 409 });
  await injector()('hooks', NEVER);
  expect(applied.at(-1)?.map(({ name }) => name)).toEqual(['a']);
});

test.each([
  ['before', 2],
  ['after', 1],
] as const)('killed %s its write it converges', async (when, writes) => {
  configurations.add(asking(viaService('a')));
  configurations.interrupt(when);
  await untilDone(injector(), 'hooks');
  expect(configurations.read('hooks')?.webhooks?.[0]?.clientConfig.caBundle).toBe(base64(bundle));
  expect(configurations.writes()).toBe(writes);
});
