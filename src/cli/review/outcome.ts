/** What becomes of an object that is reviewed. */
import type { AuditAnnotations, Cause } from '../../admission/review/decision.ts';
import type { JsonObject } from '../../json/json.ts';
import type { PatchOperation } from '../../json/json-patch.ts';
import type { Operation } from '../../admission/review/request.ts';
import type { Place } from './documents.ts';

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
