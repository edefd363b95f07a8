/** Overload protection: refuses some reviews for a moment, so that the others are answered in time. */
import { getHeapStatistics } from 'node:v8';
import { createBodyBudget, type Reservation } from './body-budget.ts';
import type { EventLoop } from './event-loop.ts';
import { createFairShare, type Lack } from './fair-share.ts';
import type { Log } from '../../log.ts';
import type { Server } from 'node:https';
import type { FastifyRequest } from 'fastify';
import { busy, send, type Answer, type Reply } from '../answer.ts';

/**
 * Why a review is refused:
 * - `reviews`: the limit of reviews in flight is reached;
 * - `entry`: this webhook entry has used its share of that limit, other entries have not;
 * - `event-loop`: the answer would be late;
 * - `bodies`: the memory for large bodies is in use.
 *
 * The first match counts. Causes that a setting or a policy explains precede the general cause, a slow process.
 */
export const OVERLOADS = ['reviews', 'entry', 'event-loop', 'bodies'] as const;
export type Overload = (typeof OVERLOADS)[number];

export interface PressureLimits {
  /** Reviews in flight, for all entries together. */
  readonly reviews: number;
  /** The total size of large bodies in memory. */
  readonly bodyBytes: number;
}

export interface Pressure {
  /**
   * Called when the request headers have arrived: a refusal costs least at this moment.
   * @param cutOff closes the connection; see {@link Reservation}
   */
  readonly arrive: (entry: string, bodyBytes: number, cutOff: () => void) => Arrival;
  /**
   * Called when the body has arrived. Undefined: the review is now in flight, and the caller must call {@link leave}
   * once.
   */
  readonly enter: (entry: string) => Overload | undefined;
  readonly leave: (entry: string) => void;
}

type Arrival =
  | { readonly kind: 'refused'; readonly why: Overload }
  /** `body` is the reserved memory, for large bodies only. */
  | { readonly kind: 'admitted'; readonly body: Reservation | undefined };

export interface PressureDeps {
  readonly eventLoop: Pick<EventLoop, 'isFull'>;
  readonly metrics: {
    /** `count` is called at each scrape. */
    readonly reviewsInFlight: (count: () => number) => void;
    readonly refusedReview: (why: Overload) => void;
  };
  readonly log: Pick<Log, 'warn'>;
  /** In milliseconds. */
  readonly now?: () => number;
}

/**
 * Bodies up to this size count as a review only. Most bodies are smaller and must not wait for the memory of large
 * ones. A review is in flight only after its body has arrived, so a slow sender does not block others.
 */
const SMALL_BODY_BYTES = 16 * 1024;

const LEAST_BODY_BYTES = 32 * 1024 * 1024;
/** A parsed body takes several times the memory of its text, and the heap holds other data too. */
const SHARE_OF_HEAP = 1 / 8;

/** The memory budget for large bodies, in bytes. */
export function mostBodyBytes(heapBytes: number = getHeapStatistics().heap_size_limit): number {
  return Math.max(LEAST_BODY_BYTES, Math.floor(heapBytes * SHARE_OF_HEAP));
}

/** Under overload, a log line for each refusal would add to the load. */
const QUIET_MS = 10_000;

export function createPressure(limits: PressureLimits, deps: PressureDeps): Pressure {
  const { eventLoop, metrics, now = () => performance.now() } = deps;
  const reviews = createFairShare(limits.reviews);
  const bodies = createBodyBudget(limits.bodyBytes, now);
  const report = createReport(deps.log, now);
  metrics.reviewsInFlight(reviews.taken);

  const refuse = (why: Overload): Overload => {
    metrics.refusedReview(why);
    report(why);
    return why;
  };
  const refuseFor = (lack: Lack): Overload => refuse(lack === 'full' ? 'reviews' : 'entry');

  return {
    arrive: (entry, bodyBytes, cutOff) => {
      const lack = reviews.lack(entry, 1);
      if (lack !== undefined) return { kind: 'refused', why: refuseFor(lack) };
      if (eventLoop.isFull()) return { kind: 'refused', why: refuse('event-loop') };
      if (bodyBytes <= SMALL_BODY_BYTES) return ADMITTED;
      const body = bodies.reserve(entry, bodyBytes, cutOff);
      return body === undefined ? { kind: 'refused', why: refuse('bodies') } : { kind: 'admitted', body };
    },
    enter: (entry) => {
      const lack = reviews.take(entry, 1);
      return lack === undefined ? undefined : refuseFor(lack);
    },
    leave: (entry) => {
      reviews.giveBack(entry, 1);
    },
  };
}

const ADMITTED: Arrival = { kind: 'admitted', body: undefined };

function createReport(log: Pick<Log, 'warn'>, now: () => number): (why: Overload) => void {
  const refused = new Map<Overload, number>();
  let quietUntil = -Infinity;
  return (why) => {
    refused.set(why, (refused.get(why) ?? 0) + 1);
    if (now() < quietUntil) return;
    quietUntil = now() + QUIET_MS;
    log.warn(
      { refused: Object.fromEntries(refused) },
      'too much at once: admission reviews are to be sent again',
    );
    refused.clear();
  };
}

interface EntryRoute {
  Params: { entry: string };
}

/**
 * Refuses a review before its body is read. Node still reads and discards the body, so the connection stays open.
 * @param mostBytes the size limit of a body; a body without Content-Length counts as this large
 */
export function refuseUnderPressure(pressure: Pressure, mostBytes: number) {
  return (request: FastifyRequest<EntryRoute, Server>, reply: Reply, done: () => void): void => {
    const length = Number(request.headers['content-length'] ?? mostBytes);
    const arrival = pressure.arrive(request.params.entry, Math.min(length, mostBytes), () => {
      request.raw.destroy();
    });
    if (arrival.kind === 'refused') {
      void send(reply, toBusy(arrival.why));
      return;
    }
    if (arrival.body !== undefined) {
      request.raw.once('end', arrival.body.received);
      reply.raw.once('close', arrival.body.release);
    }
    done();
  };
}

const MESSAGES = {
  reviews: 'as many admission reviews are under way here as may be at a time',
  entry: 'as many admission reviews of this webhook are under way here as leave room for others',
  bodies: 'as many large objects are held here as there is memory for',
  'event-loop': 'there is more to do here than can be done in time',
} as const satisfies Record<Overload, string>;

/** 429 with Retry-After: the API server retries within the webhook's timeout. */
export const toBusy = (why: Overload): Answer => busy(`${MESSAGES[why]}: ask again`);
