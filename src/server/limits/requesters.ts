/** Fair shares for the users and the namespaces of reviews. */
import type { Turns } from '../../admission/policy/world.ts';
import type { AdmissionRequest } from '../../admission/review/request.ts';
import { createTally } from './fair-share.ts';
import { createTurnQueue } from './turns.ts';

/** A review: its webhook entry, its user, and its namespace, which is undefined for cluster-scoped objects. */
export interface Requester {
  readonly entry: string;
  readonly request: Pick<AdmissionRequest, 'userInfo' | 'namespace'>;
}

/** Controllers of the control plane act for the users of all namespaces: only the namespace counts. */
const ACTS_FOR_OTHERS = /^system:(?:kube-|serviceaccount:kube-system:)/;

/**
 * Divides what each webhook entry may hold: a user or a namespace may hold at most what the entry leaves for others,
 * without what the entry holds. A single user gets at most a third of the limit, so the next one finds room.
 */
export function createRequesterShares() {
  const users = createTally();
  const namespaces = createTally();
  return {
    /** @param room of the entry, before it takes what the requester wants; see `createFairShare` */
    isOver: ({ request: { userInfo, namespace } }: Requester, room: number): boolean =>
      (users.of(userInfo.username) >= room && !ACTS_FOR_OTHERS.test(userInfo.username)) ||
      (namespace !== undefined && namespaces.of(namespace) >= room),
    /** If the amount is negative, gives that much back. */
    add: ({ request: { userInfo, namespace } }: Requester, amount: number): void => {
      users.add(userInfo.username, amount);
      if (namespace !== undefined) namespaces.add(namespace, amount);
    },
  };
}

/** The CEL cost of all reviews in one turn of the event loop; the last one may exceed it. About 10 ms of CPU time. */
const SLICE_COST = 200_000;
/** Cheaper work never waits and does not count. About 0.1 ms of CPU time. */
const CHEAP_COST = 2_000;

/** @param queue of the reviews alone */
export function createReviewTurns(queue = createTurnQueue()) {
  return ({ request: { userInfo, namespace = '' } }: Requester, signal: AbortSignal): Turns => {
    let costSinceTurn = Infinity; // the first evaluation waits, too
    // Without --client-ca, clients can forge reviews with long names.
    const clients = () => [`user/${userInfo.username.slice(0, 256)}`, `namespace/${namespace.slice(0, 256)}`];
    return {
      next: (hasRead = false) => {
        if (costSinceTurn < CHEAP_COST && !hasRead) return undefined;
        costSinceTurn = 0;
        if (queue.isEmpty() && queue.usedInTurn() < SLICE_COST) return undefined;
        return queue.wait(clients(), signal);
      },
      charge: (cost) => {
        costSinceTurn += cost;
        if (cost >= CHEAP_COST) queue.use(clients(), cost);
      },
    };
  };
}
