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

const bad =
  (severity: Severity) =>
  (seen: string, next: string): Result => ({ severity, seen, next });
export const warning = bad('warning');
export const problem = bad('problem');
export const unknown = bad('unknown');

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

const SELECTOR = '-l app.kubernetes.io/part-of=gatehouse';

export const logsOf = (namespace: string): string => `kubectl -n ${namespace} logs --prefix ${SELECTOR}`;

export const podsOf = (namespace: string): string => `kubectl -n ${namespace} get pods ${SELECTOR}`;
