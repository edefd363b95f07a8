import { conditionsSchema, NOT_OBSERVED, observedGeneration } from './conditions.ts';
import { principal } from './principals.ts';
import { quiesce } from './quiesce.ts';
import { array, integer, object, oneOf, string, type KubeObjectOf } from './schema.ts';

const values = (description: string) =>
  array(description, string('A value at `phasePath`.'), { maxItems: 32 });

const path = (description: string) => string(description, { minLength: 1, maxLength: 512 });

const duration = (description: string, byDefault?: string) =>
  string(`${description} As Go writes durations, e.g. 6h or 1m30s.`, {
    pattern: '^([0-9]+(h|m|s))+$',
    ...(byDefault === undefined ? {} : { default: byDefault }),
  });

const spec = object('How to tell that a backup tool restores.', {
  watch: object('The kind whose objects say that a restore is going on. It need not be installed yet.', {
    apiGroup: string('The API group.', { minLength: 1 }),
    version: string('The version.', { minLength: 1 }),
    resource: string('The plural, e.g. `restores`.', { minLength: 1 }),
  }),
  namespaces: array(
    'Trusted namespaces: objects anywhere else open nothing. Empty: the detector is disabled. `*` only with scope SourceNamespace.',
    string('A namespace, or `*`.', { minLength: 1 }),
    { maxItems: 64 },
  ),
  phasePath: path('Path of the phase in the object, e.g. `status.phase`.'),
  activeValues: values('While one of them stands there, objects are being written.'),
  'settlingValues?': values('The restore goes on, but writes no objects of the backup any more.'),
  'terminalValues?': values('The restore is over. Absent: at any value that is not named.'),
  'startPath?': path('Where the time of its start stands (RFC 3339). Absent: its creation.'),
  'progress?': object('Where the progress stands. When all is written, a first sweep is made.', {
    donePath: path('How many objects are written.'),
    totalPath: path('Number of violations.'),
  }),
  'namespaceMappingPath?': path(
    'Where the object says which namespace becomes which other one: an object of texts.',
  ),
  'attributionLabel?': object(
    'A label that the tool puts on what it restores. Only for reports: anybody can set it.',
    {
      key: string('e.g. `velero.io/restore-name`.', { minLength: 1 }),
      'value?': oneOf(
        'What the label holds: the name of the source, or that name as Velero shortens it to 63 characters.',
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
      '`Ready` (the spec can be used, and its kind may be read), `Reconciling` (Gatehouse retries by itself) and `Stalled` (a user must act) while it is not, `Watching` (the kind is served and its objects are followed)',
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
