import { createSecureContext } from 'node:tls';
import { expect, test } from 'vitest';

import { type Authority, caBundle } from '../../pki/authority/authority.ts';
import { splitCertificates, toCertificatePem } from '../../pki/x509/pem.ts';
import { base64, firstAuthority, rotated, serverOf } from '../../../test/support/pki/fixtures.ts';
import { systemClock } from '../../kube/clock.ts';
import { PortUnavailable } from '../../server/listener/listener.ts';
import type { ServingCertificate } from '../../server/webhook-server.ts';
import { configMaps, mutatingWebhookConfigurations } from '../../kube/well-known.ts';
import { createCluster, OWN_NAMESPACE, silent } from '../../../test/support/runtime/fixtures.ts';
import { certificateIn, createCertificateReloader } from './own-certificate.ts';

const NOW = new Date('2026-03-01T00:00:00Z');
const old = await firstAuthority(NOW);
const current = await firstAuthority(NOW);

async function certificateOf(authority: Authority): Promise<ServingCertificate> {
  const { chain, keyPair } = await serverOf(authority, NOW);
  return { chain, key: keyPair.privateKey };
}

const bundleOf = (authority: Authority) => caBundle(authority, NOW);

/** @param reads the bundles of each read; all further reads repeat the last one; undefined: the read fails */
function createReplica(...reads: readonly (readonly string[] | undefined)[]) {
  const presented: string[] = [];
  let slept = 0;
  let refusals = 0;
  const { client } = createCluster({
    get: ({ resource }) => {
      const found = reads[Math.min(slept, reads.length - 1)];
      if (found === undefined) return Promise.reject(new Error('connection refused'));
      const places = [configMaps, mutatingWebhookConfigurations].map((kind) => kind.resource);
      const bundle = found[places.indexOf(resource)];
      return Promise.resolve(bundle === undefined ? undefined : (published(resource, bundle) as never));
    },
  });
  const context = {
    client,
    config: { namespace: OWN_NAMESPACE },
    serverClock: { now: () => NOW },
    metrics: { certificateRead: () => undefined, certificateReadFailed: () => undefined },
    log: silent,
  };
  const present = ({ chain, key }: ServingCertificate) => {
    if (key === '') return Promise.reject(new Error('no such key'));
    if (refusals-- > 0) return Promise.reject(new PortUnavailable('listen EADDRINUSE'));
    presented.push(chain);
    return Promise.resolve();
  };
  const after = (_ms: number, run: () => void) => {
    slept += 1;
    setImmediate(run);
    return () => undefined;
  };
  const offer = createCertificateReloader(context, { present }, { ...systemClock, after });
  const { signal } = new AbortController();
  return {
    presented,
    slept: () => slept,
    refuseToListen: (times: number) => (refusals = times),
    offer: (certificate: ServingCertificate) => offer(certificate, signal),
  };
}

function published(resource: string, bundle: string): unknown {
  return resource === configMaps.resource
    ? { data: { 'ca.crt': bundle } }
    : { webhooks: [{ clientConfig: { caBundle: base64(bundle) } }] };
}

test('C1: a restored certificate that clients do not trust is not presented while they trust the current one', async () => {
  const trusted = bundleOf(current);
  const { presented, offer } = createReplica([trusted], [trusted], [bundleOf(old), bundleOf(old)]);
  const [inUse, restored] = [await certificateOf(current), await certificateOf(old)];
  await offer(inUse);
  const offering = offer(restored);
  await new Promise((resolve) => setImmediate(resolve));
  expect(presented).toEqual([inUse.chain]);
  await offering; // the bundles were restored too, and the leader did not repair them
  expect(presented).toEqual([inUse.chain, restored.chain]);
});

test('a later certificate ends the wait', async () => {
  const { presented, offer } = createReplica([bundleOf(current)]);
  const [inUse, restored] = [await certificateOf(current), await certificateOf(old)];
  const repaired = await certificateOf(current);
  await offer(inUse);
  const waiting = offer(restored);
  await offer(repaired);
  await waiting;
  expect(presented).toEqual([inUse.chain, repaired.chain]);
});

test('while the published bundles cannot be read, the current certificate stays', async () => {
  const { presented, offer, slept } = createReplica(undefined, undefined, undefined, [bundleOf(current)]);
  await offer(await certificateOf(current));
  await offer(await certificateOf(current));
  expect(presented).toHaveLength(2);
  expect(slept()).toBe(3);
});

test('a mismatched key changes nothing, and the next certificate is presented', async () => {
  const { presented, offer } = createReplica([bundleOf(current)]);
  const [first, next] = [await certificateOf(current), await certificateOf(current)];
  for (const certificate of [first, { ...next, key: '' }, next]) await offer(certificate);
  expect(presented).toEqual([first.chain, next.chain]);
});

test('a port that is in use is opened when it is free', async () => {
  const { presented, offer, slept, refuseToListen } = createReplica([bundleOf(current)]);
  refuseToListen(3);
  const certificate = await certificateOf(current);
  await offer(certificate);
  expect(presented).toEqual([certificate.chain]);
  expect(slept()).toBe(3);
});

test.each<[string, (text: string) => string]>([
  ['folded', (text) => text.replaceAll('\n', '')],
  ['indented', (text) => text.replaceAll(/^/gm, '  ')],
  ['with a byte order mark', (text) => `\uFEFF${text}`],
  ['with blank lines', (text) => text.replaceAll('\n', '\n\n')],
  ['of CRLF lines', (text) => text.replaceAll('\n', '\r\n')],
])('a damaged serving Secret (%s) is presented as servers read it', async (_what, damage) => {
  const { chain, key } = await certificateOf(await rotated(current, NOW));
  const secretOf = (certificate: string) => ({
    data: { 'tls.crt': base64(certificate), 'tls.key': base64(damage(key)) },
  });
  const found = certificateIn(secretOf(damage(chain)));
  expect(found).toEqual({ chain, key });
  expect(() => createSecureContext({ cert: found?.chain, key: found?.key })).not.toThrow();
  const [leaf] = splitCertificates(chain);
  const broken = damage(chain).trimEnd().slice(0, -30);
  expect(certificateIn(secretOf(broken))?.chain).toBe(leaf && toCertificatePem([leaf]));
});

test('a serving Secret without certificate or key is not presented', () => {
  expect(certificateIn(undefined)).toBeUndefined();
  expect(certificateIn({ data: { 'tls.crt': '', 'tls.key': '' } })).toBeUndefined();
});
