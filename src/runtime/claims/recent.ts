/** Remembers recent keys: at most `most`, each for `keepMs` milliseconds. */
export function createRecent(most: number, keepMs: number) {
  const recent = new Map<string, number>();
  return {
    add: (one: string): void => {
      const now = performance.now();
      recent.delete(one);
      recent.set(one, now);
      for (const [oldest, at] of recent) {
        if (recent.size <= most && now - at <= keepMs) break;
        recent.delete(oldest);
      }
    },
    has: (one: string): boolean => performance.now() - (recent.get(one) ?? -Infinity) <= keepMs,
  };
}
