/** A TCP proxy that injects network faults into connections. It works below TLS, so both sides are unaware of it. */
import { mkdirSync } from 'node:fs';
import { createServer, type Server } from 'node:net';
import { join } from 'node:path';

import { perUser, writeKubeconfigs, type User } from '../control-plane-users.ts';
import type { ControlPlane } from '../control-plane.ts';
import { createSeeded } from '../seeded.ts';
import { createLink, type Link, type Mood, type Side } from './connection.ts';

export type { Side } from './connection.ts';

/** In milliseconds; each chunk draws its own delay from a range. */
export type Delay = number | { readonly min: number; readonly max: number };

export interface TcpFaults {
  readonly port: number;
  /** Ends all connections (FIN), and each new one at once, until `repair`. */
  readonly cut: () => void;
  /** Keeps connections open and accepts new ones, but forwards no byte to this side (default: both), until `repair`. */
  readonly freeze: (to?: Side) => void;
  /** Delays each chunk to this side (default: both) and keeps the order, until `repair`. */
  readonly delay: (ms: Delay, to?: Side) => void;
  /** Ends this share of the connections (default: all) now, with a RST to both sides. Returns their number. */
  readonly reset: (share?: number) => number;
  /** Sends this side a FIN on all connections; the proxy still forwards what this side sends. Returns their number. */
  readonly halfClose: (to: Side) => number;
  /** Ends this fault (default: all). Frozen bytes continue, and none are lost. */
  readonly repair: (what?: 'cut' | 'freeze' | 'delay') => void;
  /** Number of open connections. */
  readonly connections: () => number;
  /** Number of connections accepted so far, including those that were cut at once. */
  readonly accepted: () => number;
  readonly stop: () => Promise<void>;
}

export interface TcpFaultsOptions {
  readonly target: { readonly host: string; readonly port: number };
  /** Seed for random delays and for shares of connections. Default: 1. */
  readonly seed?: number;
  /** Default: any free port. */
  readonly port?: number;
}

const SIDES: readonly Side[] = ['target', 'client'];

export async function startTcpFaults({ target, seed = 1, port = 0 }: TcpFaultsOptions): Promise<TcpFaults> {
  const seeded = createSeeded(seed);
  const links = new Set<Link>();
  const delays = new Map<Side, Delay>();
  const gates = new Map<Side, PromiseWithResolvers<undefined>>();
  let isCut = false;
  let accepted = 0;

  const mood: Mood = {
    delayMs: (to) => {
      const delay = delays.get(to) ?? 0;
      return typeof delay === 'number' ? delay : delay.min + seeded.next() * (delay.max - delay.min);
    },
    frozen: (to) => gates.get(to)?.promise,
  };
  const thaw = () => {
    const opened = [...gates.values()];
    gates.clear();
    for (const gate of opened) gate.resolve(undefined);
  };
  const server = createServer({ allowHalfOpen: true }, (client) => {
    accepted += 1;
    if (isCut) {
      client.on('error', () => undefined);
      client.destroy();
      return;
    }
    const link = createLink(client, target, mood);
    links.add(link);
    void link.closed.finally(() => links.delete(link));
  });
  const chosen = await listening(server, port);

  return {
    port: chosen,
    cut: () => {
      isCut = true;
      for (const link of links) link.destroy();
    },
    freeze: (to) => {
      for (const side of to === undefined ? SIDES : [to])
        if (!gates.has(side)) gates.set(side, Promise.withResolvers());
    },
    delay: (ms, to) => {
      for (const side of to === undefined ? SIDES : [to]) delays.set(side, ms);
    },
    reset: (share = 1) => {
      const hit = [...links].filter(() => share >= 1 || seeded.chance(share));
      for (const link of hit) link.reset();
      return hit.length;
    },
    halfClose: (to) => {
      for (const link of links) link.halfClose(to);
      return links.size;
    },
    repair: (what) => {
      if (what === undefined || what === 'cut') isCut = false;
      if (what === undefined || what === 'delay') delays.clear();
      if (what === undefined || what === 'freeze') thaw();
    },
    connections: () => links.size,
    accepted: () => accepted,
    stop: async () => {
      isCut = true;
      delays.clear();
      for (const link of links) link.destroy();
      thaw();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

async function listening(server: Server, port: number): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', resolve);
  });
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('a TCP server has a port');
  return address.port;
}

/** The API server of a control plane, as the target of `startTcpFaults`. */
export const apiServerOf = ({ server }: Pick<ControlPlane, 'server'>) => ({
  host: '127.0.0.1',
  port: Number(new URL(server).port),
});

/**
 * Kubeconfigs that reach the API server through `port`. Its certificate stays valid, because it is issued for
 * `localhost`.
 * @param name the name of their folder, inside the folder of the control plane
 */
export function kubeconfigsThrough(
  plane: Pick<ControlPlane, 'folder' | 'ca' | 'token'>,
  name: string,
  port: number,
): (user: User) => string {
  const folder = join(plane.folder, `through-${name}`);
  mkdirSync(folder, { recursive: true });
  const paths = writeKubeconfigs(folder, `https://localhost:${port}`, plane.ca, perUser(plane.token));
  return (user) => paths[user];
}
