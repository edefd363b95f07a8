/** Hostile clients, and the checks that must hold whatever they do. */
import { connect as connectTcp, type Socket } from 'node:net';
import type { ConnectionOptions } from 'node:tls';
import { expect, onTestFinished } from 'vitest';

import { openRaw, post, reviewOf, VALIDATE, type RawConnection } from './webhook-client.ts';
import type { Running } from './webhook-server.ts';

export async function expectLife(running: Running): Promise<void> {
  const answer = await post(running, VALIDATE, reviewOf());
  expect(answer).toMatchObject({ status: 200, body: expect.stringContaining('"allowed":true') as string });
}

export const connectionsOf = ({ app }: Running): Promise<number> =>
  new Promise((resolve, reject) => {
    app.server.getConnections((error, count) => {
      if (error === null) resolve(count);
      else reject(error);
    });
  });

export async function open(running: Running, options: ConnectionOptions = {}): Promise<RawConnection> {
  const connection = await openRaw(running, options);
  onTestFinished(() => void connection.socket.destroy());
  return connection;
}

export async function openPlain(
  port: number,
): Promise<{ readonly socket: Socket; readonly closed: Promise<unknown> }> {
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
