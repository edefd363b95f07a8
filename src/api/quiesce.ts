/** What Gatehouse pauses while a backup is restored, in RestoreDetectors and RestoreWindows. */
import { anything, array, object, string, textMap, type TypeOf } from './schema.ts';

const quiesceRule = object('Objects to pause.', {
  apiGroup: string('The API group; empty for the core group.'),
  resource: string('The plural, e.g. `deployments`.', { minLength: 1 }),
  'namespaces?': array(
    'The namespaces of the objects. Absent: all that the window covers.',
    string('A namespace.', { minLength: 1 }),
    { maxItems: 64 },
  ),
  matchLabels: textMap('The labels of the objects. At least one.', { maxProperties: 16 }),
  'path?': string('The field to set, in spec, e.g. `spec.paused`. Default: `spec.replicas`.', {
    minLength: 1,
    maxLength: 512,
  }),
  'value?': anything('The value while the window is open: a Boolean, a number or a string. Default: 0.'),
});

export const quiesce = array(
  'What to pause while the window is open, in this order. Gatehouse restores the previous values after the last sweep, in reverse order.',
  quiesceRule,
  { maxItems: 16 },
);

export type QuiesceRule = TypeOf<typeof quiesceRule>;
