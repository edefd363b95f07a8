/** Times as kubectl shows them. */
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
