/** Overload protection: refuses some reviews, so that the others are answered in time. */
import type { Server } from 'node:https';
import type { Readable } from 'node:stream';
import { getHeapStatistics } from 'node:v8';
import type { FastifyInstance, FastifyRequest } from 'fastify';

import { failsOpen } from '../../admission/webhooks/protect-own-kinds.ts';
import { type AdmissionRequest, findUid } from '../../admission/review/request.ts';
import { MAX_REVIEW_BYTES, type ReviewBody, toRetry } from '../../admission/review/review.ts';
import type { Log } from '../../log.ts';
import { type Answer, answerWithin, busy, type IsLast, type Reply, send, sendAtOnce } from '../answer.ts';
import type { Metrics, Overload } from '../metrics/metrics.ts';
import { createFairShare, createTally, createTurnQueue, type Shortage } from './turns.ts';
import type { Turns } from '../../admission/policy/world.ts';

export type LoadShedding = ReturnType<typeof createLoadShedding>;

type Arrival =
  | { readonly kind: 'refused'; readonly why: Overload }
  | { readonly kind: 'admitted'; readonly body: Reservation | undefined };

const ADMITTED: Arrival = { kind: 'admitted', body: undefined };

/** The memory limit does not apply to bodies up to this size, so that they do not wait for large ones. */
export const SMALL_BODY_BYTES = 16 * 1024;

/** Two reviews of the maximum size always fit. */
const MIN_BODY_BYTES = 2 * MAX_REVIEW_BYTES;
/** A parsed body takes several times the memory of its text, and the heap holds other data too. */
const SHARE_OF_HEAP = 1 / 8;

export function maxBodyBytes(heapBytes: number = getHeapStatistics().heap_size_limit): number {
  return Math.max(MIN_BODY_BYTES, Math.floor(heapBytes * SHARE_OF_HEAP));
}

const LOG_EVERY_MS = 10_000;

export function createLoadShedding(
  limits: { readonly reviews: number; readonly bodyBytes: number },
  isLoopFull: () => boolean,
  metrics: Pick<Metrics, 'scrape' | 'refusedReview'>,
  log: Pick<Log, 'warn'>,
  now = () => performance.now(),
) {
  const reviews = createFairShare(limits.reviews);
  const bodies = createBodyBudget(limits.bodyBytes, now);
  const reviewShares = createRequesterShares();
  const bodyShares = createRequesterShares();
  const refused = new Map<Overload, number>();
  let quietUntil = -Infinity;
  metrics.scrape({ reviewsInFlight: reviews.taken });

  const refuse = (why: Overload): Overload => {
    metrics.refusedReview(why);
    refused.set(why, (refused.get(why) ?? 0) + 1);
    if (now() < quietUntil) return why;
    quietUntil = now() + LOG_EVERY_MS;
    log.warn(
      { refused: Object.fromEntries(refused) },
      'overloaded: refused admission reviews, which the API server retries',
    );
    refused.clear();
    return why;
  };
  const refuseFor = (shortage: Shortage): Overload => refuse(shortage === 'full' ? 'reviews' : 'entry');

  return {
    /**
     * At the headers, when a refusal costs least.
     * @param withinMs until the answer has to leave
     * @param cutOff closes the connection; see {@link Reservation}
     */
    arrive: (entry: string, bodyBytes: number, withinMs: number, cutOff: () => void): Arrival => {
      const shortage = reviews.check(entry, 1);
      if (shortage !== undefined) return { kind: 'refused', why: refuseFor(shortage) };
      if (isLoopFull()) return { kind: 'refused', why: refuse('event-loop') };
      if (bodyBytes <= SMALL_BODY_BYTES) return ADMITTED;
      if (bodies.workMs(bodyBytes) > withinMs) return { kind: 'refused', why: refuse('time') };
      const body = bodies.reserve(entry, bodyBytes, cutOff);
      return body === undefined ? { kind: 'refused', why: refuse('bodies') } : { kind: 'admitted', body };
    },
    check: (requester: Requester, bodyBytes: number): Overload | undefined => {
      const { entry } = requester;
      const shortage = reviews.check(entry, 1);
      if (shortage !== undefined) return refuseFor(shortage);
      const isLarge = bodyBytes > SMALL_BODY_BYTES;
      const isOver =
        reviewShares.isOver(requester, reviews.room(entry)) ||
        (isLarge && bodyShares.isOver(requester, bodies.room(entry) + 2 * bodyBytes)); // `arrive` took its memory
      return isOver ? refuse('requester') : undefined;
    },
    /** For a review that is not decided in this turn of the event loop. The caller must call `leave` once. */
    enter: (requester: Requester, bodyBytes: number): void => {
      reviews.take(requester.entry, 1);
      reviewShares.add(requester, 1);
      if (bodyBytes > SMALL_BODY_BYTES) bodyShares.add(requester, bodyBytes);
    },
    leave: (requester: Requester, bodyBytes: number): void => {
      reviews.giveBack(requester.entry, 1);
      reviewShares.add(requester, -1);
      if (bodyBytes > SMALL_BODY_BYTES) bodyShares.add(requester, -bodyBytes);
    },
    turnsOf: createReviewTurns(),
  };
}

