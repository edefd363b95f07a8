/** What a check says. `docs/doctor.md` promises the shape. */

export type Severity = 'ok' | 'warning' | 'problem' | 'unknown';

export interface Finding {
  /** One of those that docs/doctor.md explains. */
  readonly check: string;
  readonly severity: Severity;
  /** What was looked at, and what is there. */
  readonly seen: string;
  /** What to do, a command where there is one. */
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

/** The bad ones; when there are none, that all is well. */
export const orElse = (findings: readonly Finding[], well: Finding): readonly Finding[] =>
  findings.length > 0 ? findings : [well];

/** The first few, and how many more there are. */
export function someOf(all: readonly string[], most = 6): string {
  const shown = all.slice(0, most).join(', ');
  return all.length > most ? `${shown} and ${all.length - most} more` : shown;
}
