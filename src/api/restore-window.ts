import { conditionsSchema } from './conditions.ts';
import { relinkItem, violation } from './restore-findings.ts';
import { restoreWindowSpec } from './restore-window-spec.ts';
import {
  array,
  boolean,
  countMap,
  integer,
  object,
  oneOf,
  string,
  type KubeObjectOf,
  type TypeOf,
} from './schema.ts';

export type { Violation } from './restore-findings.ts';
export type { RestoreWindowSpec } from './restore-window-spec.ts';

const total = (description: string) => integer(description, { format: 'int64', minimum: 0 });

const lastSweep = object('The last complete sweep.', {
  startedAt: string('Start.', { format: 'date-time' }),
  finishedAt: string('End.', { format: 'date-time' }),
  objectsScanned: integer('Number of objects read.', { format: 'int64' }),
  interim: boolean('True if admitted writes could still be stored after this sweep.'),
});

const currentSweep = object('The sweep in progress, if it takes long. Updated every few seconds.', {
  startedAt: string('Start.', { format: 'date-time' }),
  objectsScanned: total('Number of objects read so far.'),
  'objectsTotal?': total(
    'Approximate number of objects to read; absent if the API server does not report it.',
  ),
  resource: string('The resource being read, e.g. `servers.infra.example.com`.'),
});

const relink = object('Owner references linked after the restore.', {
  found: total('Recorded owner references that the restore lost.'),
  linked: total('Number that sweeps have linked.'),
  skipped: total('Number that sweeps have skipped; items has the reasons.'),
  failed: total('Number that could not be written.'),
  'items?': array('The first 50 owner references that were not linked.', relinkItem, { maxItems: 50 }),
});

const status = object('Written by Gatehouse.', {
  'phase?': oneOf(
    'The phase of the restore: Open, Settling (closed; admitted writes may still be stored), then the result. Refused: ' +
      'the window never opened.',
    ['Open', 'Settling', 'Completed', 'CompletedWithViolations', 'Refused'],
  ),
  'openedAt?': string('When Gatehouse first saw the window.', { format: 'date-time' }),
  'closedAt?': string('When the window closed.', { format: 'date-time' }),
  'closeReason?': oneOf('Why the window closed.', ['Manual', 'Expired', 'SourceInactive', 'SourceDeleted']),
  'sourcePhase?': string('The last phase of the source.'),
  'currentSweep?': currentSweep,
  'lastSweep?': lastSweep,
  'violations?': object('Violations that still exist.', {
    total: total('Number of violations.'),
    'byPolicy?': countMap('Number of violations by policy.'),
    items: array('The first 50; RestoreReports list the rest.', violation, { maxItems: 50 }),
  }),
  'relink?': relink,
  'conditions?': conditionsSchema(
    '`Open`, `SourceActive`, `Expired`, `SweepComplete` (every governed kind could be read), `IntegrityVerified` (no ' +
      'violation is left), `OwnersRelinked`',
  ),
});

/** The schema of a RestoreWindow without `apiVersion`, `kind` and `metadata`. */
export const restoreWindowSchema = object(
  'One restore: the restorers, the end of deferral, and the result of the sweep.',
  { spec: restoreWindowSpec, 'status?': status },
);

export type RestoreWindowStatus = TypeOf<typeof status>;
export type RestoreWindow = KubeObjectOf<typeof restoreWindowSchema>;
