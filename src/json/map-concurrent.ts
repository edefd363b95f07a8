/** At most `limit` calls are in flight. After an error it starts no further call. @throws the first error of `run` */
export async function mapConcurrent<Item, Result>(
  items: readonly Item[],
  limit: number,
  run: (item: Item) => Promise<Result>,
): Promise<Result[]> {
  const results: Result[] = [];
  // All workers take their items from one generator. An error in one of them ends it, which an array iterator would not.
  const queue = (function* () {
    yield* items.entries();
  })();
  const work = async (): Promise<void> => {
    for (const [index, item] of queue) results[index] = await run(item);
  };
  await Promise.all(Array.from({ length: Math.min(limit, items.length) }, work));
  return results;
}
