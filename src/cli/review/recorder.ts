/** Records the decisions of policies and handlers while one object is reviewed. */
import type { Cause, Decision } from '../../admission/review/decision.ts';

export interface Recorder {
  readonly called: (names: { readonly policies?: readonly string[]; readonly handler?: string }) => void;
  readonly record: (decision: Decision) => void;
  readonly warn: (text: string) => void;
  /** Records a handler that failed. */
  readonly fail: (message: string) => void;
  readonly recorded: () => Recorded;
}

export interface Recorded {
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

export function createRecorder(): Recorder {
  const policies = new Set<string>();
  const handlers = new Set<string>();
  const denials: Denial[] = [];
  const warnings = new Set<string>();
  const annotations = new Map<string, Set<string>>();
  const failures: string[] = [];
  return {
    called: ({ policies: asked = [], handler }) => {
      for (const name of asked) policies.add(name);
      if (handler !== undefined) handlers.add(handler);
    },
    record: (decision) => {
      if (decision.kind === 'retry') {
        denials.push({ message: decision.message, code: 429, reason: 'TooManyRequests', causes: [] });
        return;
      }
      // The API server may call a webhook twice; the sets drop duplicates.
      for (const text of decision.warnings) warnings.add(text);
      for (const [key, value] of Object.entries(decision.auditAnnotations)) {
        annotations.set(key, (annotations.get(key) ?? new Set()).add(value));
      }
      if (decision.kind === 'deny') denials.push(decision);
    },
    warn: (text) => warnings.add(text),
    fail: (message) => failures.push(message),
    recorded: () => ({
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
