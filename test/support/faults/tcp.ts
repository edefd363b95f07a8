/** A TCP proxy that injects network faults into connections. It works below TLS, so both sides are unaware of it. */
import { connect, createServer, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

import type { ControlPlane } from '../control-plane.ts';
import { createSeeded } from '../seeded.ts';
import { listen } from '../tls.ts';

/** The receiver of bytes: `target` is the server that the proxy dials, `client` the process that dialled the proxy. */
type Side = 'target' | 'client';

interface Mood {
  /** Delay of a chunk, in milliseconds. Called once for each chunk. */
  readonly delayMs: () => number;
  /** Resolves once bytes for this side may move. Undefined: they may move now. */
  readonly frozen: (to: Side) => Promise<unknown> | undefined;
}

type Link = ReturnType<typeof createLink>;

/** Above this number of bytes in flight in one direction, the proxy stops reading from the sender. */
const UNDER_WAY = 1024 * 1024;

/** The server must accept the client with `allowHalfOpen`. The link dials the target once bytes to it may move. */
function createLink(client: Socket, target: { readonly host: string; readonly port: number }, mood: Mood) {
  const sockets: Socket[] = [client];
  const destroy = () => {
    for (const socket of sockets) socket.destroy();
  };
  const sending = new Map<Side, Socket>([['client', client]]);
  const ended: Promise<unknown>[] = [];
  const watch = (socket: Socket) => {
    socket.setNoDelay(true);
    // A `close` event follows every way that a socket ends.
    socket.on('error', () => undefined);
    ended.push(new Promise((resolve) => socket.once('close', resolve)));
  };
  watch(client);
  const dial = async () => {
    await thawed(mood, 'target');
    if (client.destroyed) return;
    const server = connect({ ...target, allowHalfOpen: true });
    sockets.push(server);
    sending.set('target', server);
    watch(server);
    pump(client, server, 'target', mood);
    pump(server, client, 'client', mood);
    await Promise.all(ended);
  };
  return {
    /** Ends the connection with a FIN on both sides. */
    destroy,
    /** Ends the connection with a RST on both sides. */
    reset: () => {
      for (const socket of sockets) socket.resetAndDestroy();
    },
    /** Ends one direction: this side receives a FIN, and can still send. */
    halfClose: (to: Side) => sending.get(to)?.end(),
    closed: Promise.all([dial(), ...ended]),
  };
}

/** Forwards bytes, FINs and disconnects: each after its delay, and not while the direction is frozen. */
function pump(from: Socket, to: Socket, side: Side, mood: Mood): void {
  let turn: Promise<unknown> = Promise.resolve();
  let underWay = 0;
  const inTurn = (action: () => void) => {
    const due = performance.now() + mood.delayMs();
    turn = turn.then(async () => {
      const left = due - performance.now();
      if (left > 0) await sleep(left);
      await thawed(mood, side);
      action();
    });
  };
  from.on('data', (chunk: Buffer) => {
    underWay += chunk.length;
    if (underWay > UNDER_WAY) from.pause();
    inTurn(() => {
      const arrived = () => {
        underWay -= chunk.length;
        if (underWay <= UNDER_WAY) from.resume();
      };
      if (to.writable) to.write(chunk, arrived);
      else arrived(); // the FIN already announced the end
    });
  });
  from.on('end', () => inTurn(() => to.end()));
  from.on('close', (failed: boolean) => {
    inTurn(() => {
      if (failed) to.resetAndDestroy();
      else if (!to.writableEnded) to.end();
    });
  });
}

/** Waits again if another freeze has begun since. */
async function thawed(mood: Mood, side: Side): Promise<void> {
  for (let gate = mood.frozen(side); gate !== undefined; gate = mood.frozen(side)) await gate;
}

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
    delay: (range: Delay) => void (delay = range),
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
