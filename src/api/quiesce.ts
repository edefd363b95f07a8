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
  'matchLabels?': textMap('The labels of the objects. Absent: all objects of the kind.', {
    maxProperties: 16,
  }),
  'path?': string(
    'What to set: a field of spec such as `spec.paused`, an annotation such as `metadata.annotations["example.com/paused"]`, or a label. Default: `spec.replicas`.',
    { minLength: 1, maxLength: 512 },
  ),
  'value?': anything(
    'The value while the window is open, e.g. true, "disabled" or ["Observe"]. A list or an object replaces the whole value. Default: 0.',
  ),
});

export const quiesce = array(
  'What to pause while the window is open, in this order. Gatehouse restores the previous values after the last sweep, in reverse order.',
  quiesceRule,
  { maxItems: 16 },
);

export type QuiesceRule = TypeOf<typeof quiesceRule>;
