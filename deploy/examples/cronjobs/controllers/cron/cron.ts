/** The five fields of cron, in UTC: numbers, lists, ranges and steps. */

const MINUTE = 60_000;
const DAY = 24 * 60 * MINUTE;
/** 29 February comes back after at most eight years. */
const DAYS = 8 * 366;
const LIMITS = [
  ['minute', 0, 59],
  ['hour', 0, 23],
  ['day of the month', 1, 31],
  ['month', 1, 12],
  ['day of the week', 0, 7],
] as const;

export interface Cron {
  /** The first run after this time. Undefined: there is none, such as on 30 February. */
  readonly next: (after: Date) => Date | undefined;
  /** The last run up to this time, and after the other one. */
  readonly last: (until: Date, after: Date) => Date | undefined;
}

function valuesOf(field: string, [what, lowest, highest]: (typeof LIMITS)[number]): readonly number[] {
  const values = field.split(',').flatMap((part) => {
    const found = /^(?:\*|(\d{1,2})(?:-(\d{1,2}))?)(?:\/(\d{1,2}))?$/.exec(part);
    const [, from, to, step] = found ?? [];
    const first = Number(from ?? lowest);
    const last = Number(to ?? (from === undefined || step !== undefined ? highest : from));
    const every = Number(step ?? 1);
    if (found === null || first < lowest || last > highest || first > last || every === 0)
      throw new Error(`${what}: "${part}" is not a value, range or step from ${lowest} to ${highest}`);
    return Array.from(
      { length: Math.floor((last - first) / every) + 1 },
      (_, index) => first + index * every,
    );
  });
  return values.toSorted((a, b) => a - b);
}

/** @throws Error that names the wrong field */
export function parseCron(schedule: string): Cron {
  const fields = schedule.trim().split(/\s+/);
  if (fields.length !== LIMITS.length) throw new Error(`${fields.length} fields instead of ${LIMITS.length}`);
  const [minutes = [], hours = [], days = [], months = [], weekdays = []] = LIMITS.map((limit, index) =>
    valuesOf(fields[index] ?? '', limit),
  );
  const [, , day = '', , weekday = ''] = fields;
  const times = hours.flatMap((hour) => minutes.map((minute) => (hour * 60 + minute) * MINUTE));
  const isOn = (midnight: number): boolean => {
    const date = new Date(midnight);
    if (!months.includes(date.getUTCMonth() + 1)) return false;
    const isDay = days.includes(date.getUTCDate());
    const isWeekday = weekdays.some((one) => one % 7 === date.getUTCDay());
    // As in cron: if both are limited, one of them is enough.
    return day.startsWith('*') || weekday.startsWith('*') ? isDay && isWeekday : isDay || isWeekday;
  };
  const search = (start: Date, step: 1 | -1, isRight: (time: number) => boolean, count = DAYS) => {
    const today = Math.floor(start.getTime() / DAY) * DAY;
    const ordered = step === 1 ? times : times.toReversed();
    for (let index = 0; index <= count; index += 1) {
      const midnight = today + index * step * DAY;
      const found = isOn(midnight) ? ordered.find((time) => isRight(midnight + time)) : undefined;
      if (found !== undefined) return new Date(midnight + found);
    }
    return undefined;
  };
  return {
    next: (after) => search(after, 1, (time) => time > after.getTime()),
    last: (until, after) => {
      const found = search(until, -1, (time) => time <= until.getTime());
      return found !== undefined && found > after ? found : undefined;
    },
  };
}
