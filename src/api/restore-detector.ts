import type { KubeObject, ObjectMeta } from '../json/kube-object.ts';
import { conditionsSchema } from './conditions.ts';
import { principal } from './restore-principal.ts';
import { array, integer, object, oneOf, optional, string, type TypeOf } from './schema.ts';

const values = (description: string) =>
  array(string({ description: 'A value at `phasePath`.' }), { description, maxItems: 32 });

const path = (description: string) => string({ description, minLength: 1, maxLength: 512 });

const duration = (description: string, byDefault?: string) =>
  string({
    description: `${description} As Go writes durations, e.g. 6h or 1m30s.`,
    pattern: '^([0-9]+(h|m|s))+$',
    ...(byDefault === undefined ? {} : { default: byDefault }),
  });

const spec = object(
  {
    watch: object(
      {
        apiGroup: string({ description: 'The API group.', minLength: 1 }),
        version: string({ description: 'The version.', minLength: 1 }),
        resource: string({ description: 'The plural, e.g. `restores`.', minLength: 1 }),
      },
      { description: 'The kind whose objects say that a restore is going on. It need not be installed yet.' },
    ),
    namespaces: array(string({ description: 'A namespace, or `*`.', minLength: 1 }), {
      description:
        'Trusted namespaces: objects anywhere else open nothing. Empty: the detector is disabled. `*` only with scope SourceNamespace.',
      maxItems: 64,
    }),
    phasePath: path('Where the object says how far it is, e.g. `status.phase`.'),
    activeValues: values('While one of them stands there, objects are being written.'),
    settlingValues: optional(values('The restore goes on, but writes no objects of the backup any more.')),
    terminalValues: optional(values('The restore is over. Absent: at any value that is not named.')),
    startPath: optional(path('Where the time of its start stands (RFC 3339). Absent: its creation.')),
    progress: optional(
      object(
        {
          donePath: path('How many objects are written.'),
          totalPath: path('How many there are.'),
        },
        { description: 'Where the progress stands. When all is written, a first sweep is made.' },
      ),
    ),
    namespaceMappingPath: optional(
      path('Where the object says which namespace becomes which other one: an object of texts.'),
    ),
    attributionLabel: optional(
      object(
        {
          key: string({ description: 'e.g. `velero.io/restore-name`.', minLength: 1 }),
          value: optional(
            oneOf(['Name', 'VeleroName'], {
              description:
                'What the label holds: the name of the source, or that name as Velero shortens it to 63 characters.',
              default: 'Name',
            }),
          ),
        },
        {
          description:
            'A label that the tool puts on what it restores. Only for reports: anybody can set it.',
        },
      ),
    ),
    principals: array(principal, {
      description: 'Who restores. Only their requests are deferred.',
      minItems: 1,
      maxItems: 32,
    }),
    operations: optional(
      array(oneOf(['CREATE', 'UPDATE', 'DELETE'], { description: 'An operation.' }), {
        description: 'Which of their requests are deferred.',
        default: ['CREATE', 'UPDATE'],
        maxItems: 3,
      }),
    ),
    scope: optional(
      object(
        {
          mode: optional(
            oneOf(['Cluster', 'SourceNamespace'], {
              description:
                'Which objects may be deferred: all, or those of the namespace of the source (or the one at targetNamespacePath).',
              default: 'Cluster',
            }),
          ),
          targetNamespacePath: optional(path('Where the source names the namespace into which it restores.')),
        },
        { description: 'How far a restore reaches.' },
      ),
    ),
    window: optional(
      object(
        {
          maxDuration: optional(duration('After that deferral ends, whatever the source says.', '6h')),
          settle: optional(
            duration(
              'How long after the end admitted writes may still arrive. Absent: what --restore-settle says.',
            ),
          ),
          idle: optional(duration('After so long without a deferred request a first sweep is made.', '30s')),
        },
        { description: 'The RestoreWindows that come of it.' },
      ),
    ),
  },
  { description: 'How to tell that a backup tool restores.' },
);

const status = object(
  {
    conditions: optional(
      conditionsSchema(
        '`Ready` (a namespace is trusted, the spec can be used), `Watching` (the kind is served and its objects are followed)',
      ),
    ),
    active: optional(integer({ description: 'Restores under way.', minimum: 0 })),
  },
  { description: 'Written by Gatehouse.' },
);

/** The schema of a RestoreDetector without `apiVersion`, `kind` and `metadata`. */
export const restoreDetectorSchema = object(
  { spec, status: optional(status) },
  {
    description:
      'Which backup tool restores here, how it tells so, in which namespace it is trusted, and as whom it writes.',
  },
);

export type RestoreDetectorSpec = TypeOf<typeof spec>;
export type RestoreDetectorStatus = TypeOf<typeof status>;

export interface RestoreDetector extends KubeObject {
  readonly metadata: ObjectMeta;
  readonly spec: RestoreDetectorSpec;
  readonly status?: RestoreDetectorStatus;
}
