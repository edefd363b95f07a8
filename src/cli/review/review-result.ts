/** What becomes of an object that is reviewed. */
import type { Cause, AuditAnnotations } from '../../admission/review/decision.ts';
import type { JsonObject } from '../../json/json.ts';
import type { PatchOperation } from '../../json/json-patch.ts';
import type { Operation } from '../../admission/review/request.ts';
import type { Place } from './documents.ts';
import { diff } from '../../json/json-diff.ts';
import { toJson, type ApiObject } from '../../sandbox/machinery/api-object.ts';
import type { ApiFailure } from '../../sandbox/machinery/failure.ts';
import type { Mutated } from './api-server.ts';
import type { Said } from './recorder.ts';

/** `warned`: let in, and somebody would be told something. `unchecked`: let in, because nothing is asked about it. */
export type Verdict = 'allowed' | 'warned' | 'denied' | 'unchecked';

export interface Outcome {
  readonly verdict: Verdict;
  /** The policies that were asked, by name. */
  readonly policies: readonly string[];
  readonly handlers: readonly string[];
  /** Of a denial: everything that is wrong; empty otherwise. */
  readonly messages: readonly string[];
  /** Of a denial. */
  readonly refusal: { readonly code: number; readonly reason: string } | undefined;
  readonly causes: readonly Pick<Cause, 'field' | 'message'>[];
  readonly warnings: readonly string[];
  readonly auditAnnotations: AuditAnnotations;
  /** What admission changes of the object, after it has the defaults of its definition. */
  readonly patch: readonly PatchOperation[];
  /** The object as it would be stored; undefined when it is refused, and on DELETE. */
  readonly object: JsonObject | undefined;
}

/** An object, what was asked about it and what came of it. */
export interface Reviewed {
  readonly identity: Identity;
  readonly place: Place | undefined;
  readonly operation: Operation;
  readonly outcome: Outcome;
}

export interface Identity {
  readonly apiVersion: string;
  readonly kind: string;
  readonly namespace?: string;
  /** Empty where it has none yet. */
  readonly name: string;
}

/** e.g. `Server shop/db` */
export function describeIdentity({ kind, namespace, name }: Identity): string {
  return `${kind} ${namespace === undefined ? '' : `${namespace}/`}${name === '' ? '(no name)' : name}`;
}

/**
 * What all that was said about an object comes to.
 *
 * @param failure what the API server refused it with; undefined when it did not
 */
export function outcomeOf(
  said: Said,
  failure: ApiFailure | undefined,
  change: { readonly before: ApiObject | undefined; readonly result: Mutated | undefined },
): Outcome {
  return failure === undefined ? acceptance(said, change) : refusal(said, failure);
}

function acceptance(
  { policies, handlers, auditAnnotations, ...said }: Said,
  { before, result }: { readonly before: ApiObject | undefined; readonly result: Mutated | undefined },
): Outcome {
  const warnings = [...said.warnings, ...said.failures];
  const asked = policies.length + handlers.length > 0;
  return {
    verdict: warnings.length > 0 ? 'warned' : asked ? 'allowed' : 'unchecked',
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
  { policies, handlers, auditAnnotations, warnings, denials, failures }: Said,
  failure: ApiFailure,
): Outcome {
  const [first] = denials;
  const { code, reason = '', details } = failure.status;
  const byServer = first === undefined && failures.length === 0;
  return {
    verdict: 'denied',
    policies,
    handlers,
    // All of them; the API server shows its user the first alone. What it says of a handler that failed does not say why.
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
