const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const YEAR = 365 * DAY;

/** The unit of a duration below this limit, and a second unit that is left out when it is zero. */
const STEPS: readonly { readonly below: number; readonly unit: Unit; readonly rest?: Unit }[] = [
  { below: 2 * MINUTE, unit: 's' },
  { below: 10 * MINUTE, unit: 'm', rest: 's' },
  { below: 3 * HOUR, unit: 'm' },
  { below: 8 * HOUR, unit: 'h', rest: 'm' },
  { below: 2 * DAY, unit: 'h' },
  { below: 8 * DAY, unit: 'd', rest: 'h' },
  { below: 2 * YEAR, unit: 'd' },
  { below: 8 * YEAR, unit: 'y', rest: 'd' },
  { below: Infinity, unit: 'y' },
];

type Unit = keyof typeof UNITS;
const UNITS = { s: SECOND, m: MINUTE, h: HOUR, d: DAY, y: YEAR } as const;

/** Like HumanDuration of apimachinery: `45s`, `3m2s`, `5d`. Clocks differ, so up to a second in the future counts as now. */
export function humanDuration(ms: number): string {
  if (ms <= -2 * SECOND) return '<invalid>';
  const duration = Math.max(ms, 0);
  const { unit, rest } = STEPS.find(({ below }) => duration < below) ?? {
    unit: 'y' as const,
    rest: undefined,
  };
  const whole = Math.floor(duration / UNITS[unit]);
  const remainder = rest === undefined ? 0 : Math.floor((duration % UNITS[unit]) / UNITS[rest]);
  return rest === undefined || remainder === 0 ? `${whole}${unit}` : `${whole}${unit}${remainder}${rest}`;
}

const RFC3339 = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?(?:Z|[+-]\d{2}:\d{2})$/;

/** The age of an RFC 3339 timestamp: `<unknown>` if it is missing, `<invalid>` if it cannot be parsed. */
export function ageOf(timestamp: string | undefined, now: Date): string {
  if (timestamp === undefined || timestamp === '' || timestamp === 'null') return '<unknown>';
  const time = RFC3339.test(timestamp) ? Date.parse(timestamp) : NaN;
  return Number.isNaN(time) ? '<invalid>' : humanDuration(now.getTime() - time);
}
