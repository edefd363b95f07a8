/** How late this process is with everything: its one thread does all work in turns, and what comes waits for the next one. */
import { monitorEventLoopDelay } from 'node:perf_hooks';

import type { HealthCheck } from './health.ts';

/** In milliseconds. */
export interface EventLoopLimits {
  /** A turn that takes so long on average makes the loop late … */
  readonly lateMs: number;
  /** … until turns are as short as this again. A late loop takes on new work for so long in each turn. */
  readonly onTimeMs: number;
  /** A single turn of this length is one that no client waits for. */
  readonly blockedMs: number;
  /** How often it is looked at. */
  readonly windowMs: number;
}

/**
 * Whoever is refused comes back after a second, so nobody is who can be answered sooner than that. And the kubelet gives a probe a
 * second: it has seen a blocked loop already, and what the check adds is why.
 */
export const EVENT_LOOP_LIMITS: EventLoopLimits = {
  lateMs: 1_000,
  onTimeMs: 500,
  blockedMs: 2_000,
  windowMs: 1_000,
};

/** How long turns took that have ended; none of them is remembered after a reset. In milliseconds. */
export interface Delays {
  /** Undefined when no turn has ended. */
  readonly mean: () => number | undefined;
  readonly longest: () => number;
  readonly reset: () => void;
  readonly stop: () => void;
}

export interface EventLoop {
  /** Whether it is late, and has taken on as much in this turn as it can without being later still. */
  readonly isFull: () => boolean;
  /** For the readiness: fails after a turn in which clients were kept waiting for nothing, until a second was without one. */
  readonly problem: HealthCheck;
}

export interface EventLoopDeps {
  readonly delays?: Delays;
  /** In milliseconds. */
  readonly now?: () => number;
  readonly limits?: EventLoopLimits;
  /** Told of the longest turn of each window, in seconds. */
  readonly metrics: { readonly eventLoopDelay: (seconds: number) => void };
}

/** Watches the event loop of this process until the signal aborts. */
export function watchEventLoop(
  {
    delays = measureDelays(),
    now = () => performance.now(),
    limits = EVENT_LOOP_LIMITS,
    metrics,
  }: EventLoopDeps,
  signal: AbortSignal,
): EventLoop {
  let isLate = false;
  let longest = 0;
  let turnBegan: number | undefined;

  const look = () => {
    longest = delays.longest();
    // One long turn alone, for a collection of garbage, makes nothing late that comes after it. Many do.
    const mean = delays.mean();
    if (mean !== undefined) isLate = mean >= (isLate ? limits.onTimeMs : limits.lateMs);
    delays.reset();
    metrics.eventLoopDelay(longest / 1_000);
  };
  const looking = setInterval(look, limits.windowMs).unref();
  signal.addEventListener('abort', () => {
    clearInterval(looking);
    delays.stop();
  });

  return {
    isFull: () => {
      if (!isLate) return false;
      if (turnBegan === undefined) {
        turnBegan = now();
        setImmediate(() => {
          turnBegan = undefined;
        });
      }
      return now() - turnBegan >= limits.onTimeMs;
    },
    problem: () => {
      const blocked = Math.max(longest, delays.longest());
      return blocked < limits.blockedMs
        ? undefined
        : `nothing was answered for ${(blocked / 1_000).toFixed(1)} s: something needs all of the CPU, or there is too little of it`;
    },
  };
}

const RESOLUTION_MS = 20;

function measureDelays(): Delays {
  const histogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  histogram.enable();
  // It measures the time between two looks, in nanoseconds, and an idle loop is looked at that often.
  const delay = (nanoseconds: number) => Math.max(0, nanoseconds / 1e6 - RESOLUTION_MS);
  return {
    mean: () => (histogram.count === 0 ? undefined : delay(histogram.mean)),
    longest: () => delay(histogram.max),
    reset: () => {
      histogram.reset();
    },
    stop: () => {
      histogram.disable();
    },
  };
}