const ENVELOPE_BYTES = 4 * 1024;

/**
 * In milliseconds. The API server's timer starts before it serializes the review and opens a connection: the replica can't
 * see how long this took. So under `failurePolicy: Ignore`, the reviews before a large one must end this much earlier.
 */
const UNSEEN_MS = 400;

type Call = FastifyRequest<{ Params: { entry: string }; Querystring: { timeout?: string } }, Server>;

/** Refuses a review before its body is parsed. Not with a 429 if `failurePolicy: Ignore` would store the object unchecked. */
export function refuseOverload({ arrive }: LoadShedding, mostBytes: number, isLast: IsLast) {
  return (request: Call, reply: Reply, done: () => void): void => {
    const { entry } = request.params;
    const length = Math.min(Number(request.headers['content-length'] ?? mostBytes), mostBytes);
    const within = answerWithin(request.query.timeout);
    const isOpen = failsOpen(entry);
    const arrival = arrive(entry, length, isOpen ? Math.max(0, within - UNSEEN_MS) : within, () => {
      request.raw.destroy();
    });
    if (arrival.kind === 'refused') {
      const message = overloadMessage(arrival.why);
      if (isOpen)
        receiveHead(request.raw, (head) => sendAtOnce(reply, refusalOf(head, message), isLast(request.raw)));
      else void send(reply, busy(message));
      return;
    }
    if (arrival.body !== undefined) {
      request.raw.once('end', arrival.body.received);
      reply.raw.once('close', arrival.body.release);
      if (isOpen) refuseInTime(request, reply, within);
    }
    done();
  };
}

/** After the timeout, the API server would store the object unchecked. So the refusal leaves before, whatever this replica is doing. */
function refuseInTime(request: Call, reply: Reply, withinMs: number): void {
  let head = Buffer.alloc(0);
  receiveHead(request.raw, (received) => (head = received));
  const timer = setTimeout(() => {
    sendAtOnce(reply, refusalOf(head, overloadMessage('time')), true);
    reply.raw.emit('late'); // before its decision
  }, withinMs);
  reply.raw.once('close', () => clearTimeout(timer));
}

/** Calls back with the beginning of a body, and lets the rest flow. */
function receiveHead(payload: Readable, done: (head: Buffer<ArrayBuffer>) => void): void {
  let head: Buffer<ArrayBuffer> | undefined = Buffer.alloc(0);
  const finish = (): void => {
    if (head !== undefined) done(head);
    head = undefined;
  };
  payload.on('data', (chunk: Buffer) => {
    if (head !== undefined) head = Buffer.concat([head, chunk]);
    if (head !== undefined && head.length >= ENVELOPE_BYTES) finish();
  });
  payload.once('end', finish);
}

