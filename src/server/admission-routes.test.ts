import { describe, expect, it } from 'vitest';

import { createBatch, createOneByOne } from './admission-routes.ts';

const unexpected = (error: unknown) => {
  throw error;
};

/** A batch in an event loop that the test controls. */
function setUp(decisionMs = 0) {
  const log: string[] = [];
  const ends: (() => void)[] = [];
  let now = 1_000_000;
  const batch = createBatch(
    (callback) => ends.push(callback),
    () => now,
  );
  const add = (name: string) =>
    batch({
      decide: () => {
        log.push(`decide ${name}`);
        now += decisionMs;
        return () => log.push(`send ${name}`);
      },
      fail: unexpected,
    });
  const endTurn = () => {
    for (const end of ends.splice(0)) end();
  };
  return { batch, add, endTurn, log, ends };
}

describe('createBatch', () => {
  it('decides what arrived in a turn in order, and then sends all answers', () => {
    const { add, endTurn, log, ends } = setUp();
    add('a');
    add('b');
    expect(log).toEqual([]);
    expect(ends).toHaveLength(1);
    endTurn();
    expect(log).toEqual(['decide a', 'decide b', 'send a', 'send b']);

    add('c');
    endTurn();
    expect(log.slice(4)).toEqual(['decide c', 'send c']);
  });

  it('sends at least every millisecond', () => {
    const { add, endTurn, log } = setUp(0.5);
    for (const name of ['a', 'b', 'c']) add(name);
    endTurn();
    expect(log).toEqual(['decide a', 'decide b', 'send a', 'send b', 'decide c', 'send c']);
  });

  it('does not wait for the end of the turn when 32 have arrived', () => {
    const { add, endTurn, log } = setUp();
    for (let index = 0; index < 33; index += 1) add(String(index));
    expect(log).toHaveLength(64);
    endTurn();
    expect(log).toHaveLength(66);
  });

  it('goes on with the other requests when one cannot be decided or answered', () => {
    const { batch, add, endTurn, log } = setUp();
    const fail = (error: unknown) => log.push(String(error));
    const failing = (message: string) => () => {
      throw new Error(message);
    };
    batch({ decide: failing('no decision'), fail });
    batch({ decide: () => failing('no answer'), fail });
    add('a');
    endTurn();
    expect(log).toEqual(['Error: no decision', 'decide a', 'Error: no answer', 'send a']);
  });
});

it('large reviews take turns, and one that fails does not stop the others', () => {
  const log: string[] = [];
  const turns: (() => void)[] = [];
  const run = createOneByOne((next) => turns.push(next));
  const fail = (error: unknown) => log.push(String(error));
  for (const name of ['a', 'b']) {
    run({ decide: () => () => log.push(`send ${name}`), fail });
    run({
      decide: () => {
        throw new Error(`no ${name}`);
      },
      fail,
    });
  }
  while (turns.length > 0) {
    expect(turns).toHaveLength(1);
    turns.shift()?.();
    log.push('turn');
  }
  expect(log.filter((line) => line !== 'turn')).toEqual(['send a', 'Error: no a', 'send b', 'Error: no b']);
  expect(log.filter((line) => line === 'turn')).toHaveLength(4);
});
