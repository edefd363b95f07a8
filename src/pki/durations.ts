/** Durations in milliseconds. */
export const SECOND = 1000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

/** The date `milliseconds` after (or, if negative, before) `date`. */
export const after = (date: Date, milliseconds: number) => new Date(date.getTime() + milliseconds);

export const latest = (...dates: readonly Date[]) => new Date(Math.max(...dates.map(Number)));
export const earliest = (...dates: readonly Date[]) => new Date(Math.min(...dates.map(Number)));
