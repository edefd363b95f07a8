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
 *
 * @param room of an entry; see `createFairShare`
 */
export function createRequesterShares(room: (entry: string) => number) {
  const users = createTally();
  const namespaces = createTally();
  const add = ({ request: { userInfo, namespace } }: Requester, amount: number): void => {
    users.add(userInfo.username, amount);
    if (namespace !== undefined) namespaces.add(namespace, amount);
  };
  return {
    /** Called after the entry has taken the amount. Returns whether the requester may hold it, too. */
    take: (requester: Requester, amount: number): boolean => {
      const { entry, request } = requester;
      const { namespace } = request;
      const user = request.userInfo.username;
      const most = room(entry) + 2 * amount; // before the entry took the amount
      const isOver =
        (users.of(user) >= most && !ACTS_FOR_OTHERS.test(user)) ||
        (namespace !== undefined && namespaces.of(namespace) >= most);
      if (!isOver) add(requester, amount);
      return !isOver;
    },
    giveBack: (requester: Requester, amount: number): void => add(requester, -amount),
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
