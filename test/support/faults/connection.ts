/** One TCP connection through the harness: two sockets, and in each direction bytes that wait their turn. */
import { connect, type Socket } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

/** Whom bytes go to: `target` is who is dialled, `client` who dials. */
export type Side = 'target' | 'client';

/** What holds for all connections at a moment. */
export interface Mood {
  /** How long a chunk for this side is under way, in milliseconds. Asked once a chunk. */
  readonly delayMs: (to: Side) => number;
  /** Resolves once bytes for this side may move. Undefined: they may. */
  readonly frozen: (to: Side) => Promise<unknown> | undefined;
}

export interface Link {
  /** Both sides learn of it by a FIN. */
  readonly destroy: () => void;
  /** Both sides learn of it by a RST. */
  readonly reset: () => void;
  /** This side is told that no more is to come (FIN), and may go on talking itself. */
  readonly halfClose: (to: Side) => void;
  readonly closed: Promise<unknown>;
}

/** More than so much on its way in one direction, and its sender is no longer read. In bytes. */
const UNDER_WAY = 1024 * 1024;

/** The client has been accepted with `allowHalfOpen`. The target is dialled when the mood lets bytes through to it. */
export function createLink(
  client: Socket,
  target: { readonly host: string; readonly port: number },
  mood: Mood,
): Link {
  const sockets: Socket[] = [client];
  const destroy = () => {
    for (const socket of sockets) socket.destroy();
  };
  const sending = new Map<Side, Socket>([['client', client]]);
  const ended: Promise<unknown>[] = [];
  const watch = (socket: Socket) => {
    socket.setNoDelay(true);
    // Each way that a socket ends is followed by `close`.
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
    destroy,
    reset: () => {
      for (const socket of sockets) socket.resetAndDestroy();
    },
    halfClose: (to) => sending.get(to)?.end(),
    closed: Promise.all([dial(), ...ended]),
  };
}

/** Passes on bytes, the end of them, and that a side has gone: each after its delay, and not while it is frozen. */
function pump(from: Socket, to: Socket, side: Side, mood: Mood): void {
  let turn: Promise<unknown> = Promise.resolve();
  let underWay = 0;
  const inTurn = (action: () => void) => {
    const due = performance.now() + mood.delayMs(side);
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
      else arrived(); // it was told that nothing more comes
    });
  });
  from.on('end', () => {
    inTurn(() => to.end());
  });
  from.on('close', (failed: boolean) => {
    inTurn(() => {
      if (failed) to.resetAndDestroy();
      else if (!to.writableEnded) to.end();
    });
  });
}

/** Frozen again while it waited, it waits again. */
async function thawed(mood: Mood, side: Side): Promise<void> {
  for (let gate = mood.frozen(side); gate !== undefined; gate = mood.frozen(side)) await gate;
}
