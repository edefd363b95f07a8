const NAMESPACES = 20;
const LANES = 16;

export const namespaceOf = (index: number): string => `team-${index % NAMESPACES}`;

export const namespaces: readonly string[] = Array.from({ length: NAMESPACES }, (_, index) =>
  namespaceOf(index),
);

export async function times(count: number, work: (index: number) => Promise<unknown>): Promise<void> {
  let next = 0;
  const lane = async () => {
    while (next < count) {
      const index = next;
      next += 1;
      await work(index);
    }
  };
  await Promise.all(Array.from({ length: LANES }, lane));
}
