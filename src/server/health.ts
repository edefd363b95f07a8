/** Named checks behind `/healthz` and `/readyz`, in the format of the API server's own endpoints. */

/** Returns what is wrong, in a few words, or undefined if the check passes. */
export type HealthCheck = () => string | undefined;

export type HealthChecks = Readonly<Record<string, HealthCheck>>;

/**
 * A startup check: after it passes once, it is not evaluated again. A new policy whose targets are still being listed
 * must not remove all replicas from their Service at the same time.
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

/** The text has one line per check: `[+]name ok` or `[-]name failed: why`. */
export function runChecks(checks: HealthChecks, excluded: readonly string[] = []) {
  const included = Object.entries(checks).filter(([name]) => !excluded.includes(name));
  const lines = included.map(([name, check]) => {
    const problem = check();
    return problem === undefined ? `[+]${name} ok` : `[-]${name} failed: ${problem}`;
  });
  const ok = lines.every((line) => line.startsWith('[+]'));
  return { ok, text: [...lines, ok ? 'check passed' : 'check failed', ''].join('\n') };
}
