import type { PatchOperation } from './json-patch.ts';

/** Why a field is refused, in the words of the API (`CauseType` of meta/v1). */
export type CauseType = 'FieldValueNotFound' | 'FieldValueInvalid' | 'FieldValueForbidden';

/** For programs: `kubectl` shows the message of the denial alone. */
export interface Cause {
  /** e.g. `spec.disks[1].class` */
  readonly field: string;
  readonly reason: CauseType;
  readonly message: string;
}

/** The name of an audit annotation: the API server puts the name of the webhook in front of it. */
type AuditKey = 'violations' | 'unchecked' | 'deferred' | 'restore-window';
export type AuditAnnotations = Readonly<Partial<Record<AuditKey, string>>>;

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
