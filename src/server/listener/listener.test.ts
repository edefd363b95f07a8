import { createServer, type AddressInfo } from 'node:net';

import { describe, expect, onTestFinished, test } from 'vitest';

import { firstAuthority, serverOf } from '../../../test/support/pki/fixtures.ts';
import { createListener, PortUnavailable } from './listener.ts';
import { recordingOptions } from '../../../test/support/webhook-server.ts';

const now = new Date();
const later = (ms: number) => new Date(now.getTime() + ms);
const DAY = 24 * 3600 * 1000;

async function certificate() {
  const { chain, keyPair, notAfter } = await serverOf(await firstAuthority(now), now);
  return { pair: { chain, key: keyPair.privateKey }, notAfter };
}

function start(port = 0) {
  const listener = createListener({ host: '127.0.0.1', port }, recordingOptions().options);
  onTestFinished(() => listener.close());
  return { listener };
}

describe('the health problem of a listener', () => {
  test('OPA TestReconcilerSync: certs-not-mounted, certs-mounted: reports a missing certificate until there is one', async () => {
    const { listener } = start();
    expect(listener.problem(now)).toBe('there is no serving certificate yet');
    await listener.present((await certificate()).pair);
    expect(listener.problem(now)).toBeUndefined();
  });

  test('reports an expired certificate from the second of its expiry', async () => {
    const { listener } = start();
    const { pair, notAfter } = await certificate();
    await listener.present(pair);
    expect(listener.problem(new Date(notAfter.getTime() - 1))).toBeUndefined();
    expect(listener.problem(notAfter)).toContain('the serving certificate ended at');
    expect(listener.problem(later(2 * DAY))).toContain('the serving certificate ended at');
  });
});

test('a port that is in use is named, and opened once it is free', async () => {
  const other = createServer();
  await new Promise<void>((listening) => other.listen(0, '127.0.0.1', listening));
  const { port } = other.address() as AddressInfo;
  const { listener } = start(port);
  const { pair } = await certificate();
  await expect(listener.present(pair)).rejects.toThrow(PortUnavailable);
  expect(listener.problem(now)).toContain(`cannot listen on port ${port}: listen EADDRINUSE`);
  await new Promise((closed) => other.close(closed));
  await listener.present(pair);
  expect(listener.problem(now)).toBeUndefined();
});
