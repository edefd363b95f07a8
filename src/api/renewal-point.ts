/**
 * `50%` as a number; undefined for text other than a whole percentage from 20% to 90%. Earlier, a certificate would be due
 * soon after its issue. Later, an outage of hours would do harm.
 */
export function parseRenewalPoint(text: string): number | undefined {
  const [, percent] = /^([2-8]\d|90)%$/.exec(text) ?? [];
  return percent === undefined ? undefined : Number(percent);
}
