/** A wrong wall clock for a separate process: with `--import`, this module shifts `Date`, but no timers. */

const VARIABLE = 'GATEHOUSE_TEST_CLOCK_SKEW_MS';

/** Options that start a replica with its clock this many milliseconds ahead; negative: behind. */
export const withSkewedClock = (skewMs: number) => ({
  nodeArgs: ['--import', import.meta.url],
  env: { [VARIABLE]: String(skewMs) },
});

function moveDate(skewMs: number): void {
  const RightDate = Date;
  const now = () => RightDate.now() + skewMs;
  globalThis.Date = new Proxy(RightDate, {
    construct: (target, args: unknown[], newTarget) =>
      // constructing a Date returns a Date
      Reflect.construct(target, args.length === 0 ? [now()] : args, newTarget) as Date,
    apply: () => new RightDate(now()).toString(),
    get: (target, property, receiver) =>
      property === 'now' ? now : (Reflect.get(target, property, receiver) as unknown),
  });
}

const wanted = process.env[VARIABLE];
if (wanted !== undefined) moveDate(Number(wanted));
