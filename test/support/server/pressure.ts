import {
  createPressure,
  type Pressure,
  type PressureDeps,
  type PressureLimits,
} from '../../../src/server/limits/pressure.ts';

/** The pressure of an idle server, unless the test overrides it. */
export function pressureOf(limits: Partial<PressureLimits> = {}, deps: Partial<PressureDeps> = {}): Pressure {
  return createPressure(
    { reviews: 1_000, bodyBytes: 64 * 1024 * 1024, ...limits },
    {
      eventLoop: { isFull: () => false },
      metrics: { reviewsInFlight: () => undefined, refusedReview: () => undefined },
      log: { warn: () => undefined },
      ...deps,
    },
  );
}
