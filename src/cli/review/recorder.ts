/** What policies and handlers say while one object is reviewed. */
import type { Cause, Decision } from '../../admission/review/decision.ts';

export interface Hearing {
  readonly ask: (names: { readonly policies?: readonly string[]; readonly handler?: string }) => void;
  readonly note: (decision: Decision) => void;
  readonly warn: (text: string) => void;
  /** A handler that gave no answer. */
  readonly fail: (message: string) => void;
  readonly said: () => Said;
}

export interface Said {
  readonly policies: readonly string[];
  readonly handlers: readonly string[];
  readonly denials: readonly Denial[];
  readonly warnings: readonly string[];
  readonly auditAnnotations: Readonly<Record<string, string>>;
  readonly failures: readonly string[];
}

export interface Denial {
  readonly message: string;
  readonly code: number;
  readonly reason: string;
  readonly causes: readonly Cause[];
}

export function createHearing(): Hearing {
  const policies = new Set<string>();
  const handlers = new Set<string>();
  const denials: Denial[] = [];
  const warnings = new Set<string>();
  const annotations = new Map<string, Set<string>>();
  const failures: string[] = [];
  return {
    ask: ({ policies: asked = [], handler }) => {
      for (const name of asked) policies.add(name);
      if (handler !== undefined) handlers.add(handler);
    },
    note: (decision) => {
      if (decision.kind === 'retry') {
        denials.push({ message: decision.message, code: 429, reason: 'TooManyRequests', causes: [] });
        return;
      }
      // A webhook may be asked twice, and says the same again.
      for (const text of decision.warnings) warnings.add(text);
      for (const [key, value] of Object.entries(decision.auditAnnotations)) {
        annotations.set(key, (annotations.get(key) ?? new Set()).add(value));
      }
      if (decision.kind === 'deny') denials.push(decision);
    },
    warn: (text) => warnings.add(text),
    fail: (message) => failures.push(message),
    said: () => ({
      policies: [...policies].sort(),
      handlers: [...handlers].sort(),
      denials,
      warnings: [...warnings],
      auditAnnotations: Object.fromEntries(
        [...annotations].map(([key, values]) => [key, [...values].join(', ')]),
      ),
      failures,
    }),
  };
}
