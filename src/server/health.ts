/** Named checks behind `/healthz` and `/readyz`, in the format of the API server's own endpoints. */

/** What is wrong, in a few words; undefined while all is well. */
export type HealthCheck = () => string | undefined;

export type HealthChecks = Readonly<Record<string, HealthCheck>>;

/**
 * A check of the start: once passed it is not asked again. A replica that serves must not drop out of its Service, together
 * with all others, because a policy was created a moment ago and its targets are still being listed.
 */
export function untilPassed(check: HealthCheck): HealthCheck {
  let passed = false;
  return () => {
    if (passed) return undefined;
    const problem = check();
    passed = problem === undefined;
    return problem;
  };
}

export interface HealthReport {
  readonly ok: boolean;
  /** `[+]name ok` or `[-]name failed: why`, one line a check. */
  readonly text: string;
}

export function runChecks(checks: HealthChecks, excluded: readonly string[] = []): HealthReport {
  const results = Object.entries(checks)
    .filter(([name]) => !excluded.includes(name))
    .map(([name, check]) => ({ name, problem: check() }));
  const ok = results.every(({ problem }) => problem === undefined);
  const lines = results.map(({ name, problem }) =>
    problem === undefined ? `[+]${name} ok` : `[-]${name} failed: ${problem}`,
  );
  return { ok, text: [...lines, ok ? 'check passed' : 'check failed', ''].join('\n') };
}
