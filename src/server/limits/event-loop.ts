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
