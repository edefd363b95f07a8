import type { Breathe } from '../../admission/conversion/review-text.ts';
import type { Turns } from '../../admission/policy/world.ts';

interface Waiting {
  readonly clients: readonly string[];
  readonly resume: () => void;
}

/** Earlier use is forgotten after this total, so that a long overload does not punish it or fill the memory. */
const FORGET_AFTER = 20_000_000;

/** Each turn resumes one waiting task: the one whose clients, e.g. a user and a namespace, have used the least. */
export function createTurnQueue(nextTurn: (callback: () => void) => void = setImmediate) {
  const waiting: Waiting[] = [];
  const usedBy = new Map<string, number>();
  let [usedInTurn, usedRecently, isScheduled] = [0, 0, false];

  const schedule = (): void => {
    if (!isScheduled) nextTurn(startTurn);
    isScheduled = true;
  };
  const startTurn = (): void => {
    [usedInTurn, isScheduled] = [0, false];
    takeNext()?.resume();
    if (waiting.length > 0) schedule();
    else usedBy.clear();
  };
  const takeNext = (): Waiting | undefined => {
    const used = waiting.map(({ clients }) =>
      clients.reduce((sum, client) => sum + (usedBy.get(client) ?? 0), 0),
    );
    return waiting.splice(used.indexOf(Math.min(...used)), 1)[0];
  };
  return {
    isEmpty: () => waiting.length === 0,
    usedInTurn: () => usedInTurn,
    use: (clients: readonly string[], amount: number): void => {
      usedInTurn += amount;
      usedRecently += amount;
      for (const client of clients) usedBy.set(client, (usedBy.get(client) ?? 0) + amount);
      if (usedRecently >= FORGET_AFTER) {
        usedRecently = 0;
        usedBy.clear();
      }
      schedule();
    },
    wait: (clients: readonly string[] = [], signal?: AbortSignal): Promise<void> => {
      const { promise, resolve } = Promise.withResolvers<undefined>();
      const work: Waiting = { clients, resume: () => resolve(undefined) };
      waiting.push(work);
      const leave = () => {
        const at = waiting.indexOf(work);
        if (at >= 0) waiting.splice(at, 1);
        work.resume();
      };
      signal?.addEventListener('abort', leave, { once: true });
      schedule();
      return promise;
    },
  };
}

/** All work that calls the same function shares one slice per turn, first come, first served. @param queue of this work */
export function createTimeSlices(
  sliceMs: number,
  now = () => performance.now(),
  queue = createTurnQueue(),
): Breathe {
  let sliceStart = -Infinity;
  return () => {
    if (queue.isEmpty() && now() - sliceStart < sliceMs) return undefined;
    return queue.wait().then(() => {
      sliceStart = now();
    });
  };
}

/** All audits and sweeps of the process share these turns. 10 ms is about as long as a garbage collection. */
export const backgroundTurns: Turns = { next: createTimeSlices(10), charge: () => undefined };

/** `over-share`: available to other clients only. */
export type Shortage = 'over-share' | 'full';

/** Amounts by name. Clients choose the names: names without an amount are dropped. */
export function createTally() {
  const amounts = new Map<string, number>();
  const of = (name: string): number => amounts.get(name) ?? 0;
  return {
    of,
    add: (name: string, amount: number): void => {
      const sum = of(name) + amount;
      if (sum > 0) amounts.set(name, sum);
      else amounts.delete(name);
    },
  };
}

/** A client may hold at most what it leaves for others. @see Choudhury, Hahne: Dynamic Queue Length Thresholds, 1998 */
export function createFairShare(limit: number) {
  const held = createTally();
  let taken = 0;
  const check = (client: string, amount: number): Shortage | undefined => {
    const left = limit - taken - amount;
    if (left < 0) return 'full';
    return held.of(client) > left ? 'over-share' : undefined;
  };
  return {
    check,
    take: (client: string, amount: number): Shortage | undefined => {
      const shortage = check(client, amount);
      if (shortage !== undefined) return shortage;
      held.add(client, amount);
      taken += amount;
      return undefined;
    },
    giveBack: (client: string, amount: number): void => {
      held.add(client, -amount);
      taken -= amount;
    },
    room: (client: string): number => limit - taken - held.of(client),
    taken: () => taken,
  };
}
