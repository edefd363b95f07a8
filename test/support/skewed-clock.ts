/**
 * A wall clock that is wrong, for a process of its own: preloaded into it, this module moves `Date`. Monotonic clocks and timers
 * stay as they are, as on a machine whose clock somebody set.
 */

const VARIABLE = 'GATEHOUSE_TEST_CLOCK_SKEW_MS';

/** What a replica has to be started with for its clock to be this far ahead, in milliseconds; negative: behind. */
export const withSkewedClock = (skewMs: number) => ({
  nodeArgs: ['--import', import.meta.url],
  env: { [VARIABLE]: String(skewMs) },
});

function moveDate(skewMs: number): void {
  const RightDate = Date;
  const now = () => RightDate.now() + skewMs;
  globalThis.Date = new Proxy(RightDate, {
    construct: (target, args: unknown[], newTarget) =>
      Reflect.construct(target, args.length === 0 ? [now()] : args, newTarget) as Date, // what constructing a Date gives
    apply: () => new RightDate(now()).toString(),
    get: (target, property, receiver) =>
      property === 'now' ? now : (Reflect.get(target, property, receiver) as unknown),
  });
}

const wanted = process.env[VARIABLE];
if (wanted !== undefined) moveDate(Number(wanted));
