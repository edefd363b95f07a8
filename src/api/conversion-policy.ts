import { conditionsSchema } from './conditions.ts';
import {
  FIELD_PATH,
  anyObject,
  anything,
  array,
  integer,
  mapList,
  object,
  oneOf,
  string,
  type KubeObjectOf,
  type TypeOf,
} from './schema.ts';

const path = (what: string) => string(`${what} ${FIELD_PATH}`, { minLength: 1 });

const EXPRESSION =
  'CEL over `object`, as the steps before have left it. In a path with `[*]`, `item` is the element of the list. ' +
  'Null or an optional without value: the field is left as it is.';

const when = string(
  'CEL that yields a bool, over the same; the step does nothing unless it holds, e.g. `has(object.spec.host)`.',
  { minLength: 1 },
);

const step = object(
  'One step: exactly one of its fields.',
  {
    'move?': object('Moves or renames a field.', {
      from: path('The field to take; nothing happens where it is absent.'),
      to: path('Where to put it. Missing parents are made.'),
    }),
    'default?': object('Fills a field that is absent.', {
      path: path('The field to fill where it is absent.'),
      'value?': anything('The value it gets. Write this or `expression`.'),
      'expression?': string(EXPRESSION, { minLength: 1 }),
      'when?': when,
    }),
    'set?': object('Writes what an expression yields.', {
      path: path('The field to write, whatever it held. Missing parents are made.'),
      expression: string(EXPRESSION, { minLength: 1 }),
      'when?': when,
    }),
    'remove?': object('Removes a field.', { path: path('The field to remove.') }),
  },
  { minProperties: 1, maxProperties: 1 },
);

const steps = (description: string) => array(description, step, { maxItems: 256 });

const versionName = (description: string) =>
  string(description, { minLength: 1, maxLength: 63, pattern: '^[a-z]([-a-z0-9]*[a-z0-9])?$' });

const version = object('How objects of one version become objects of the hub, and back.', {
  name: versionName('A version of the CustomResourceDefinition other than the hub.'),
  'toHub?': steps(
    'What makes an object of this version one of the hub, in order. Absent: the inverse of `fromHub`.',
  ),
  'fromHub?': steps(
    'The way back, in order. Absent: the inverse of `toHub`, which then holds no `set` and no `remove`.',
  ),
});

const spec = object('The steps.', {
  target: object('The CustomResourceDefinition whose objects are converted.', {
    apiGroup: string('The API group of the CustomResourceDefinition.', { minLength: 1 }),
    resource: string('Its plural, e.g. `servers`.', { minLength: 1 }),
  }),
  hub: versionName('The version through which all others are converted: the one that can hold most.'),
  versions: mapList('Every other version that is served or stored.', 'name', version, { maxItems: 64 }),
  'roundTrip?': oneOf(
    'What becomes of values that the version asked for cannot hold: they are kept in an annotation ' +
      '`conversion.gatehouse.dev/<version>` and put back on the way back (Preserve), or dropped (Lossy).',
    ['Preserve', 'Lossy'],
    { default: 'Preserve' },
  ),
});

const status = object('Written by Gatehouse.', {
  'conditions?': conditionsSchema(
    '`Ready` (it compiles and converts), `Installed` (the CustomResourceDefinition asks Gatehouse)',
  ),
  'inForce?': object('The version that converts. It stays when a newer one does not compile.', {
    generation: integer('The generation of the policy that converts.', { format: 'int64' }),
    spec: anyObject<object>('Its steps: what replicas run while a newer generation does not compile.'),
  }),
});

/** The schema of a ConversionPolicy without `apiVersion`, `kind` and `metadata`. */
export const conversionPolicySchema = object(
  'How objects of a CustomResourceDefinition are converted between its versions.',
  { spec, 'status?': status },
);

export type ConversionPolicySpec = TypeOf<typeof spec>;
export type ConversionPolicyStatus = TypeOf<typeof status>;
export type VersionSteps = TypeOf<typeof version>;
export type ConversionStep = TypeOf<typeof step>;
export type ConversionPolicy = KubeObjectOf<typeof conversionPolicySchema>;
