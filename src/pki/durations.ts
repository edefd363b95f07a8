export const SECOND = 1000;
export const MINUTE = 60 * SECOND;
export const HOUR = 60 * MINUTE;
export const DAY = 24 * HOUR;

export const after = (date: Date, milliseconds: number) => new Date(date.getTime() + milliseconds);

export const latest = (...dates: readonly Date[]) => new Date(Math.max(...dates.map(Number)));
export const earliest = (...dates: readonly Date[]) => new Date(Math.min(...dates.map(Number)));

/** How far clocks may differ: certs begin this much earlier, a leaf ends, and a root is trusted, this much around. */
export const CLOCK_TOLERANCE = 60 * MINUTE;

export const DEFAULT_SERVING_CERT_LIFETIME = 90 * DAY;
/** For Gatehouse's own serving cert, which Gatehouse reloads without a restart. */
export const OWN_SERVING_CERT_LIFETIME = 7 * DAY;
/** Percent of its life that a serving cert has passed when it is renewed at the latest. */
export const DEFAULT_RENEW_AFTER = 66;
export const MIN_SERVING_CERT_LIFETIME = 60 * MINUTE;
/** Half of the life of the authority, so that every leaf can live its full life before its CA ends. */
export const MAX_SERVING_CERT_LIFETIME = 365 * DAY;
