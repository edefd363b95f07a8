import { conditionsSchema, NOT_OBSERVED, observedGeneration } from './conditions.ts';
import * as t from './schema.ts';

const path = (what: string) => t.string(`${what} ${t.FIELD_PATH}`, { minLength: 1 });

const EXPRESSION =
  'CEL over `object` as the previous steps have left it. In a path with `[*]`, `item` is the element of the list. ' +
  'Null or an empty optional leaves the field unchanged.';

const when = t.string(
  'CEL over the same variables; the step runs only if it is true, e.g. `has(object.spec.host)`.',
  { minLength: 1 },
);

const step = t.object(
  'One step: exactly one of its fields.',
  {
    'move?': t.object('Moves or renames a field.', {
      from: path('The source field; if it is absent, nothing happens.'),
      to: path('The destination. Missing parents are created.'),
    }),
    'default?': t.object('Sets a field that is absent.', {
      path: path('The field to set if it is absent.'),
      'value?': t.anything('The value. Set either this or `expression`.'),
      'expression?': t.string(EXPRESSION, { minLength: 1 }),
      'when?': when,
    }),
    'set?': t.object('Sets a field to the result of an expression.', {
      path: path('The field to set; an existing value is replaced. Missing parents are created.'),
      expression: t.string(EXPRESSION, { minLength: 1 }),
      'when?': when,
    }),
    'remove?': t.object('Removes a field.', { path: path('The field to remove.') }),
  },
  { minProperties: 1, maxProperties: 1 },
);

const steps = (description: string) => t.array(description, step, { maxItems: 256 });

const versionName = (description: string) =>
  t.string(description, { minLength: 1, maxLength: 63, pattern: '^[a-z]([-a-z0-9]*[a-z0-9])?$' });

const version = t.object('Conversion between one version and the hub.', {
  name: versionName('A version of the CustomResourceDefinition other than the hub.'),
  'toHub?': steps('Steps from this version to the hub, in order. Default: the inverse of `fromHub`.'),
  'fromHub?': steps(
    'Steps from the hub to this version, in order. Default: the inverse of `toHub`, which must not contain `set` or `remove` then.',
  ),
});

const spec = t.object('The steps.', {
  target: t.object('The CustomResourceDefinition whose objects are converted.', {
    apiGroup: t.string('The API group of the CustomResourceDefinition.', { minLength: 1 }),
    resource: t.string('Its plural, e.g. `servers`.', { minLength: 1 }),
  }),
  hub: versionName('The version through which all others are converted: the one with the most information.'),
  versions: t.mapList('All other versions that are served or stored.', 'name', version, { maxItems: 64 }),
  'roundTrip?': t.oneOf(
    'How to treat values that the requested version cannot represent: preserve them in the annotation ' +
      '`conversion.gatehouse.dev/<version>` until the object is converted back (Preserve), or drop them (Lossy).',
    ['Preserve', 'Lossy'],
    { default: 'Preserve' },
  ),
});

const status = t.object(
  'Written by Gatehouse.',
  {
    'observedGeneration?': observedGeneration,
    'conditions?': conditionsSchema(
      '`Ready` (it compiles and converts), `Reconciling` (not ready; Gatehouse retries automatically), `Stalled` (not ready; a user must act), `Installed` (the CustomResourceDefinition uses Gatehouse)',
    ),
    'inForce?': t.object('The version in use. It remains in use if a newer version does not compile.', {
      generation: t.integer('The generation of the policy in use.', { format: 'int64' }),
      spec: t.anyObject<object>('Its spec, which replicas use while a newer generation does not compile.'),
    }),
  },
  NOT_OBSERVED,
);

export const conversionPolicySchema = t.object(
  'Conversion of the objects of a CustomResourceDefinition between its versions.',
  { spec, 'status?': status },
);

export type ConversionPolicySpec = t.TypeOf<typeof spec>;
export type ConversionPolicyStatus = t.TypeOf<typeof status>;
export type VersionSteps = t.TypeOf<typeof version>;
export type ConversionStep = t.TypeOf<typeof step>;
export type ConversionPolicy = t.KubeObjectOf<typeof conversionPolicySchema>;
