/** A whole percentage from 20% to 90%: earlier, a certificate would be due soon after its issue; later is too late. */
export function parseRenewalPoint(text: string): number | undefined {
  const [, percent] = /^([2-8]\d|90)%$/.exec(text) ?? [];
  return percent === undefined ? undefined : Number(percent);
}
