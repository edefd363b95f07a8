/** Durations in flags: `10s`, `5m`, `1.5h`, `90d`, `500ms`. */

const UNITS_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: 1_000,
  m: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** The duration in milliseconds. @throws when the text is not a duration */
export function parseDuration(text: string): number {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(text.trim());
  const unit = UNITS_MS[match?.[2] ?? ''];
  const milliseconds = Number(match?.[1]) * (unit ?? NaN);
  if (!(milliseconds <= Number.MAX_SAFE_INTEGER)) {
    throw new Error(
      `"${text}" is not a duration; write a number and a unit, such as 500ms, 10s, 5m, 1h or 90d`,
    );
  }
  return milliseconds;
}
