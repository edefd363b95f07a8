/** How late this process is with everything: its one thread does all work in turns, and what comes waits for the next one. */
import type { HealthCheck } from '../health.ts';

/** In milliseconds. */
export interface EventLoopLimits {
  /** Turns that take so long on average make the loop late … */
  readonly lateMs: number;
  /** … until they are as short as this again. A late loop takes on new work for so long in each turn. */
  readonly onTimeMs: number;
  /** A single turn of this length is one for which no client waits. */
  readonly blockedMs: number;
  /** What the average is taken over. Two in a row have to be late: one long turn alone delays nothing that comes after it. */
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

export interface EventLoop {
  /** Whether it is late, and has taken on as much in this turn as it can without being later still. */
  readonly isFull: () => boolean;
  /** For the readiness: fails after a turn in which clients were kept waiting for nothing, until a second was without one. */
  readonly problem: HealthCheck;
}

export interface EventLoopDeps {
  /** In milliseconds. */
  readonly now?: () => number;
  readonly limits?: EventLoopLimits;
  /** Told of the longest turn of each window, in seconds. */
  readonly metrics: { readonly eventLoopDelay: (seconds: number) => void };
}

/**
 * How often the loop is asked how late it is. Not by `monitorEventLoopDelay`: what it is measuring when it is reset is lost, which
 * of a loop that is late is all there is.
 */
export const TICK_MS = 50;

/** Watches the event loop of this process until the signal aborts. */
export function watchEventLoop(
  { now = () => performance.now(), limits = EVENT_LOOP_LIMITS, metrics }: EventLoopDeps,
  signal: AbortSignal,
): EventLoop {
  let ticked = now();
  let window = emptyWindow(ticked);
  let longestBefore = 0;
  let wasSlow = false;
  let isLate = false;
  let turnBegan: number | undefined;
  const delay = () => Math.max(0, now() - ticked - TICK_MS);

  const tick = () => {
    const { turns, total, longest, began } = window;
    const late = delay();
    window = { turns: turns + 1, total: total + late, longest: Math.max(longest, late), began };
    ticked = now();
    if (ticked - began >= limits.windowMs) look();
  };
  const look = () => {
    const isSlow = window.total / window.turns >= (isLate ? limits.onTimeMs : limits.lateMs);
    isLate = isSlow && (isLate || wasSlow);
    wasSlow = isSlow;
    longestBefore = window.longest;
    metrics.eventLoopDelay(longestBefore / 1_000);
    window = emptyWindow(ticked);
  };
  const ticking = setInterval(tick, TICK_MS).unref();
  signal.addEventListener('abort', () => {
    clearInterval(ticking);
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
      const blocked = Math.max(longestBefore, window.longest, delay());
      return blocked < limits.blockedMs
        ? undefined
        : `nothing was answered for ${(blocked / 1_000).toFixed(1)} s: something needs all of the CPU, or there is too little of it`;
    },
  };
}

interface Window {
  readonly began: number;
  readonly turns: number;
  readonly total: number;
  readonly longest: number;
}

const emptyWindow = (began: number): Window => ({ began, turns: 0, total: 0, longest: 0 });
