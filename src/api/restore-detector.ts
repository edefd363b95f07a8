import { conditionsSchema } from './conditions.ts';
import { principal } from './principals.ts';
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
  phasePath: path('Where the object says how far it is, e.g. `status.phase`.'),
  activeValues: values('While one of them stands there, objects are being written.'),
  'settlingValues?': values('The restore goes on, but writes no objects of the backup any more.'),
  'terminalValues?': values('The restore is over. Absent: at any value that is not named.'),
  'startPath?': path('Where the time of its start stands (RFC 3339). Absent: its creation.'),
  'progress?': object('Where the progress stands. When all is written, a first sweep is made.', {
    donePath: path('How many objects are written.'),
    totalPath: path('How many there are.'),
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
  principals: array('Who restores. Only their requests are deferred.', principal, {
    minItems: 1,
    maxItems: 32,
  }),
  'operations?': array(
    'Which of their requests are deferred.',
    oneOf('An operation.', ['CREATE', 'UPDATE', 'DELETE']),
    { default: ['CREATE', 'UPDATE'], maxItems: 3 },
  ),
  'scope?': object('How far a restore reaches.', {
    'mode?': oneOf(
      'Which objects may be deferred: all, or those of the namespace of the source (or the one at targetNamespacePath).',
      ['Cluster', 'SourceNamespace'],
      { default: 'Cluster' },
    ),
    'targetNamespacePath?': path('Where the source names the namespace into which it restores.'),
  }),
  'window?': object('The RestoreWindows that come of it.', {
    'maxDuration?': duration('After that deferral ends, whatever the source says.', '6h'),
    'settle?': duration(
      'How long after the end admitted writes may still arrive. Absent: what --restore-settle says.',
    ),
    'idle?': duration('After so long without a deferred request a first sweep is made.', '30s'),
  }),
});

const status = object('Written by Gatehouse.', {
  'conditions?': conditionsSchema(
    '`Ready` (a namespace is trusted, the spec can be used), `Watching` (the kind is served and its objects are followed)',
  ),
  'active?': integer('Restores under way.', { minimum: 0 }),
});

/** The schema of a RestoreDetector without `apiVersion`, `kind` and `metadata`. */
export const restoreDetectorSchema = object(
  'Which backup tool restores here, how it tells so, in which namespace it is trusted, and as whom it writes.',
  { spec, 'status?': status },
);

export type RestoreDetector = KubeObjectOf<typeof restoreDetectorSchema>;
