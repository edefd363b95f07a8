import { createServer } from 'node:http';
import { connect, type AddressInfo } from 'node:net';
import { expect, onTestFinished, test } from 'vitest';

import { limitConnections } from './connection-limit.ts';

const MOST = 3;
const CLIENTS = 200;

test('a connection that was closed does not count, even before its socket has closed', async () => {
  const server = createServer();
  let crowdedOut = 0;
  const { count } = limitConnections(server, MOST, 0, () => (crowdedOut += 1));
  let most = 0;
  server.on('connection', () => (most = Math.max(most, count())));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo; // it listens on TCP

  let closed = 0;
  const clients = Array.from({ length: CLIENTS }, () =>
    connect(port, '127.0.0.1')
      .on('error', () => undefined)
      .on('close', () => (closed += 1))
      .resume(),
  );
  onTestFinished(() => {
    for (const client of clients) client.destroy();
    server.close();
  });
  await expect.poll(() => closed).toBe(CLIENTS - MOST);

  expect(most).toBe(MOST);
  expect(count()).toBe(MOST);
  expect(crowdedOut).toBe(CLIENTS - MOST);
});
