/** `--import` it: `Date` of this process is `GATEHOUSE_TEST_SHIFT_MS` ahead. Timers and TLS keep the real time. */
const shift = Number(process.env.GATEHOUSE_TEST_SHIFT_MS);
const Real = Date;

globalThis.Date = class extends Real {
  constructor(...given: readonly number[]) {
    super(...((given.length === 0 ? [Real.now() + shift] : given) as [number]));
  }

  static override now(): number {
    return Real.now() + shift;
  }
} as DateConstructor;
