/** More than this process can do at once: which reviews are refused for a moment, so that the others are answered in time. */
import { getHeapStatistics } from 'node:v8';
import { createBodyBudget, type Reservation } from './body-budget.ts';
import type { EventLoop } from './event-loop.ts';
import { createFairShare, type Lack } from './fair-share.ts';
import type { Log } from '../../log.ts';
import type { Server } from 'node:https';
import type { FastifyRequest } from 'fastify';
import { busy, send, type Answer, type Reply } from '../answer.ts';

/**
 * Why a review is refused: `reviews`: as many are under way as may be; `entry`: as many of its own webhook entry, while others
 * find room; `event-loop`: whatever comes now would be answered too late; `bodies`: what is held of large bodies leaves no memory
 * for its own.
 *
 * Of several the first counts. What a setting or a policy explains goes before a process that is too slow for some reason.
 */
export const OVERLOADS = ['reviews', 'entry', 'event-loop', 'bodies'] as const;
export type Overload = (typeof OVERLOADS)[number];

export interface PressureLimits {
  /** Reviews at a time whose answer is being found, all entries together. */
  readonly reviews: number;
  /** Bytes of large bodies that are held at a time. */
  readonly bodyBytes: number;
}

export interface Pressure {
  /**
   * Asked when the head of a request is there: to refuse it now costs next to nothing.
   * @param cutOff ends its connection; see {@link Reservation}
   */
  readonly arrive: (entry: string, bodyBytes: number, cutOff: () => void) => Arrival;
  /** Asked when its body is there too. Undefined: it is under way now, and {@link leave} is to be called once. */
  readonly enter: (entry: string) => Overload | undefined;
  readonly leave: (entry: string) => void;
}

type Arrival =
  | { readonly kind: 'refused'; readonly why: Overload }
  /** With the memory that is kept for a large body. */
  | { readonly kind: 'admitted'; readonly body: Reservation | undefined };

export interface PressureDeps {
  readonly eventLoop: Pick<EventLoop, 'isFull'>;
  readonly metrics: {
    /** `count` is asked at each scrape. */
    readonly reviewsInFlight: (count: () => number) => void;
    readonly refusedReview: (why: Overload) => void;
  };
  readonly log: Pick<Log, 'warn'>;
  /** In milliseconds. */
  readonly now?: () => number;
}

/**
 * A body of up to so many bytes counts as a review alone: most are smaller, and must not wait for what large ones hold. Nor is a
 * review under way before its body is there, so a client that sends slowly is in nobody's way.
 */
const SMALL_BODY_BYTES = 16 * 1024;

const LEAST_BODY_BYTES = 32 * 1024 * 1024;
/** As objects, bodies take several times the memory that they take as text; and there is more in it than bodies. */
const SHARE_OF_HEAP = 1 / 8;

/** How much of large bodies this process has memory for. */
export function mostBodyBytes(heapBytes: number = getHeapStatistics().heap_size_limit): number {
  return Math.max(LEAST_BODY_BYTES, Math.floor(heapBytes * SHARE_OF_HEAP));
}

/** A line in the log for each refusal would be more of what there is too much of already. */
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
 * Refuses a review before its body is read. Node reads the body all the same, and throws it away, so the connection stays open.
 * @param mostBytes of a body; one without a length may have as many
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

/** 429 with Retry-After, on which the API server asks again within the webhook's own timeout. */
export const toBusy = (why: Overload): Answer => busy(`${MESSAGES[why]}: ask again`);
