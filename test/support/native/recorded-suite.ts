/** The tests of some recorded cases of admission policies. */
import { expect, test } from 'vitest';

import { isNightly } from '../nightly.ts';
import { recordedIn, recordedPolicies, replayInAnyOrder, type Recorded } from './recorded-policies.ts';

/** Of so many cases, one is replayed; all in the nightly run. The e2e suites ask a real API server. */
const EVERY = isNightly ? 1 : 4;

/** @param exceptions cases that the sandbox answers differently, each with the reason */
export function testRecorded(
  isIncluded: (recorded: Recorded) => boolean,
  exceptions: ReadonlyMap<string, string>,
): void {
  const all = recordedPolicies().filter(isIncluded);
  const recorded = all.filter((_one, index) => index % EVERY === 0);

  test.for(recorded)('$name is answered as by a real API server', async (one, { skip }) => {
    const exception = exceptions.get(one.name);
    const expected = recordedIn(one);
    if (exception === undefined) {
      expect(await replayInAnyOrder(one)).toEqual(expected);
      return;
    }
    const seen = await replayInAnyOrder(one).catch(String); // a setup may need a kind that the sandbox lacks
    expect(seen, 'the exception is obsolete').not.toEqual(expected);
    skip(true, exception);
  });

  test('each exception is about a recorded case', () => {
    const names = new Set(all.map(({ name }) => name));
    expect([...exceptions.keys()].filter((name) => !names.has(name))).toEqual([]);
  });
}
