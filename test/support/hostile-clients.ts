/** Hostile clients, and what must be true after each of them. */
import { connect as connectTcp, type Server } from 'node:net';
import type { ConnectionOptions } from 'node:tls';
import { promisify } from 'node:util';
import { afterAll, afterEach, beforeAll, expect, onTestFinished } from 'vitest';

import type { CompiledPolicy } from '../../src/admission/policy/compile.ts';
import { openRaw, post, reviewOf, VALIDATE, type RawConnection } from './webhook-client.ts';
import { governedBy, runWebhookServer, serversPolicy, type Running } from './webhook-server.ts';

export async function expectLife(running: Running): Promise<void> {
  const answer = await post(running, VALIDATE, reviewOf());
  expect(answer).toMatchObject({ status: 200, body: expect.stringContaining('"allowed":true') as string });
}

/** One server for all tests of a file. It must still answer after each of them. */
export function sharedServer(...policies: readonly CompiledPolicy[]): Running {
  const server = {} as Running; // complete before the first test
  beforeAll(async () => void Object.assign(server, await runWebhookServer(governedBy(policies))));
  afterAll(() => server.app.close());
  if (policies.includes(serversPolicy)) afterEach(() => expectLife(server));
  return server;
}

export const connectionsOf = ({ app }: { readonly app: { readonly server: Server } }): Promise<number> =>
  promisify(app.server.getConnections.bind(app.server))();

export async function open(running: Running, options: ConnectionOptions = {}): Promise<RawConnection> {
  const connection = await openRaw(running, options);
  onTestFinished(() => void connection.socket.destroy());
  return connection;
}

export async function openPlain(port: number) {
  const socket = connectTcp(port, '127.0.0.1').on('error', () => undefined);
  onTestFinished(() => void socket.destroy());
  const closed = new Promise((resolve) => socket.once('close', resolve));
  await new Promise((resolve) => socket.once('connect', resolve).once('close', resolve));
  return { socket: socket.resume(), closed };
}

/** Sends `bytes`, and returns everything received until the server hangs up or `until` matches. */
export async function say(server: Running, bytes: string | Buffer, until?: RegExp): Promise<string> {
  const { socket, received } = await open(server);
  socket.write(bytes);
  return await received(until);
}

export const statusesIn = (text: string) =>
  [...text.matchAll(/HTTP\/1\.1 (\d{3})/g)].map(([, status]) => Number(status));
