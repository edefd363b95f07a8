/** Durations and times as kubectl shows them, and lifetimes as bars on a common time scale. */
const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** A duration as kubectl shows ages: `45s`, `12m`, `30h`, `89d`. Rounded down. */
export function span(milliseconds: number): string {
  const length = Math.abs(milliseconds);
  if (length < 2 * MINUTE) return `${Math.floor(length / SECOND)}s`;
  if (length < 2 * HOUR) return `${Math.floor(length / MINUTE)}m`;
  return length < 2 * DAY ? `${Math.floor(length / HOUR)}h` : `${Math.floor(length / DAY)}d`;
}

/** `in 89d` or `5m ago`; a dash if unknown. @param time RFC 3339 */
export function relative(time: string | undefined, now: Date): string {
  const difference = new Date(time ?? Number.NaN).getTime() - now.getTime();
  if (Number.isNaN(difference)) return '–';
  return difference >= 0 ? `in ${span(difference)}` : `${span(difference)} ago`;
}

/** The time since; a dash if unknown. @param time RFC 3339 */
export function age(time: string | undefined, now: Date): string {
  const length = now.getTime() - new Date(time ?? Number.NaN).getTime();
  // Zero at least: the clock of the writer may be slightly ahead.
  return Number.isNaN(length) ? '–' : span(Math.max(0, length));
}

/** To the minute, in UTC; a dash if unknown. @param time RFC 3339 */
export const minute = (time: string | undefined): string =>
  time === undefined ? '–' : time.replace(/T(\d\d:\d\d).*$/, ' $1Z');

export interface Lifetime {
  readonly from: Date;
  readonly to: Date;
}

/** The scale from the first to the last of these times. */
export function timeScale(...times: readonly [Date, ...Date[]]) {
  const start = Math.min(...times.map(Number));
  const end = Math.max(...times.map(Number));
  /** The position of a time on the scale: 0 at the start, 1 at the end. */
  const shareOf = (time: Date): number =>
    end === start ? 0 : Math.min(1, Math.max(0, (Number(time) - start) / (end - start)));
  return { from: new Date(start), to: new Date(end), shareOf };
}

/**
 * Bars over all lifetimes and the current time, all of the same length: `.` outside of the lifetime, `|` at the current
 * time.
 *
 * @param lifetimes `stroke` is the character of the bar
 * @param width in characters, at least 2
 */
export function timeLine(
  lifetimes: readonly (Lifetime & { readonly stroke: string })[],
  now: Date,
  width: number,
) {
  const scale = timeScale(now, ...lifetimes.flatMap(({ from, to }) => [from, to]));
  const columnOf = (time: Date): number => Math.min(width - 1, Math.floor(scale.shareOf(time) * width));
  const at = columnOf(now);
  const bars = lifetimes.map(({ from, to, stroke }) => {
    const [first, last] = [columnOf(from), columnOf(to)];
    return Array.from({ length: width }, (_none, column) => {
      if (column === at) return '|';
      return column >= first && column <= last ? stroke : '.';
    }).join('');
  });
  return { bars, from: scale.from, to: scale.to };
}
