import { onTestFinished, expect, test, vi } from 'vitest';
import { silent } from '../../../test/support/runtime/fixtures.ts';
import { firstAuthority } from '../../../test/support/pki/fixtures.ts';
import { caBundle } from '../../pki/authority/authority.ts';
import type { ConfigMap } from '../certificates/ca-bundle.ts';
import { parseRecord } from '../../pki/injection/former-roots.ts';
import { createRootRecord } from './root-record.ts';

const now = new Date();
const first = caBundle(await firstAuthority(now), now);
const second = caBundle(await firstAuthority(now), now);
const bundle = (pem: typeof first) => ({ kind: 'bundle', pem }) as const;

/** A leader that shares `published` with others. */
async function lead(published: { live: ConfigMap | undefined }, replace = (next: ConfigMap) => next) {
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  const client = {
    get: () => Promise.resolve(published.live),
    replace: (_resource: unknown, next: ConfigMap) =>
      Promise.resolve(next).then((one) => (published.live = replace(one))),
  };
  let onLoaded: () => void = () => undefined;
  const loaded = new Promise<void>((resolve) => (onLoaded = resolve));
  const context = { client, config: { namespace: 'gatehouse-system' }, log: silent } as never;
  const withFormer = createRootRecord(
    context,
    () => true,
    () => onLoaded(),
    stop.signal,
  );
  expect(withFormer('Secret vault/ca', bundle(first))).toEqual({ kind: 'unknown' });
  await loaded;
  return { withFormer, stop: () => stop.abort() };
}

test('the next leader knows the roots that a source held, even if the source changed meanwhile', async () => {
  const data = { 'ca.crt': 'ours' };
  const published: { live: ConfigMap } = { live: { metadata: { name: 'gatehouse-cabundle' }, data } };
  const one = await lead(published);
  expect(one.withFormer('Secret vault/ca', bundle(first))).toMatchObject({ pem: first });
  await expect.poll(() => published.live.metadata?.annotations).toBeDefined();
  one.stop();
  const next = await lead(published);
  expect(next.withFormer('Secret vault/ca', bundle(second))).toMatchObject({ pem: second + first });
  expect(next.withFormer('Secret vault/other', bundle(second))).toMatchObject({ pem: second });
  expect(published.live.data).toEqual(data);
});

test('a leaked root is gone after its record was deleted, even if the leader writes the record again', async () => {
  const clock = vi.spyOn(performance, 'now');
  onTestFinished(() => clock.mockRestore());
  const metadata = { name: 'gatehouse-cabundle', uid: 'u' };
  const published: { live: ConfigMap } = { live: { metadata } };
  const { withFormer } = await lead(published);
  const later = () => clock.mockReturnValue(performance.now() + 60_000);
  const recorded = () => published.live.metadata?.annotations?.['gatehouse.dev/source-roots'];
  withFormer('Secret vault/ca', bundle(first));
  await expect.poll(recorded).toBeDefined();

  published.live = { metadata };
  later();
  expect(withFormer('Secret vault/ca', bundle(second))).toMatchObject({ pem: second + first });
  await expect.poll(recorded).toBeDefined();
  expect(withFormer('Secret vault/ca', bundle(second))).toMatchObject({ pem: second });

  later();
  withFormer('Secret vault/ca', bundle(first));
  await expect.poll(() => parseRecord(recorded()).get('Secret vault/ca')?.length).toBe(2);
  // Deleted by accident and created again: nothing is forgotten.
  published.live = { metadata: { ...metadata, uid: 'another' } };
  later();
  withFormer('Secret vault/other', bundle(first));
  await expect.poll(() => parseRecord(recorded()).get('Secret vault/ca')?.length).toBe(2);
});

test('a record that cannot be written costs one attempt per interval, however often sources change', async () => {
  let attempts = 0;
  const published: { live: ConfigMap } = { live: { metadata: { name: 'gatehouse-cabundle' } } };
  const { withFormer } = await lead(published, () => {
    attempts += 1;
    throw new Error('a policy refuses it');
  });
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] });
  onTestFinished(() => void vi.useRealTimers());
  for (let index = 0; index < 60; index++) {
    withFormer('Secret vault/ca', bundle(index % 2 === 0 ? first : second));
    await vi.advanceTimersByTimeAsync(1_000);
  }
  expect(attempts).toBeGreaterThan(2);
  expect(attempts).toBeLessThan(10);
});
