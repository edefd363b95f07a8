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
    define(`<timestamp>.${name}(): int`, (self) => BigInt(get(clockFace(self, 'UTC')))),
    define(`<timestamp>.${name}(string): int`, (self, zone) => BigInt(get(clockFace(self, zone)))),
  ]),
  ...Object.entries(UNITS).map(([name, unit]) => define(`<duration>.${name}(): int`, ({ nanos }) => nanos / unit)),
];
