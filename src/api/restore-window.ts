import type { KubernetesObject, ObjectMeta } from './meta.ts';
import { conditionsSchema } from './conditions.ts';
import { apiGroup, array, boolean, integer, object, oneOf, optional, string, type TypeOf } from './schema.ts';

const principal = object(
  {
    user: optional(
      string({ description: 'A user name, e.g. `system:serviceaccount:velero:velero`.', minLength: 1 }),
    ),
    group: optional(string({ description: 'A group, e.g. `system:serviceaccounts:velero`.', minLength: 1 })),
  },
  { description: 'Who restores: exactly one of user and group.' },
);

const target = object(
  {
    group: apiGroup({ description: 'The API group; empty for the core group.' }),
    resource: string({ description: 'The plural.' }),
    namespace: optional(string({ description: 'Absent for cluster-scoped targets.' })),
    name: string({ description: 'The name.' }),
  },
  { description: 'What the field names.' },
);

const violation = object(
  {
    policy: string({ description: 'The AdmissionPolicy.' }),
    reference: string({ description: 'The reference of that policy.' }),
    object: object(
      {
        apiVersion: string({ description: 'Group and version.' }),
        kind: string({ description: 'Kind.' }),
        namespace: optional(string({ description: 'Absent for cluster-scoped objects.' })),
        name: string({ description: 'Name.' }),
        uid: optional(string({ description: 'Which life of that name.' })),
      },
      { description: 'The object that violates it.' },
    ),
    field: string({ description: 'The field, e.g. `spec.disks[1].class`.' }),
    reason: oneOf(['TargetMissing'], { description: 'What is wrong.' }),
    target,
  },
  { description: 'One violation.' },
);

const spec = object(
  {
    principals: array(principal, {
      description: 'Who restores. Only their requests are deferred; all others are enforced as ever.',
      minItems: 1,
      maxItems: 32,
    }),
    expiresAt: string({ description: 'When the window ends by itself. RFC 3339.', format: 'date-time' }),
    close: optional(
      boolean({ description: 'Ends the window now. Cannot be taken back: open a new one.', default: false }),
    ),
    reason: optional(
      string({ description: 'Why it was opened, for those who read the report.', maxLength: 1024 }),
    ),
  },
  { description: 'The restore.' },
);

const status = object(
  {
    phase: optional(
      oneOf(['Open', 'Settling', 'Completed', 'CompletedWithViolations'], {
        description:
          'Where the restore stands: Open, Settling (closed; writes under way may still arrive), then the result.',
      }),
    ),
    openedAt: optional(string({ description: 'When Gatehouse first saw the window.', format: 'date-time' })),
    closedAt: optional(string({ description: 'When it ended.', format: 'date-time' })),
    closeReason: optional(oneOf(['Manual', 'Expired'], { description: 'Why it ended.' })),
    lastSweep: optional(
      object(
        {
          startedAt: string({ description: 'Start.', format: 'date-time' }),
          finishedAt: string({ description: 'End.', format: 'date-time' }),
          objectsScanned: integer({ description: 'How many objects were read.', format: 'int64' }),
          interim: boolean({ description: 'True while writes under way may still arrive after the sweep.' }),
        },
        { description: 'The last complete scan.' },
      ),
    ),
    violations: optional(
      object(
        {
          total: integer({ description: 'How many there are.', format: 'int64' }),
          items: array(violation, { description: 'The first 50.', maxItems: 50 }),
        },
        { description: 'What the sweep found and still holds.' },
      ),
    ),
    conditions: optional(
      conditionsSchema(
        '`Open`, `SweepComplete` (every governed kind could be read), `IntegrityVerified` (no violation is left)',
      ),
    ),
  },
  { description: 'Written by Gatehouse.' },
);

/** The schema of a RestoreWindow without `apiVersion`, `kind` and `metadata`. */
export const restoreWindowSchema = object(
  { spec, status: optional(status) },
  { description: 'One restore: who restores, until when, and what the sweep afterwards found.' },
);

export type Principal = TypeOf<typeof principal>;
export type Violation = TypeOf<typeof violation>;
export type RestoreWindowSpec = TypeOf<typeof spec>;
export type RestoreWindowStatus = TypeOf<typeof status>;

export interface RestoreWindow extends KubernetesObject {
  readonly metadata: ObjectMeta;
  readonly spec: RestoreWindowSpec;
  readonly status?: RestoreWindowStatus;
}
