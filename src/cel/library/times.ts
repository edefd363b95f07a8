import { type CelFunction, define } from './define.ts';
import { CelError } from '../cel-error.ts';
import { floorDivide } from '../values/time.ts';
import type { CelTimestamp } from '../values/values.ts';

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
/** The cost of a time zone conversion. */
const ZONE_COST = 100;

const MILLISECOND = 1_000_000n;
const UNITS = {
  getHours: 3_600_000n * MILLISECOND,
  getMinutes: 60_000n * MILLISECOND,
  getSeconds: 1000n * MILLISECOND,
  getMilliseconds: MILLISECOND,
} as const;

/** Getters for timestamps, in UTC or a time zone, and for durations in whole units. */
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

/**
 * Calendar and clock fields. Months, days of the month and days of the year count from 0, days of the week from Sunday.
 */
export interface ClockFace {
  readonly year: number;
  readonly month: number;
  readonly day: number;
  readonly dayOfWeek: number;
  readonly dayOfYear: number;
  readonly hours: number;
  readonly minutes: number;
  readonly seconds: number;
  readonly milliseconds: number;
}

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

/**
 * The calendar and clock fields of a timestamp in a zone.
 *
 * @param zone an offset such as `+02:00`, or a name such as `Europe/Berlin`
 * @throws CelError if the zone does not exist
 */
export function clockFace({ nanos }: CelTimestamp, zone: string): ClockFace {
  const instant = Number(floorDivide(nanos, 1_000_000n));
  const local = new Date(instant + offsetOf(zone, instant));
  const newYear = new Date(0);
  newYear.setUTCFullYear(local.getUTCFullYear(), 0, 1);
  return {
    year: local.getUTCFullYear(),
    month: local.getUTCMonth(),
    day: local.getUTCDate() - 1,
    dayOfWeek: local.getUTCDay(),
    dayOfYear: Math.floor((local.getTime() - newYear.getTime()) / DAY),
    hours: local.getUTCHours(),
    minutes: local.getUTCMinutes(),
    seconds: local.getUTCSeconds(),
    milliseconds: local.getUTCMilliseconds(),
  };
}

const OFFSET = /^([+-]?)(\d{1,2}):(\d{1,2})$/;

/** The offset from UTC in milliseconds, positive to the east. */
function offsetOf(zone: string, instant: number): number {
  if (zone === 'UTC' || zone === '') return 0;
  const [match, sign, hours, minutes] = OFFSET.exec(zone) ?? [];
  if (match !== undefined) return (Number(hours) * 60 + Number(minutes)) * (sign === '-' ? -MINUTE : MINUTE);
  const shown = Object.fromEntries(
    formatOf(zone)
      .formatToParts(instant)
      .map(({ type, value }) => [type, value]),
  );
  const { year, month, day, hour, minute, second } = shown;
  const local = new Date(0);
  local.setUTCFullYear(Number(year) * (shown.era === 'BC' ? -1 : 1), Number(month) - 1, Number(day));
  local.setUTCHours(Number(hour), Number(minute), Number(second));
  return local.getTime() - Math.floor(instant / 1000) * 1000;
}

/** Go compares names with their case, and knows none with an offset. JavaScript is less strict. */
const isZoneName = (name: string): boolean => /^[A-Z][A-Za-z0-9+_-]*(\/[A-Z][A-Za-z0-9+_-]*)*$/.test(name);

const formats = new Map<string, Intl.DateTimeFormat>();
/** The cache limit: about the number of zone names. Invalid names are not cached. */
const MOST_FORMATS = 600;

function formatOf(timeZone: string): Intl.DateTimeFormat {
  const known = formats.get(timeZone);
  if (known !== undefined) return known;
  if (!isZoneName(timeZone)) throw new CelError(`unknown time zone ${timeZone}`);
  try {
    const format = new Intl.DateTimeFormat('en-US', {
      timeZone,
      era: 'short',
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
    if (formats.size >= MOST_FORMATS) formats.clear();
    formats.set(timeZone, format);
    return format;
  } catch (cause) {
    throw new CelError(`unknown time zone ${timeZone}`, { cause });
  }
}
