/** A TCP proxy that injects network faults into connections. It works below TLS, so both sides are unaware of it. */
import { createServer } from 'node:net';

import type { ControlPlane } from '../control-plane.ts';
import { createSeeded } from '../seeded.ts';
import { listen } from '../tls.ts';
import { createLink, type Link, type Mood, type Side } from './connection.ts';

/** In milliseconds; each chunk draws its own delay. */
interface Delay {
  readonly min: number;
  readonly max: number;
}

export type TcpFaults = Awaited<ReturnType<typeof startTcpFaults>>;

const SIDES: readonly Side[] = ['target', 'client'];
const NONE: Delay = { min: 0, max: 0 };

export async function startTcpFaults(target: { readonly host: string; readonly port: number }) {
  const seeded = createSeeded(1);
  const links = new Set<Link>();
  let delay = NONE;
  const gates = new Map<Side, PromiseWithResolvers<undefined>>();
  let isCut = false;

  const mood: Mood = {
    delayMs: () => delay.min + seeded.next() * (delay.max - delay.min),
    frozen: (to) => gates.get(to)?.promise,
  };
  const thaw = () => {
    const opened = [...gates.values()];
    gates.clear();
    for (const gate of opened) gate.resolve(undefined);
  };
  const cut = () => {
    isCut = true;
    for (const link of links) link.destroy();
  };
  const server = createServer({ allowHalfOpen: true }, (client) => {
    if (isCut) {
      client.on('error', () => undefined);
      client.destroy();
      return;
    }
    const link = createLink(client, target, mood);
    links.add(link);
    void link.closed.finally(() => links.delete(link));
  });
  return {
    port: await listen(server),
    /** Ends all connections (FIN), and immediately ends each new one, until `repair`. */
    cut,
    /** Keeps connections open and accepts new ones, but forwards no byte to this side (default: both), until `repair`. */
    freeze: (to?: Side) => {
      for (const side of to === undefined ? SIDES : [to])
        if (!gates.has(side)) gates.set(side, Promise.withResolvers());
    },
    /** Delays each chunk and keeps the order, until `repair`. */
    delay: (range: Delay) => {
      delay = range;
    },
    /** Ends all connections now, with a RST to both sides. */
    reset: () => {
      for (const link of links) link.reset();
    },
    /** Sends this side a FIN on all connections; the proxy still forwards what this side sends. */
    halfClose: (to: Side) => {
      for (const link of links) link.halfClose(to);
    },
    /** Ends every fault. Frozen bytes continue, and none are lost. */
    repair: () => {
      isCut = false;
      delay = NONE;
      thaw();
    },
    stop: async () => {
      cut();
      delay = NONE;
      thaw();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

export const apiServerOf = ({ server }: Pick<ControlPlane, 'server'>) => ({
  host: '127.0.0.1',
  port: Number(new URL(server).port),
});
