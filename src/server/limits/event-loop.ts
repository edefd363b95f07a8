/**
 * Measures the delay of the event loop. The process has one thread, so all work waits for the next turn of the loop.
 */
import type { HealthCheck } from '../health.ts';

/** In milliseconds. */
export interface EventLoopLimits {
  /** The loop becomes late at this average length of its turns … */
  readonly lateMs: number;
  /** … and is on time again below this one. A late loop accepts new work for this long in each turn. */
  readonly onTimeMs: number;
  /** After a single turn of this length, the readiness check fails: clients have stopped waiting. */
  readonly blockedMs: number;
  /**
   * The period of the average. The loop is late after two slow windows in a row: a single long turn does not delay
   * later work.
   */
  readonly windowMs: number;
}

/**
 * Shedding earlier than `lateMs` gains nothing: retries arrive after at least 1 s. `blockedMs` exceeds the probe
 * timeout of 1 s: the kubelet has noticed the blocked loop already, and the check adds the reason.
 */
export const EVENT_LOOP_LIMITS: EventLoopLimits = {
  lateMs: 1_000,
  onTimeMs: 500,
  blockedMs: 2_000,
  windowMs: 1_000,
};

export interface EventLoop {
  /** Whether the loop is late and has used its time for new work in this turn. */
  readonly isFull: () => boolean;
  /** The readiness check. Fails after a turn longer than `blockedMs`, until a whole window passes without one. */
  readonly problem: HealthCheck;
}

export interface EventLoopDeps {
  /** In milliseconds. */
  readonly now?: () => number;
  readonly limits?: EventLoopLimits;
  /** Receives the longest turn of each window, in seconds. */
  readonly metrics: { readonly eventLoopDelay: (seconds: number) => void };
}

/**
 * The interval of the measurement. Does not use `monitorEventLoopDelay`: its reset discards the measurement in
 * progress, which is the only one when the loop is late.
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
