/** The order in which endpoints are asked: namespaces take turns, and urgent endpoints go first. */
import { createFairQueue } from '../../kube/workqueue.ts';

/** While urgent endpoints wait, every nth turn is for another one: renewals cannot starve the routine. */
const ROUTINE_EVERY = 4;

export function createTurns() {
  const urgent = createFairQueue<true>();
  const routine = createFairQueue<true>();
  let taken = 0;
  return {
    add: (namespace: string, key: string, isUrgent: boolean): void => {
      (isUrgent ? routine : urgent).delete(namespace, key);
      (isUrgent ? urgent : routine).set(namespace, key, true);
    },
    delete: (namespace: string, key: string): void => {
      urgent.delete(namespace, key);
      routine.delete(namespace, key);
    },
    size: (): number => urgent.size() + routine.size(),
    next: (isFree: (namespace: string) => boolean): string | undefined => {
      taken += 1;
      const [first, second] = taken % ROUTINE_EVERY === 0 ? [routine, urgent] : [urgent, routine];
      return (first.next(isFree) ?? second.next(isFree))?.[0];
    },
  };
}
