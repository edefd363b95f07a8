import { type CelFunction, define } from './define.ts';
import { CelError } from '../cel-error.ts';
import { floorDivide } from '../values/time.ts';
import type { CelTimestamp } from '../values/values.ts';

/** Months, days of the month and days of the year count from 0, days of the week from Sunday. */
const GETTERS: Readonly<Record<string, (local: Date) => number>> = {
  getFullYear: (local) => local.getUTCFullYear(),
  getMonth: (local) => local.getUTCMonth(),
  getDate: (local) => local.getUTCDate(),
  getDayOfMonth: (local) => local.getUTCDate() - 1,
  getDayOfWeek: (local) => local.getUTCDay(),
  getDayOfYear: dayOfYear,
  getHours: (local) => local.getUTCHours(),
  getMinutes: (local) => local.getUTCMinutes(),
  getSeconds: (local) => local.getUTCSeconds(),
  getMilliseconds: (local) => local.getUTCMilliseconds(),
};

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;

function dayOfYear(local: Date): number {
  const newYear = new Date(0);
  newYear.setUTCFullYear(local.getUTCFullYear(), 0, 1);
  return Math.floor((local.getTime() - newYear.getTime()) / DAY);
}

const CLOCK_COST = 5;

const ZONE_COST = 100;

const MILLISECOND = 1_000_000n;

const UNITS = {
  getHours: 3_600_000n * MILLISECOND,
  getMinutes: 60_000n * MILLISECOND,
  getSeconds: 1000n * MILLISECOND,
  getMilliseconds: MILLISECOND,
} as const;

export const times: readonly CelFunction[] = [
  ...Object.entries(GETTERS).flatMap(([name, get]) => [
    define(
      `<timestamp>.${name}(): int`,
      (self) => BigInt(get(localTime(self, 'UTC'))),
      () => CLOCK_COST,
    ),
    define(
      `<timestamp>.${name}(string): int`,
      (self, zone) => BigInt(get(localTime(self, zone))),
      () => ZONE_COST,
    ),
  ]),
  ...Object.entries(UNITS).map(([name, unit]) =>
    define(`<duration>.${name}(): int`, ({ nanos }) => nanos / unit),
  ),
];

/** A date whose UTC fields show the timestamp in a zone such as `+02:00` or `Europe/Berlin`. */
function localTime({ nanos }: CelTimestamp, zone: string): Date {
  const instant = Number(floorDivide(nanos, MILLISECOND));
  return new Date(instant + offsetOf(zone, instant));
}

const OFFSET = /^([+-]?)(\d{1,2}):(\d{1,2})$/;

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

/** Unlike JavaScript, Go compares names case-sensitively and accepts no offset in a name. */
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
