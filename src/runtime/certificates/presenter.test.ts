import { beforeAll, expect, test } from 'vitest';
import type { Authority } from '../../pki/authority/authority.ts';
import { caBundle } from '../../pki/authority/bundle.ts';
import { firstAuthority, rotated, serverOf } from '../../../test/support/pki/fixtures.ts';
import type { ServingCertificate } from '../../server/listener/serving-certificate.ts';
import { createPresenter } from './presenter.ts';

const NOW = new Date('2026-03-01T00:00:00Z');
const DAYS_LATER = new Date('2026-03-05T00:00:00Z');
let [old, current]: Authority[] = [];

beforeAll(async () => {
  old = await firstAuthority(NOW);
  current = await firstAuthority(NOW);
});

async function certificateOf(authority: Authority | undefined): Promise<ServingCertificate> {
  if (authority === undefined) throw new Error('there is no authority');
  const { chain, keyPair } = await serverOf(authority, NOW);
  return { chain, key: keyPair.privateKey };
}

const bundleOf = (authority: Authority | undefined) =>
  authority === undefined ? '' : caBundle(authority, NOW);

/** `looks`: the bundles as each look finds them, the last for ever; undefined is a failure. */
function scene(...looks: readonly (readonly string[] | undefined)[]) {
  const presented: string[] = [];
  let time = NOW;
  let slept = 0;
  const presenter = createPresenter({
    present: ({ chain, key }) => {
      if (key === '') return Promise.reject(new Error('no such key'));
      presented.push(chain);
      return Promise.resolve();
    },
    readBundles: () => {
      const found = looks[Math.min(slept, looks.length - 1)];
      return found === undefined ? Promise.reject(new Error('connection refused')) : Promise.resolve(found);
    },
    sleep: async () => {
      slept += 1;
      await new Promise((resolve) => setImmediate(resolve));
    },
    now: () => time,
    log: { warn: () => undefined, error: () => undefined },
  });
  const { signal } = new AbortController();
  return {
    presented,
    slept: () => slept,
    offer: (certificate: ServingCertificate) => presenter.offer(certificate, signal),
    passTime: () => (time = DAYS_LATER),
  };
}

test('the first certificate is presented whatever is published: nobody could be served without one', async () => {
  const { presented, offer } = scene([bundleOf(current)]);
  const first = await certificateOf(old);
  await offer(first);
  expect(presented).toEqual([first.chain]);
});

test('C1: a restored certificate that nobody trusts any more is not presented while the one in use is trusted', async () => {
  const { presented, offer } = scene(
    [bundleOf(current)],
    [bundleOf(current)],
    [bundleOf(old), bundleOf(old)],
  );
  const [inUse, restored] = [await certificateOf(current), await certificateOf(old)];
  await offer(inUse);
  const offering = offer(restored);
  await new Promise((resolve) => setImmediate(resolve));
  expect(presented).toEqual([inUse.chain]);
  await offering; // the bundles were restored as well, and nobody mended them
  expect(presented).toEqual([inUse.chain, restored.chain]);
});

test('one that comes after it ends the wait', async () => {
  const { presented, offer } = scene([bundleOf(current)]);
  const [inUse, restored, mended] = [
    await certificateOf(current),
    await certificateOf(old),
    await certificateOf(current),
  ];
  await offer(inUse);
  const waiting = offer(restored);
  await offer(mended);
  await waiting;
  expect(presented).toEqual([inUse.chain, mended.chain]);
});

test('a renewed certificate and one of the next CA are presented at once', async () => {
  if (current === undefined) throw new Error('there is no authority');
  const next = await rotated(current, NOW);
  const { presented, offer, slept } = scene([bundleOf(next)]);
  const certificates = [
    await certificateOf(current),
    await certificateOf(current),
    await certificateOf(next),
  ];
  for (const certificate of certificates) await offer(certificate);
  expect(presented).toEqual(certificates.map(({ chain }) => chain));
  expect(slept()).toBe(0);
});

test('where nothing is published yet, the Secret counts', async () => {
  const { presented, offer } = scene([]);
  await offer(await certificateOf(current));
  await offer(await certificateOf(old));
  expect(presented).toHaveLength(2);
});

test('a certificate that has ended is worse than any other', async () => {
  const { presented, offer, passTime } = scene([bundleOf(current)]);
  await offer(await certificateOf(current));
  passTime();
  await offer(await certificateOf(old));
  expect(presented).toHaveLength(2);
});

test('while nobody can tell what is published, the one in use stays', async () => {
  const { presented, offer, slept } = scene(undefined, undefined, undefined, [bundleOf(current)]);
  await offer(await certificateOf(current));
  await offer(await certificateOf(current));
  expect(presented).toHaveLength(2);
  expect(slept()).toBe(3);
});

test('a key that does not fit changes nothing, and the next certificate is presented', async () => {
  const { presented, offer } = scene([bundleOf(current)]);
  const [first, broken, next] = [
    await certificateOf(current),
    { ...(await certificateOf(current)), key: '' },
    await certificateOf(current),
  ];
  for (const certificate of [first, broken, next]) await offer(certificate);
  expect(presented).toEqual([first.chain, next.chain]);
});
