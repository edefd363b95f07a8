import { onTestFinished, expect, test } from 'vitest';
import { silent } from '../../../test/support/runtime/fixtures.ts';
import { firstAuthority } from '../../../test/support/pki/fixtures.ts';
import { caBundle } from '../../pki/authority/authority.ts';
import type { ConfigMap } from '../certificates/ca-bundle.ts';
import { createRootRecord } from './root-record.ts';

const now = new Date();
const first = caBundle(await firstAuthority(now), now);
const second = caBundle(await firstAuthority(now), now);
const bundle = (pem: typeof first) => ({ kind: 'bundle', pem }) as const;

/** A leader that shares `published` with others. */
async function lead(published: { live: ConfigMap | undefined }) {
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  const client = {
    get: () => Promise.resolve(published.live),
    replace: (_resource: unknown, next: ConfigMap) => Promise.resolve((published.live = next)),
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
  const published = {
    live: { metadata: { name: 'gatehouse-cabundle' }, data: { 'ca.crt': 'ours' } } as ConfigMap,
  };
  const one = await lead(published);
  expect(one.withFormer('Secret vault/ca', bundle(first))).toMatchObject({ pem: first });
  await expect.poll(() => published.live.metadata?.annotations).toBeDefined();
  one.stop();
  const next = await lead(published);
  expect(next.withFormer('Secret vault/ca', bundle(second))).toMatchObject({ pem: second + first });
  expect(next.withFormer('Secret vault/other', bundle(second))).toMatchObject({ pem: second });
  expect(published.live.data).toEqual({ 'ca.crt': 'ours' });
});
