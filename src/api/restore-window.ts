import type { KubeObject, ObjectMeta } from '../json/kube-object.ts';
import { conditionsSchema } from './conditions.ts';
import { relinkItem, violation } from './restore-findings.ts';
import { restoreWindowSpec, type RestoreWindowSpec } from './restore-window-spec.ts';
import { array, boolean, countMap, integer, object, oneOf, optional, string, type TypeOf } from './schema.ts';

export type { Principal } from './restore-principal.ts';
export type { Violation } from './restore-findings.ts';
export type { RestoreWindowSpec } from './restore-window-spec.ts';

const total = (description: string) => integer({ description, format: 'int64', minimum: 0 });

const lastSweep = object(
  {
    startedAt: string({ description: 'Start.', format: 'date-time' }),
    finishedAt: string({ description: 'End.', format: 'date-time' }),
    objectsScanned: integer({ description: 'How many objects were read.', format: 'int64' }),
    interim: boolean({ description: 'True while writes under way may still arrive after the sweep.' }),
  },
  { description: 'The last complete scan.' },
);

const currentSweep = object(
  {
    startedAt: string({ description: 'Start.', format: 'date-time' }),
    objectsScanned: total('How many objects were read so far.'),
    objectsTotal: optional(
      total('How many there are to read, about; absent where the API server does not say.'),
    ),
    resource: string({ description: 'What is being read, e.g. `servers.infra.example.com`.' }),
  },
  { description: 'The scan that is going on, if it takes long. Written every few seconds.' },
);

const relink = object(
  {
    found: total('Owner references that were recorded and lost.'),
    linked: total('Linked again, by sweeps.'),
    skipped: total('Left alone, with a reason in the items.'),
    failed: total('Could not be written.'),
    items: optional(array(relinkItem, { description: 'The first 50 that were not linked.', maxItems: 50 })),
  },
  { description: 'Owner references that were linked again.' },
);

const status = object(
  {
    phase: optional(
      oneOf(['Open', 'Settling', 'Completed', 'CompletedWithViolations', 'Refused'], {
        description:
          'Where the restore stands: Open, Settling (closed; writes under way may still arrive), then the result. Refused: the ' +
          'window never opened.',
      }),
    ),
    openedAt: optional(string({ description: 'When Gatehouse first saw the window.', format: 'date-time' })),
    closedAt: optional(string({ description: 'When it ended.', format: 'date-time' })),
    closeReason: optional(
      oneOf(['Manual', 'Expired', 'SourceInactive', 'SourceDeleted'], { description: 'Why it ended.' }),
    ),
    sourcePhase: optional(string({ description: 'What the source said last.' })),
    currentSweep: optional(currentSweep),
    lastSweep: optional(lastSweep),
    violations: optional(
      object(
        {
          total: total('How many there are.'),
          byPolicy: optional(countMap({ description: 'How many of each policy.' })),
          items: array(violation, {
            description: 'The first 50; RestoreReports list the rest.',
            maxItems: 50,
          }),
        },
        { description: 'What the sweep found and still holds.' },
      ),
    ),
    relink: optional(relink),
    conditions: optional(
      conditionsSchema(
        '`Open`, `SourceActive`, `Expired`, `SweepComplete` (every governed kind could be read), `IntegrityVerified` (no ' +
          'violation is left), `OwnersRelinked`',
      ),
    ),
  },
  { description: 'Written by Gatehouse.' },
);

/** The schema of a RestoreWindow without `apiVersion`, `kind` and `metadata`. */
export const restoreWindowSchema = object(
  { spec: restoreWindowSpec, status: optional(status) },
  { description: 'One restore: who restores, until when, and what the sweep afterwards found.' },
);

export type RestoreWindowStatus = TypeOf<typeof status>;

export interface RestoreWindow extends KubeObject {
  readonly metadata: ObjectMeta;
  readonly spec: RestoreWindowSpec;
  readonly status?: RestoreWindowStatus;
}
