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

const lastSweep = object('The last complete scan.', {
  startedAt: string('Start.', { format: 'date-time' }),
  finishedAt: string('End.', { format: 'date-time' }),
  objectsScanned: integer('How many objects were read.', { format: 'int64' }),
  interim: boolean('True while writes under way may still arrive after the sweep.'),
});

const currentSweep = object('The scan that is going on, if it takes long. Written every few seconds.', {
  startedAt: string('Start.', { format: 'date-time' }),
  objectsScanned: total('How many objects were read so far.'),
  'objectsTotal?': total('How many there are to read, about; absent where the API server does not say.'),
  resource: string('What is being read, e.g. `servers.infra.example.com`.'),
});

const relink = object('Owner references that were linked again.', {
  found: total('Owner references that were recorded and lost.'),
  linked: total('Linked again, by sweeps.'),
  skipped: total('Left alone, with a reason in the items.'),
  failed: total('Could not be written.'),
  'items?': array('The first 50 that were not linked.', relinkItem, { maxItems: 50 }),
});

const status = object('Written by Gatehouse.', {
  'phase?': oneOf(
    'Where the restore stands: Open, Settling (closed; writes under way may still arrive), then the result. Refused: the ' +
      'window never opened.',
    ['Open', 'Settling', 'Completed', 'CompletedWithViolations', 'Refused'],
  ),
  'openedAt?': string('When Gatehouse first saw the window.', { format: 'date-time' }),
  'closedAt?': string('When it ended.', { format: 'date-time' }),
  'closeReason?': oneOf('Why it ended.', ['Manual', 'Expired', 'SourceInactive', 'SourceDeleted']),
  'sourcePhase?': string('What the source said last.'),
  'currentSweep?': currentSweep,
  'lastSweep?': lastSweep,
  'violations?': object('What the sweep found and still holds.', {
    total: total('How many there are.'),
    'byPolicy?': countMap('How many of each policy.'),
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
  'One restore: who restores, until when, and what the sweep afterwards found.',
  { spec: restoreWindowSpec, 'status?': status },
);

export type RestoreWindowStatus = TypeOf<typeof status>;
export type RestoreWindow = KubeObjectOf<typeof restoreWindowSchema>;
