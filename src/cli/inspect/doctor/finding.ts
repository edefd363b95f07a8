/** The results of checks. docs/status.md documents the fields. */
import type { Reading } from '../read-cluster/reading.ts';

export type Severity = 'ok' | 'warning' | 'problem' | 'unknown';

export interface Finding {
  readonly check: string;
  readonly severity: Severity;
  readonly seen: string;
  readonly next?: string;
}

export type Result = Omit<Finding, 'check'>;
export type Results = Result | readonly Result[];

export const ok = (seen: string): Result => ({ severity: 'ok', seen });

export const warning = (seen: string, next: string): Result => ({ severity: 'warning', seen, next });

export const problem = (seen: string, next: string): Result => ({ severity: 'problem', seen, next });

export const unknown = (seen: string, next: string): Result => ({ severity: 'unknown', seen, next });

export const orElse = (results: readonly Results[], success: Result): Results => {
  const all = results.flat();
  return all.length > 0 ? all : success;
};

export function judgeReading<T>(reading: Reading<T>, judge: (value: T) => Results): Results {
  if (reading.kind === 'read') return judge(reading.value);
  if (reading.reason !== 'Forbidden')
    return unknown(reading.message, 'run the command again; if the error persists, check the API server');
  const { verb, resource, namespace } = reading.permission;
  const [where, flag] =
    namespace === undefined ? ['', ''] : [` in the namespace ${namespace}`, ` -n ${namespace}`];
  return unknown(
    `this user lacks permission to ${verb} ${resource}${where}`,
    `ask for this permission (kubectl auth can-i ${verb} ${resource}${flag}), or run the command as a user who has it`,
  );
}

export function someOf(all: readonly string[], limit = 6): string {
  const shown = all.slice(0, limit).join(', ');
  return all.length > limit ? `${shown} and ${all.length - limit} more` : shown;
}

const SELECTOR = '-l app.kubernetes.io/part-of=gatehouse';

export const logsOf = (namespace: string): string => `kubectl -n ${namespace} logs --prefix ${SELECTOR}`;

export const podsOf = (namespace: string): string => `kubectl -n ${namespace} get pods ${SELECTOR}`;
