import type { PatchOperation } from '../../json/json-patch.ts';

/** Why a field is refused, in the words of the API (`CauseType` of meta/v1). */
export type CauseType =
  | 'FieldValueNotFound'
  | 'FieldValueRequired'
  | 'FieldValueDuplicate'
  | 'FieldValueInvalid'
  | 'FieldValueNotSupported'
  | 'FieldValueForbidden'
  | 'FieldValueTooLong'
  | 'FieldValueTypeInvalid';

/** For programs: `kubectl` shows the message of the denial alone. */
export interface Cause {
  /** e.g. `spec.disks[1].class` */
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
  'exceptions',
  'expression-errors',
] as const;

/** By a name as `isSimpleName` has it: the API server puts the name of the webhook in front of it. */
export type AuditAnnotations = Readonly<Record<string, string>>;

/** What Gatehouse says about a request. */
export type Decision =
  | {
      readonly kind: 'allow';
      /** Empty: the object stays as it is. */
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
      /** Has clients of the API ask again by themselves, a few times. Absent: the answer would be the same. */
      readonly retryAfterSeconds?: number;
      readonly warnings: readonly string[];
      readonly auditAnnotations: AuditAnnotations;
    }
  /** Gatehouse cannot tell at the moment; clients of the API wait and ask again by themselves. */
  | {
      readonly kind: 'retry';
      readonly message: string;
      readonly afterSeconds: number;
      /** For the log; it never leaves the service. */
      readonly cause?: unknown;
    };

export const ALLOWED = {
  kind: 'allow',
  patch: [],
  warnings: [],
  auditAnnotations: {},
} as const satisfies Decision;
