/** Durations of this room, in milliseconds. */
export const SECOND = 1000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

/** The date `milliseconds` after (or, if negative, before) `date`. */
export const after = (date: Date, milliseconds: number) => new Date(date.getTime() + milliseconds);

export const earliest = (...dates: readonly Date[]) => new Date(Math.min(...dates.map(Number)));

const DURATION = /^(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,6})s)?$/;

/** Milliseconds of a duration such as `90d`, `2160h` or `1h30m0s`: Go's notation, and days. Undefined if it is none. */
export function parseDuration(text: string): number | undefined {
  const match = DURATION.exec(text);
  if (match === null || text === '') return undefined;
  const [days, hours, minutes, seconds] = match.slice(1).map((part: string | undefined) => Number(part ?? 0));
  return (days ?? 0) * DAY + (hours ?? 0) * HOUR + (minutes ?? 0) * MINUTE + (seconds ?? 0) * SECOND;
}
