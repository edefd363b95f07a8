/** The result of the review of one object. */
import type { Cause, AuditAnnotations } from '../../admission/review/decision.ts';
import type { JsonObject } from '../../json/json.ts';
import type { PatchOperation } from '../../json/json-patch.ts';
import type { Operation } from '../../admission/review/request.ts';
import type { Place } from './documents.ts';
import { diff } from '../../json/json-diff.ts';
import { toJson, type ApiObject } from '../../sandbox/machinery/api-object.ts';
import type { ApiFailure } from '../../sandbox/machinery/failure.ts';
import type { Mutated } from './api-server.ts';
import type { Recorded } from './recorder.ts';

/** `warned`: admitted with warnings. `unchecked`: admitted because no policy and no handler applies. */
export type Verdict = 'allowed' | 'warned' | 'denied' | 'unchecked';

export interface ReviewResult {
  readonly verdict: Verdict;
  /** The names of the policies that apply. */
  readonly policies: readonly string[];
  readonly handlers: readonly string[];
  /** All messages of a denial; otherwise empty. */
  readonly messages: readonly string[];
  /** The status of a denial. */
  readonly refusal: { readonly code: number; readonly reason: string } | undefined;
  readonly causes: readonly Pick<Cause, 'field' | 'message'>[];
  readonly warnings: readonly string[];
  readonly auditAnnotations: AuditAnnotations;
  /** The changes by policies and handlers, after the defaults of the CRD. */
  readonly patch: readonly PatchOperation[];
  /** The object as the API server would store it; undefined for denials and DELETE. */
  readonly object: JsonObject | undefined;
}

export interface ReviewedObject {
  readonly identity: Identity;
  readonly place: Place | undefined;
  readonly operation: Operation;
  readonly result: ReviewResult;
}

export interface Identity {
  readonly apiVersion: string;
  readonly kind: string;
  readonly namespace?: string;
  /** Empty for an object without a name. */
  readonly name: string;
}

/** e.g. `Server shop/db` */
export function describeIdentity({ kind, namespace, name }: Identity): string {
  return `${kind} ${namespace === undefined ? '' : `${namespace}/`}${name === '' ? '(no name)' : name}`;
}

/**
 * Combines the recorded decisions about an object.
 *
 * @param failure the error of the API server; undefined if it admits the object
 */
export function toReviewResult(
  recorded: Recorded,
  failure: ApiFailure | undefined,
  change: { readonly before: ApiObject | undefined; readonly result: Mutated | undefined },
): ReviewResult {
  return failure === undefined ? acceptance(recorded, change) : refusal(recorded, failure);
}

function acceptance(
  { policies, handlers, auditAnnotations, ...recorded }: Recorded,
  { before, result }: { readonly before: ApiObject | undefined; readonly result: Mutated | undefined },
): ReviewResult {
  const warnings = [...recorded.warnings, ...recorded.failures];
  const isChecked = policies.length + handlers.length > 0;
  return {
    verdict: warnings.length > 0 ? 'warned' : isChecked ? 'allowed' : 'unchecked',
    policies,
    handlers,
    messages: [],
    refusal: undefined,
    causes: [],
    warnings,
    auditAnnotations,
    patch: before === undefined || result === undefined ? [] : diff(toJson(before), toJson(result.mutated)),
    object: result === undefined ? undefined : toJson(result.prepared),
  };
}

function refusal(
  { policies, handlers, auditAnnotations, warnings, denials, failures }: Recorded,
  failure: ApiFailure,
): ReviewResult {
  const [first] = denials;
  const { code, reason = '', details } = failure.status;
  const byServer = first === undefined && failures.length === 0;
  return {
    verdict: 'denied',
    policies,
    handlers,
    // All messages: the API server shows only the first. For a failed handler, its message does not contain the cause.
    messages: [...(byServer ? [failure.message] : denials.map(({ message }) => message)), ...failures],
    refusal: { code: first?.code ?? code, reason: first?.reason ?? reason },
    causes: byServer
      ? (details?.causes ?? []).map(({ field = '', message }) => ({ field, message }))
      : denials.flatMap(({ causes }) => causes.map(({ field, message }) => ({ field, message }))),
    warnings,
    auditAnnotations,
    patch: [],
    object: undefined,
  };
}
