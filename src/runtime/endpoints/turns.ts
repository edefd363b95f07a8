/** The order in which endpoints are asked: namespaces take turns, and urgent endpoints go first. */

/** While urgent endpoints wait, every nth turn is for another one: renewals cannot starve the routine. */
const ROUTINE_EVERY = 4;

export function createTurns() {
  const urgent = createLane();
  const routine = createLane();
  let taken = 0;
  return {
    add: (namespace: string, key: string, isUrgent: boolean): void => {
      (isUrgent ? routine : urgent).delete(namespace, key);
      (isUrgent ? urgent : routine).add(namespace, key);
    },
    delete: (namespace: string, key: string): void => {
      urgent.delete(namespace, key);
      routine.delete(namespace, key);
    },
    size: (): number => urgent.size() + routine.size(),
    next: (isFree: (namespace: string) => boolean): string | undefined => {
      taken += 1;
      const [first, second] = taken % ROUTINE_EVERY === 0 ? [routine, urgent] : [urgent, routine];
      return first.next(isFree) ?? second.next(isFree);
    },
  };
}

function createLane() {
  const namespaces = new Map<string, Set<string>>();
  let size = 0;
  return {
    size: () => size,
    add: (namespace: string, key: string): void => {
      const keys = namespaces.get(namespace) ?? new Set();
      if (keys.has(key)) return;
      namespaces.set(namespace, keys.add(key));
      size += 1;
    },
    delete: (namespace: string, key: string): void => {
      const keys = namespaces.get(namespace);
      if (keys?.delete(key) !== true) return;
      size -= 1;
      if (keys.size === 0) namespaces.delete(namespace);
    },
    next: (isFree: (namespace: string) => boolean): string | undefined => {
      for (const [namespace, keys] of namespaces) {
        if (!isFree(namespace)) continue;
        namespaces.delete(namespace);
        for (const key of keys) {
          keys.delete(key);
          size -= 1;
          if (keys.size > 0) namespaces.set(namespace, keys); // to the end
          return key;
        }
      }
      return undefined;
    },
  };
}
