/** A schedule of cron with five fields, in UTC. */
export type Schedule = readonly [Field, Field, Field, Field, Field];

interface Field {
  readonly values: ReadonlySet<number>;
  readonly isAny: boolean;
}

const RANGES = [
  [0, 59],
  [0, 23],
  [1, 31],
  [1, 12],
  [0, 7],
] as const;
const MINUTE = 60_000;

/** @throws Error that names the field */
export function parseSchedule(text: string): Schedule {
  const words = text.trim().split(/\s+/);
  if (words.length !== RANGES.length) throw new Error(`schedule "${text}" needs five fields`);
  return RANGES.map(([min, max], index) => parseField(words[index] ?? '', min, max)) as unknown as Schedule;
}

function parseField(word: string, min: number, max: number): Field {
  const values = word.split(',').flatMap((part) => {
    const [, range = '', from = '', to, step] = /^(\*|(\d+)(?:-(\d+))?)(?:\/([1-9]\d*))?$/.exec(part) ?? [];
    const first = range === '*' ? min : Number(from);
    const last = range === '*' || (to === undefined && step !== undefined) ? max : Number(to ?? from);
    if (range === '' || first < min || last > max || first > last)
      throw new Error(`"${part}" in the schedule is not between ${min} and ${max}`);
    const by = Number(step ?? 1);
    return Array.from({ length: Math.floor((last - first) / by) + 1 }, (_, index) => first + index * by);
  });
  return { values: new Set(values), isAny: word.startsWith('*') };
}

function hasDay([, , days, months, weekdays]: Schedule, time: Date): boolean {
  if (!months.values.has(time.getUTCMonth() + 1)) return false;
  const weekday = time.getUTCDay();
  const isDay = days.values.has(time.getUTCDate());
  const isWeekday = weekdays.values.has(weekday) || (weekday === 0 && weekdays.values.has(7));
  // As cron: one of the two is enough if both are limited.
  return days.isAny || weekdays.isAny ? isDay && isWeekday : isDay || isWeekday;
}

/** The first time after this one, within five years. */
export function nextTime(schedule: Schedule, after: Date): Date | undefined {
  const [minutes, hours] = schedule;
  const end = after.getTime() + 5 * 366 * 24 * 60 * MINUTE;
  for (let at = (Math.floor(after.getTime() / MINUTE) + 1) * MINUTE; at < end;) {
    const time = new Date(at);
    if (!hasDay(schedule, time)) at = new Date(at).setUTCHours(24, 0, 0, 0);
    else if (!hours.values.has(time.getUTCHours())) at = new Date(at).setUTCMinutes(60, 0, 0);
    else if (minutes.values.has(time.getUTCMinutes())) return time;
    else at += MINUTE;
  }
  return undefined;
}
