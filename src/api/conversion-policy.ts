import { conditionsSchema } from './conditions.ts';
import type { KubeObject, ObjectMeta } from '../json/kube-object.ts';
import { FIELD_PATH } from './policy-field.ts';
import {
  anyObject,
  anything,
  array,
  integer,
  mapList,
  object,
  oneOf,
  optional,
  string,
  type TypeOf,
} from './schema.ts';

const path = (what: string) => string({ description: `${what} ${FIELD_PATH}`, minLength: 1 });

const EXPRESSION =
  'CEL over `object`, as the steps before have left it. In a path with `[*]`, `item` is the element of the list. ' +
  'Null or an optional without value: the field is left as it is.';

const when = optional(
  string({
    description:
      'CEL that yields a bool, over the same; the step does nothing unless it holds, e.g. `has(object.spec.host)`.',
    minLength: 1,
  }),
);

const step = object(
  {
    move: optional(
      object(
        {
          from: path('The field to take; nothing happens where it is absent.'),
          to: path('Where to put it. Missing parents are made.'),
        },
        { description: 'Moves or renames a field.' },
      ),
    ),
    default: optional(
      object(
        {
          path: path('The field to fill where it is absent.'),
          value: optional(anything({ description: 'The value it gets. Write this or `expression`.' })),
          expression: optional(string({ description: EXPRESSION, minLength: 1 })),
          when,
        },
        { description: 'Fills a field that is absent.' },
      ),
    ),
    set: optional(
      object(
        {
          path: path('The field to write, whatever it held. Missing parents are made.'),
          expression: string({ description: EXPRESSION, minLength: 1 }),
          when,
        },
        { description: 'Writes what an expression yields.' },
      ),
    ),
    remove: optional(object({ path: path('The field to remove.') }, { description: 'Removes a field.' })),
  },
  { description: 'One step: exactly one of its fields.', minProperties: 1, maxProperties: 1 },
);

const steps = (description: string) => optional(array(step, { description, maxItems: 256 }));

const versionName = (description: string) =>
  string({ description, minLength: 1, maxLength: 63, pattern: '^[a-z]([-a-z0-9]*[a-z0-9])?$' });

const version = object(
  {
    name: versionName('A version of the CustomResourceDefinition other than the hub.'),
    toHub: steps(
      'What makes an object of this version one of the hub, in order. Absent: the inverse of `fromHub`.',
    ),
    fromHub: steps(
      'The way back, in order. Absent: the inverse of `toHub`, which then holds no `set` and no `remove`.',
    ),
  },
  { description: 'How objects of one version become objects of the hub, and back.' },
);

const spec = object(
  {
    target: object(
      {
        apiGroup: string({ description: 'The API group of the CustomResourceDefinition.', minLength: 1 }),
        resource: string({ description: 'Its plural, e.g. `servers`.', minLength: 1 }),
      },
      { description: 'The CustomResourceDefinition whose objects are converted.' },
    ),
    hub: versionName('The version through which all others are converted: the one that can hold most.'),
    versions: mapList(version, ['name'], {
      description: 'Every other version that is served or stored.',
      maxItems: 64,
    }),
    roundTrip: optional(
      oneOf(['Preserve', 'Lossy'], {
        description:
          'What becomes of values that the version asked for cannot hold: they are kept in an annotation ' +
          '`conversion.gatehouse.dev/<version>` and put back on the way back (Preserve), or dropped (Lossy).',
        default: 'Preserve',
      }),
    ),
  },
  { description: 'The steps.' },
);

const status = object(
  {
    conditions: optional(
      conditionsSchema(
        '`Ready` (it compiles and converts), `Installed` (the CustomResourceDefinition asks Gatehouse)',
      ),
    ),
    inForce: optional(
      object(
        {
          generation: integer({
            description: 'The generation of the policy that converts.',
            format: 'int64',
          }),
          spec: anyObject<object>({
            description: 'Its steps: what replicas run while a newer generation does not compile.',
          }),
        },
        { description: 'The version that converts. It stays when a newer one does not compile.' },
      ),
    ),
  },
  { description: 'Written by Gatehouse.' },
);

/** The schema of a ConversionPolicy without `apiVersion`, `kind` and `metadata`. */
export const conversionPolicySchema = object(
  { spec, status: optional(status) },
  { description: 'How objects of a CustomResourceDefinition are converted between its versions.' },
);

export type ConversionPolicySpec = TypeOf<typeof spec>;
export type ConversionPolicyStatus = TypeOf<typeof status>;
export type VersionSteps = TypeOf<typeof version>;
export type ConversionStep = TypeOf<typeof step>;

export interface ConversionPolicy extends KubeObject {
  readonly metadata: ObjectMeta;
  readonly spec: ConversionPolicySpec;
  readonly status?: ConversionPolicyStatus;
}
