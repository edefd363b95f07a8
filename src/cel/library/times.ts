import { clockFace, type ClockFace } from '../time-zone.ts';
import { type CelFunction, define } from './define.ts';

const GETTERS: Readonly<Record<string, (face: ClockFace) => number>> = {
  getFullYear: ({ year }) => year,
  getMonth: ({ month }) => month,
  getDate: ({ day }) => day + 1,
  getDayOfMonth: ({ day }) => day,
  getDayOfWeek: ({ dayOfWeek }) => dayOfWeek,
  getDayOfYear: ({ dayOfYear }) => dayOfYear,
  getHours: ({ hours }) => hours,
  getMinutes: ({ minutes }) => minutes,
  getSeconds: ({ seconds }) => seconds,
  getMilliseconds: ({ milliseconds }) => milliseconds,
};

const CLOCK_COST = 5;
/** What time it is elsewhere takes a calculation through the tables of time zones. */
const ZONE_COST = 100;

const MILLISECOND = 1_000_000n;
const UNITS = {
  getHours: 3_600_000n * MILLISECOND,
  getMinutes: 60_000n * MILLISECOND,
  getSeconds: 1000n * MILLISECOND,
  getMilliseconds: MILLISECOND,
} as const;

/** What clocks show at a timestamp, in UTC or in a time zone, and how many whole units a duration has. */
export const times: readonly CelFunction[] = [
  ...Object.entries(GETTERS).flatMap(([name, get]) => [
    define(
      `<timestamp>.${name}(): int`,
      (self) => BigInt(get(clockFace(self, 'UTC'))),
      () => CLOCK_COST,
    ),
    define(
      `<timestamp>.${name}(string): int`,
      (self, zone) => BigInt(get(clockFace(self, zone))),
      () => ZONE_COST,
    ),
  ]),
  ...Object.entries(UNITS).map(([name, unit]) =>
    define(`<duration>.${name}(): int`, ({ nanos }) => nanos / unit),
  ),
];
