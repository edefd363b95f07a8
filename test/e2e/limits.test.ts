// suite: shared-plane, sandbox: long
/** A small version of the measurement of `npm run soak`. docs/operating.md has the limits. */
import { expect, test } from 'vitest';

import { measureStorms } from '../soak/storm.ts';

/** A replica has two watches for each kind. */
const KINDS = 30;

test('after an outage of the API server, a replica reopens all its watches with at most 50 requests in any second', async () => {
  const [storm] = await measureStorms({ replicas: 1, kinds: KINDS, outageMs: 3_000, restart: false });
  expect(storm?.watches).toBeGreaterThan(2 * KINDS);
  expect(storm?.requests).toBeGreaterThan(storm?.watches ?? 0);
  expect(storm?.firstSecond).toBeLessThanOrEqual(50);
  expect(storm?.worstSecond).toBeLessThanOrEqual(50);
}, 600_000);