function refusalOf(head: Buffer, message: string): Answer {
  const uid = findUid(head.toString('utf8', 0, ENVELOPE_BYTES), 'AdmissionReview');
  return uid === undefined ? busy(message) : { code: 200, body: JSON.stringify(toRetry(uid, message)) };
}

const MESSAGES = {
  reviews: 'this replica has reached its limit of concurrent admission reviews',
  entry: 'this replica has reached its limit of concurrent admission reviews for this webhook',
  requester: 'this replica has reached its limit of concurrent admission reviews for this user or namespace',
  bodies: 'this replica lacks memory for another large object',
  time: 'this replica cannot check another large object in time',
  'event-loop': 'this replica is overloaded',
} as const satisfies Record<Overload, string>;

export const overloadMessage = (why: Overload): string => `${MESSAGES[why]}: retry later`;

interface Reservation {
  readonly received: () => void;
  readonly release: () => void;
}

/** A slower client is cut off when another one needs the memory, so that idle clients cannot block the others. */
const SLOW_AFTER_MS = 1_000;

/** @param busyMs how long the event loop has worked, without the time in which it waited */
export function createBodyBudget(
  limitBytes: number,
  now: () => number,
  busyMs = () => performance.eventLoopUtilization().active,
) {
  const share = createFairShare(limitBytes);
  // a first guess; later work counts more than earlier
  const measured = { ms: 200, bytes: 2 ** 20, until: 0, at: -Infinity };
  const receiving = new Set<{ readonly since: number; readonly disconnect: () => void }>();

  const evictOldest = (): boolean => {
    const [oldest] = receiving;
    if (oldest === undefined || now() - oldest.since < SLOW_AFTER_MS) return false;
    oldest.disconnect();
    return true;
  };
  /** Undefined when there is not enough memory. @param disconnect called when a slow sender blocks others */
  const reserve = (entry: string, bytes: number, disconnect: () => void): Reservation | undefined => {
    while (share.take(entry, bytes) !== undefined) if (!evictOldest()) return undefined;
    let isHeld = true;
    const [began, since] = [busyMs(), now()];
    const release = () => {
      receiving.delete(sender);
      if (!isHeld) return;
      isHeld = false;
      share.giveBack(entry, bytes);
      const [until, at] = [busyMs(), now()];
      const worked = until - Math.max(began, measured.until);
      const hasWaited = worked < 0.9 * (at - Math.max(since, measured.at));
      // If the loop has waited, much of the work was for others.
      const ms = hasWaited ? Math.min(worked, (bytes * measured.ms) / measured.bytes) : worked;
      measured.ms = 0.9 * measured.ms + ms;
      measured.bytes = 0.9 * measured.bytes + bytes;
      measured.until = until;
      measured.at = at;
    };
    const sender = {
      since,
      disconnect: () => {
        release();
        disconnect();
      },
    };
    receiving.add(sender);
    return { received: () => receiving.delete(sender), release };
  };
  /** How long this replica will need for another body and those before it. A single one is always tried. */
  const workMs = (bytes: number): number =>
    share.taken() === 0 ? 0 : ((share.taken() + bytes) * measured.ms) / measured.bytes;
  return { reserve, workMs, room: share.room };
}

export interface Requester {
  readonly entry: string;
  readonly request: Pick<AdmissionRequest, 'userInfo' | 'namespace'>;
}

/** Controllers of the control plane act for the users of all namespaces: only the namespace counts. */
const ACTS_FOR_OTHERS = /^system:(?:kube-|serviceaccount:kube-system:)/;

