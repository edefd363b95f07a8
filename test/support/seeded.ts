/** Reproducible random numbers: the seed that a test prints gives the same numbers again. */
export type Seeded = ReturnType<typeof createSeeded>;

const SEED_VARIABLE = 'GATEHOUSE_FAULT_SEED';

/** The seed from the environment, or a new one for each run. */
export function faultSeed(environment: NodeJS.ProcessEnv = process.env): number {
  const wanted = environment[SEED_VARIABLE];
  if (wanted === undefined || wanted === '') return Math.floor(Math.random() * 2 ** 31);
  const seed = Number(wanted);
  if (!Number.isSafeInteger(seed) || seed < 0) throw new Error(`${SEED_VARIABLE} is a whole number`);
  return seed;
}

export function createSeeded(seed: number) {
  let state = seed >>> 0;
  const next = () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
  const below = (end: number) => Math.floor(next() * end);
  return {
    next,
    below,
    chance: (share: number) => next() < share,
    pick: <T>(items: readonly T[]) => {
      const item = items[below(items.length)];
      if (item === undefined) throw new Error('the list of choices is empty');
      return item;
    },
    shuffle: <T>(items: readonly T[]) =>
      items
        .map((item) => ({ item, rank: next() }))
        .toSorted((a, b) => a.rank - b.rank)
        .map(({ item }) => item),
  };
}
