import type { AuditAnnotations, Cause, Decision } from '../../admission/review/decision.ts';
import type { JsonObject } from '../../json/json.ts';
import { objectKey } from '../../json/kube-object.ts';
import type { PatchOperation } from '../../json/json-patch.ts';
import { diff } from '../../json/json-diff.ts';
import { toJson, type ApiObject } from '../../machinery/api-object.ts';
import type { ApiFailure } from '../../machinery/failure.ts';
import type { Mutated } from './api-server.ts';

/** `warned`: admitted with warnings. `unchecked`: admitted because no policy and no handler applies. */
export type Verdict = 'allowed' | 'warned' | 'denied' | 'unchecked';

export interface ReviewResult {
  readonly verdict: Verdict;
  readonly policies: readonly string[];
  readonly handlers: readonly string[];
  readonly messages: readonly string[];
  readonly refusal: { readonly code: number; readonly reason: string } | undefined;
  readonly causes: readonly Pick<Cause, 'field' | 'message'>[];
  readonly warnings: readonly string[];
  readonly auditAnnotations: AuditAnnotations;
  /** The changes by policies and handlers, after the defaults of the CRD. */
  readonly patch: readonly PatchOperation[];
  /** The object as the API server would store it; undefined for denials and DELETE. */
  readonly object: JsonObject | undefined;
}

export interface Identity {
  readonly apiVersion: string;
  readonly kind: string;
  readonly namespace?: string | undefined;
  readonly name: string;
}

export function describeIdentity({ kind, namespace, name }: Identity): string {
  return `${kind} ${objectKey({ namespace, name: name === '' ? '(no name)' : name })}`;
}

export type Recording = ReturnType<typeof createRecording>;

export const createRecording = () => ({
  policies: new Set<string>(),
  handlers: new Set<string>(),
  denials: [] as Pick<Extract<Decision, { kind: 'deny' }>, 'message' | 'code' | 'reason' | 'causes'>[],
  warnings: new Set<string>(),
  annotations: new Map<string, Set<string>>(),
  failures: [] as string[],
});

export function recordDecision({ denials, warnings, annotations }: Recording, decision: Decision): void {
  if (decision.kind === 'retry') {
    denials.push({ message: decision.message, code: 429, reason: 'TooManyRequests', causes: [] });
    return;
  }
  // The API server may call a webhook twice; the sets drop duplicates.
  for (const text of decision.warnings) warnings.add(text);
  for (const [key, value] of Object.entries(decision.auditAnnotations))
    annotations.set(key, (annotations.get(key) ?? new Set()).add(value));
  if (decision.kind === 'deny') denials.push(decision);
}

/** @param failure the error of the API server; undefined if it admits the object */
export function toReviewResult(
  { denials, failures, annotations, ...record }: Recording,
  failure: ApiFailure | undefined,
  before: ApiObject | undefined,
  result: Mutated | undefined,
): ReviewResult {
  const [policies, handlers] = [[...record.policies].sort(), [...record.handlers].sort()];
  const entries = [...annotations].map(([key, values]) => [key, [...values].join(', ')]);
  const auditAnnotations = Object.fromEntries(entries) as AuditAnnotations; // the entries are pairs of strings
  const warnings = [...record.warnings];
  if (failure === undefined) {
    const isChecked = policies.length + handlers.length > 0;
    const isWarned = warnings.length + failures.length > 0;
    return {
      policies,
      handlers,
      auditAnnotations,
      verdict: isWarned ? 'warned' : isChecked ? 'allowed' : 'unchecked',
      messages: [],
      refusal: undefined,
      causes: [],
      warnings: [...warnings, ...failures],
      patch: before === undefined || result === undefined ? [] : diff(toJson(before), toJson(result.mutated)),
      object: result === undefined ? undefined : toJson(result.prepared),
    };
  }
  const [first] = denials;
  const { code, reason = '', details } = failure.status;
  const byServer = first === undefined && failures.length === 0;
  const causes = byServer ? (details?.causes ?? []) : denials.flatMap((denial) => denial.causes);
  return {
    policies,
    handlers,
    auditAnnotations,
    warnings,
    verdict: 'denied',
    // All messages: the API server shows only the first. For a failed handler, its message does not contain the cause.
    messages: [...(byServer ? [failure.message] : denials.map(({ message }) => message)), ...failures],
    refusal: { code: first?.code ?? code, reason: first?.reason ?? reason },
    causes: causes.map(({ field = '', message }) => ({ field, message })),
    patch: [],
    object: undefined,
  };
}
