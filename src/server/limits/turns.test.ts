import { describe, expect, test } from 'vitest';

import { createReviewTurns } from './load-shedding.ts';
import { createTurnQueue, createTimeSlices } from './turns.ts';

const requesterOf = (username: string, namespace: string | undefined) => ({
  entry: 'e',
  request: { userInfo: { username, uid: '', groups: [], extra: {} }, namespace },
});

/** An event loop that the test drives. */
function loop() {
  const turns: (() => void)[] = [];
  const queue = createTurnQueue((callback) => void turns.push(callback));
  const review = createReviewTurns(queue);
  const done: string[] = [];
  const work = async (
    name: string,
    costs: readonly number[],
    [user, namespace]: readonly [user: string, namespace?: string] = [name, name],
    signal = new AbortController().signal,
  ): Promise<void> => {
    const turn = review(requesterOf(user, namespace), signal);
    for (const cost of costs) {
      const waiting = turn.next();
      if (waiting !== undefined) await waiting;
      done.push(name);
      turn.charge(cost);
    }
  };
  const settle = async () => {
    for (let microtask = 0; microtask < 20; microtask += 1) await Promise.resolve();
  };
  return {
    queue,
    review,
    work,
    /** What was done since the last call, in this turn of the event loop. */
    done: () => done.splice(0).join(' '),
    /** Runs one turn of the event loop, and returns what was done in it. */
    turn: async () => {
      turns.shift()?.();
      await settle();
      return done.splice(0).join(' ');
    },
    isIdle: () => turns.length === 0,
    report: (name: string) => void done.push(name),
  };
}

/** One of these takes a whole slice. */
const SLOW = 1_000_000;
const FAST = 100;

describe('reviews', () => {
  test('run immediately while the queue is empty, and cheap ones are not counted', () => {
    const { work, done, isIdle } = loop();
    void work('a', [FAST, FAST]);
    void work('b', [FAST]);
    expect(done()).toBe('a a b');
    expect(isIdle()).toBe(true);
  });

  test('share a slice of cost per turn: the next one waits when it is used', async () => {
    const { work, done, turn, isIdle } = loop();
    for (const name of ['a', 'b', 'c', 'd']) void work(name, [100_000]);
    expect(done()).toBe('a b');
    expect(await turn()).toBe('c');
    expect(await turn()).toBe('d');
    expect(await turn()).toBe('');
    expect(isIdle()).toBe(true);
  });

  test('of many policies pause between two, so that others have their turn', async () => {
    const { work, done, turn } = loop();
    void work('a', [SLOW, SLOW, SLOW]);
    void work('b', [FAST, FAST, FAST]);
    expect(done()).toBe('a');
    expect(await turn()).toBe('b b b');
    expect(await turn()).toBe('a');
    expect(await turn()).toBe('a');
  });

  test('that have read the cluster are evaluated in different turns', async () => {
    const { review, queue, turn } = loop();
    const order: number[] = [];
    const read = async (index: number): Promise<void> => {
      const turns = review(requesterOf('mallory', 'hers'), new AbortController().signal);
      expect(turns.next()).toBeUndefined();
      await Promise.resolve();
      const waiting = turns.next(true);
      if (waiting !== undefined) await waiting;
      order.push(index);
      turns.charge(SLOW);
    };
    for (const index of [1, 2, 3]) void read(index);
    await turn();
    expect(order).toEqual([1]);
    await turn();
    await turn();
    expect(order).toEqual([1, 2, 3]);
    expect(queue.isEmpty()).toBe(true);
  });

  test('a hundred of one user delay a bystander by one turn, however late it comes', async () => {
    const { work, done, turn } = loop();
    for (let count = 0; count < 100; count += 1) void work('mallory', [SLOW, SLOW]);
    expect(done()).toBe('mallory');
    for (let count = 0; count < 30; count += 1) expect(await turn()).toBe('mallory');
    for (let count = 0; count < 5; count += 1) {
      void work('ada', [FAST, FAST]);
      expect([await turn(), await turn()]).toEqual(['ada ada', 'mallory']);
    }
  });

  test.each([
    ['one user in many namespaces', (index: number) => ['mallory', `hers-${index}`] as const],
    ['many users in one namespace', (index: number) => [`bot-${index}`, 'hers'] as const],
    ['a controller that acts for both', () => ['controller', 'hers'] as const],
    ['one user with cluster-scoped objects', () => ['mallory'] as const],
  ])('of %s count together', async (_who, make) => {
    const { work, turn, done } = loop();
    for (let index = 0; index < 20; index += 1) void work('attack', [SLOW], make(index));
    done();
    expect(await turn()).toBe('attack');
    void work('ada', [FAST], ['ada', 'shop']);
    void work('pod', [FAST], ['controller', 'shop']);
    expect([await turn(), await turn(), await turn()]).toEqual(['ada', 'pod', 'attack']);
  });

  test('of two busy users get the same share, even if one sends more', async () => {
    const { work, turn, done } = loop();
    for (let count = 0; count < 40; count += 1) void work('many', [SLOW]);
    for (let count = 0; count < 10; count += 1) void work('few', [SLOW]);
    done();
    const served: string[] = [];
    for (let count = 0; count < 18; count += 1) served.push(await turn());
    expect(served.filter((name) => name === 'few')).toHaveLength(9);
  });

  test('continue when their time to answer is over, to say so', async () => {
    const { work, done, turn } = loop();
    const over = new AbortController();
    for (let count = 0; count < 3; count += 1) void work('mallory', [SLOW]);
    const late = work('late', [FAST], ['mallory', 'hers'], over.signal);
    expect(done()).toBe('mallory');
    over.abort();
    await late;
    expect(done()).toBe('late');
    expect(await turn()).toBe('mallory');
  });
});

test('after a second of CPU time, earlier use is forgotten', async () => {
  const { queue, turn } = loop();
  const order: string[] = [];
  const wait = (client: string) => void queue.wait([client]).then(() => order.push(client));
  wait('other'); // so that what they used counts
  wait('other');
  for (let count = 0; count < 20; count += 1) queue.use(['old'], SLOW);
  queue.use(['new'], SLOW);
  wait('new');
  wait('old');
  for (let count = 0; count < 4; count += 1) await turn();
  expect(order).toEqual(['other', 'other', 'old', 'new']);
});

test('concurrent jobs share one slice per turn, each in order', async () => {
  const { queue, turn, isIdle, report } = loop();
  let now = 1_000_000;
  const breathe = createTimeSlices(10, () => now, queue);
  const work = async (name: string): Promise<void> => {
    for (const piece of [1, 2]) {
      await breathe();
      now += 10;
      report(`${name}${piece}`);
    }
  };
  const all = ['a', 'b', 'c'].map(work);
  const turns: string[] = [];
  while (!isIdle()) turns.push(await turn());
  await Promise.all(all);
  expect(turns).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'c2']);
});
