import type { PatchOperation } from '../../json/json-patch.ts';

/** Why a field is denied, as a `CauseType` of meta/v1. */
export type CauseType =
  | 'FieldValueNotFound'
  | 'FieldValueRequired'
  | 'FieldValueDuplicate'
  | 'FieldValueInvalid'
  | 'FieldValueNotSupported'
  | 'FieldValueForbidden'
  | 'FieldValueTooLong'
  | 'FieldValueTypeInvalid';

/** A machine-readable reason: `kubectl` shows only the message of the denial. */
export interface Cause {
  readonly field: string;
  readonly reason: CauseType;
  readonly message: string;
}

/** The audit annotations that Gatehouse writes itself; policies choose other keys. */
export const RESERVED_AUDIT_KEYS = [
  'violations',
  'unchecked',
  'deferred',
  'restore-window',
  'skipped',
  'existing-violations',
  'exceptions',
  'expression-errors',
] as const;

/** Keys satisfy `isSimpleName`: the API server prefixes them with the name of the webhook. */
export type AuditAnnotations = Readonly<Record<string, string>>;

export type Decision =
  | {
      readonly kind: 'allow';
      /** Empty: the object does not change. */
      readonly patch: readonly PatchOperation[];
      readonly warnings: readonly string[];
      readonly auditAnnotations: AuditAnnotations;
    }
  | {
      readonly kind: 'deny';
      /** An HTTP status, at least 400. */
      readonly code: number;
      /** One CamelCase word, e.g. `Forbidden`. */
      readonly reason: string;
      readonly message: string;
      readonly causes: readonly Cause[];
      /** Makes API clients retry a few times. Absent: a retry would get the same answer. */
      readonly retryAfterSeconds?: number;
      readonly warnings: readonly string[];
      readonly auditAnnotations: AuditAnnotations;
    }
  /** Gatehouse cannot decide at the moment; API clients wait and retry. */
  | {
      readonly kind: 'retry';
      readonly message: string;
      /** For the log only. The response never contains it. */
      readonly cause?: unknown;
    };

export const RETRY_SECONDS = 1;

type Denial = Extract<Decision, { kind: 'deny' }>;

/** Not 422 Invalid: `kubectl apply --force` would delete the object and create it again, and the policy would refuse that. */
export const FORBIDDEN = { code: 403, reason: 'Forbidden' } as const;
export const INTERNAL_ERROR = { code: 500, reason: 'InternalError' } as const;
export const TRY_AGAIN = { code: 429, reason: 'TooManyRequests', retryAfterSeconds: RETRY_SECONDS } as const;

export const denied = (
  status: Pick<Denial, 'code' | 'reason' | 'retryAfterSeconds'>,
  message: string,
  causes: readonly Cause[] = [],
): Denial => ({ kind: 'deny', ...status, message, causes, warnings: [], auditAnnotations: {} });

export const ALLOWED = {
  kind: 'allow',
  patch: [],
  warnings: [],
  auditAnnotations: {},
} as const satisfies Decision;
