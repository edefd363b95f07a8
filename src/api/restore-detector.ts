import { conditionsSchema, NOT_OBSERVED, observedGeneration } from './conditions.ts';
import { principal } from './principals.ts';
import { quiesce } from './quiesce.ts';
import { restoreGuard } from './restore-guard.ts';
import { array, integer, object, oneOf, string, type KubeObjectOf } from './schema.ts';

const values = (description: string) =>
  array(description, string('A value at `phasePath`.'), { maxItems: 32 });

const path = (description: string) => string(description, { minLength: 1, maxLength: 512 });

const duration = (description: string, byDefault?: string) =>
  string(`${description} A Go duration, e.g. 6h or 1m30s.`, {
    pattern: '^([0-9]+(h|m|s))+$',
    ...(byDefault === undefined ? {} : { default: byDefault }),
  });

const spec = object('How to detect that a backup tool restores.', {
  watch: object('The kind whose objects announce a restore. It need not be installed yet.', {
    apiGroup: string('The API group.', { minLength: 1 }),
    version: string('The version.', { minLength: 1 }),
    resource: string('The plural, e.g. `restores`.', { minLength: 1 }),
  }),
  namespaces: array(
    'Trusted namespaces. Gatehouse ignores objects in other namespaces. Empty: the detector is disabled. `*` only with scope SourceNamespace.',
    string('A namespace, or `*`.', { minLength: 1 }),
    { maxItems: 64 },
  ),
  phasePath: path('Path of the phase in the object, e.g. `status.phase`.'),
  activeValues: values('The restore writes objects while the phase has one of these values.'),
  'settlingValues?': values('The restore still runs, but has finished writing the objects of the backup.'),
  'terminalValues?': values('The restore is over. Absent: any other value.'),
  'startPath?': path('Path of the start time (RFC 3339). Absent: the creation time.'),
  'progress?': object('The progress of the restore. A first sweep starts when all objects are written.', {
    donePath: path('Path of the number of written objects.'),
    totalPath: path('Path of the total number of objects.'),
  }),
  'namespaceMappingPath?': path(
    'Path of an object that maps namespaces of the backup to the namespaces into which they are restored. Its values are strings.',
  ),
  'attributionLabel?': object(
    'A label that the tool sets on restored objects. Used only in reports, because any user can set it.',
    {
      key: string('e.g. `velero.io/restore-name`.', { minLength: 1 }),
      'value?': oneOf(
        'The value of the label: the name of the source, or the name that Velero shortens to 63 characters.',
        ['Name', 'VeleroName'],
        { default: 'Name' },
      ),
    },
  ),
  principals: array('The restorers. Only their requests are deferred.', principal, {
    minItems: 1,
    maxItems: 32,
  }),
  'operations?': array(
    'The operations whose checks are deferred.',
    oneOf('An operation.', ['CREATE', 'UPDATE', 'DELETE']),
    { default: ['CREATE', 'UPDATE'], maxItems: 3 },
  ),
  'scope?': object('The scope of a restore.', {
    'mode?': oneOf(
      'The objects whose checks may be deferred: all, or those in the namespace of the source (or in the one at targetNamespacePath).',
      ['Cluster', 'SourceNamespace'],
      { default: 'Cluster' },
    ),
    'targetNamespacePath?': path('Path of the target namespace in the source object.'),
  }),
  'quiesce?': quiesce,
  'guard?': restoreGuard,
  'window?': object('Settings of the RestoreWindows that this detector opens.', {
    'maxDuration?': duration('Deferral ends after this time, even if the source is still active.', '6h'),
    'settle?': duration(
      'How long after the end admitted writes may still be stored. Default: the flag --restore-settle.',
    ),
    'idle?': duration('A first sweep starts after this time without a deferred request.', '30s'),
  }),
});

const status = object(
  'Written by Gatehouse.',
  {
    'observedGeneration?': observedGeneration,
    'conditions?': conditionsSchema(
      '`Ready` (the spec is valid, and Gatehouse can read the kind), `Reconciling` (not ready; Gatehouse retries automatically), `Stalled` (not ready; a user must act), `Watching` (the kind is served, and Gatehouse watches its objects)',
    ),
    'active?': integer('Number of restores in progress.', { minimum: 0 }),
  },
  NOT_OBSERVED,
);

export const restoreDetectorSchema = object(
  'How to detect restores of a backup tool: the objects that announce them, the trusted namespaces, and the accounts that write.',
  { spec, 'status?': status },
);

export type RestoreDetector = KubeObjectOf<typeof restoreDetectorSchema>;
