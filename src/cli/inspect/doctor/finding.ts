/** The results of checks. docs/doctor.md documents the fields. */
import type { Permission, Reading } from '../read-cluster/reading.ts';

export type Severity = 'ok' | 'warning' | 'problem' | 'unknown';

export interface Finding {
  /** The name of the check in docs/doctor.md. */
  readonly check: string;
  readonly severity: Severity;
  /** What the check has found. */
  readonly seen: string;
  /** What to do; a command where possible. */
  readonly next?: string;
}

export const ok = (check: string, seen: string): Finding => ({ check, severity: 'ok', seen });

export const warning = (check: string, seen: string, next: string): Finding => ({
  check,
  severity: 'warning',
  seen,
  next,
});

export const problem = (check: string, seen: string, next: string): Finding => ({
  check,
  severity: 'problem',
  seen,
  next,
});

/** `success` when there are no findings. */
export const orElse = (findings: readonly Finding[], success: Finding): readonly Finding[] =>
  findings.length > 0 ? findings : [success];

/** Runs `judge` on the value; a part that could not be read gives an `unknown` finding. */
export function judgeReading<T>(
  check: string,
  reading: Reading<T>,
  judge: (value: T) => readonly Finding[],
): readonly Finding[] {
  if (reading.kind === 'read') return judge(reading.value);
  if (reading.reason === 'Forbidden') return [forbidden(check, reading.permission)];
  const next = 'run the command again; if the error persists, check the API server';
  return [{ check, severity: 'unknown', seen: reading.message, next }];
}

function forbidden(check: string, { verb, resource, namespace }: Permission): Finding {
  const where = namespace === undefined ? '' : ` in the namespace ${namespace}`;
  const flag = namespace === undefined ? '' : ` -n ${namespace}`;
  return {
    check,
    severity: 'unknown',
    seen: `no permission to ${verb} ${resource}${where}`,
    next: `ask for this permission (kubectl auth can-i ${verb} ${resource}${flag}), or run the command as a user who has it`,
  };
}

/** The first items, and the number of the others. */
export function someOf(all: readonly string[], limit = 6): string {
  const shown = all.slice(0, limit).join(', ');
  return all.length > limit ? `${shown} and ${all.length - limit} more` : shown;
}

export const logsOf = (namespace: string): string => `kubectl -n ${namespace} logs deployment/gatehouse`;

export const podsOf = (namespace: string): string =>
  `kubectl -n ${namespace} get pods -l app.kubernetes.io/name=gatehouse`;
