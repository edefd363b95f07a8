import type { ConformanceCase } from './case.ts';
import type { Subject } from './subject.ts';

/**
 * Starts all cases, a few at a time, and returns a promise for each by name. Cases mostly wait for the API server, so
 * running several at once costs little.
 */
export function observeAll(
  subject: Pick<Subject, 'observe'>,
  cases: readonly ConformanceCase[],
  concurrency = 6,
): ReadonlyMap<string, Promise<unknown>> {
  const waiting: (() => void)[] = [];
  let free = concurrency;
  const seat = async () => {
    if (free > 0) free -= 1;
    else await new Promise<void>((resolve) => waiting.push(resolve));
  };
  const leave = () => {
    const next = waiting.shift();
    if (next === undefined) free += 1;
    else next();
  };
  const seated = async (conformanceCase: ConformanceCase) => {
    await seat();
    try {
      return await subject.observe(conformanceCase);
    } finally {
      leave();
    }
  };
  const started = cases.map((conformanceCase) => [conformanceCase.name, seated(conformanceCase)] as const);
  // A test reports a failure in its turn; mark the rejection as handled until then.
  for (const [, observed] of started) observed.catch(() => undefined);
  return new Map(started);
}
