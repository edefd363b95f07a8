/** Lengths of time and instants, as short as people say them. */
const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** As kubectl has ages: `45s`, `12m`, `30h`, `89d`. Rounded down. */
export function span(milliseconds: number): string {
  const length = Math.abs(milliseconds);
  if (length < 2 * MINUTE) return `${Math.floor(length / SECOND)}s`;
  if (length < 2 * HOUR) return `${Math.floor(length / MINUTE)}m`;
  return length < 2 * DAY ? `${Math.floor(length / HOUR)}h` : `${Math.floor(length / DAY)}d`;
}

/** `in 89d` or `5m ago`; a dash for what is not known. @param time RFC 3339 */
export function relative(time: string | undefined, now: Date): string {
  const difference = new Date(time ?? Number.NaN).getTime() - now.getTime();
  if (Number.isNaN(difference)) return '–';
  return difference >= 0 ? `in ${span(difference)}` : `${span(difference)} ago`;
}

/** How long ago; a dash for what is not known. @param time RFC 3339 */
export function age(time: string | undefined, now: Date): string {
  const length = now.getTime() - new Date(time ?? Number.NaN).getTime();
  // The clock of who wrote it may be a little ahead.
  return Number.isNaN(length) ? '–' : span(Math.max(0, length));
}

/** To the minute, in UTC. @param time RFC 3339 */
export const minute = (time: string | undefined): string =>
  time === undefined ? '–' : time.replace(/T(\d\d:\d\d).*$/, ' $1Z');