/** A user or a namespace may hold at most what the entry leaves for others: a single user gets at most a third. */
function createRequesterShares() {
  const users = createTally();
  const namespaces = createTally();
  return {
    isOver: ({ request: { userInfo, namespace } }: Requester, room: number): boolean =>
      (users.of(userInfo.username) >= room && !ACTS_FOR_OTHERS.test(userInfo.username)) ||
      (namespace !== undefined && namespaces.of(namespace) >= room),
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

export function createReviewTurns(queue = createTurnQueue()) {
  return ({ request: { userInfo, namespace = '' } }: Requester, signal: AbortSignal): Turns => {
    let costSinceTurn = Infinity; // even the first evaluation waits
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

/** In milliseconds. Shedding earlier than `lateMs` gains nothing: retries arrive after at least 1 s. */
export const EVENT_LOOP_LIMITS = {
  /** The loop becomes late at this average length of its turns … */
  lateMs: 1_000,
  /** … and is on time again below this value. A late loop accepts new work for this long in each turn. */
  onTimeMs: 500,
  /** The period of the average. A single long turn delays no later work: the loop is late after two slow windows. */
  windowMs: 1_000,
};

/** Not `monitorEventLoopDelay`: its reset discards the measurement in progress, the only one when the loop is late. */
export const TICK_MS = 50;

export function watchEventLoop(
  report: (seconds: number) => void,
  signal: AbortSignal,
  limits = EVENT_LOOP_LIMITS,
  now = () => performance.now(),
) {
  const windowFrom = (began: number) => ({ began, turns: 0, total: 0, longest: 0 });
  let ticked = now();
  let window = windowFrom(ticked);
  let wasSlow = false;
  let isLate = false;
  let turnBegan: number | undefined;

  const endWindow = () => {
    const isSlow = window.total / window.turns >= (isLate ? limits.onTimeMs : limits.lateMs);
    isLate = isSlow && (isLate || wasSlow);
    wasSlow = isSlow;
    report(window.longest / 1_000);
    window = windowFrom(ticked);
  };
  const ticking = setInterval(() => {
    const late = Math.max(0, now() - ticked - TICK_MS);
    window.turns += 1;
    window.total += late;
    window.longest = Math.max(window.longest, late);
    ticked = now();
    if (ticked - window.began >= limits.windowMs) endWindow();
  }, TICK_MS).unref();
  signal.addEventListener('abort', () => clearInterval(ticking));

  return {
    isFull: () => {
      if (!isLate) return false;
      if (turnBegan === undefined) setImmediate(() => (turnBegan = undefined));
      turnBegan ??= now();
      return now() - turnBegan >= limits.onTimeMs;
    },
  };
}

type Done = (error: Error | null, body?: ReviewBody) => void;

/** Fastify's own parser answers 413 to a large body, and 400 to the key `__proto__`, which is valid in a ConfigMap. */
export function acceptBodies(app: FastifyInstance<Server>, limitBytes: number): void {
  app.addContentTypeParser('application/json', (_request, payload, done: Done) => {
    receiveBody(payload, limitBytes, done);
  });
}

/** Discards the rest above the limit: the API server possibly reads the response only after it has sent the request. */
export function receiveBody(payload: Readable, limitBytes: number, done: Done): void {
  const chunks: Buffer[] = [];
  let [kept, isComplete] = [0, true];
  const onData = (chunk: Buffer): void => {
    isComplete &&= kept + chunk.length <= limitBytes;
    const start = isComplete ? chunk : chunk.subarray(0, limitBytes - kept);
    if (start.length > 0) chunks.push(start);
    kept += start.length;
  };
  payload
    .on('data', onData)
    .on('end', () => {
      const [only] = chunks;
      const bytes = only !== undefined && chunks.length === 1 ? only : Buffer.concat(chunks, kept);
      done(null, { bytes, isComplete });
    })
    .on('error', (error) => {
      // The client has hung up. Afterwards, the request fails only while it waits for its answer.
      if (!payload.readableEnded) done(Object.assign(error, { statusCode: 400 }));
    });
}
