import { integer, mapList, object, oneOf, string } from './schema.ts';

export const observedGeneration = integer(
  'The generation that the status describes; -1 until Gatehouse has processed the object.',
  { format: 'int64' },
);

/** Without this default, kstatus would treat an object without a status as current. */
export const NOT_OBSERVED = { default: { observedGeneration: -1 } } as const;

export const conditionsSchema = (types: string) =>
  mapList(
    `The state of this object: ${types}.`,
    'type',
    object('One condition.', {
      type: string('The type of the condition.', { maxLength: 316 }),
      status: oneOf('The status of the condition.', ['True', 'False', 'Unknown']),
      'observedGeneration?': integer('The generation of the object that the condition describes.', {
        format: 'int64',
        minimum: 0,
      }),
      lastTransitionTime: string('When `status` last changed.', { format: 'date-time' }),
      reason: string('The reason as one CamelCase word.', { maxLength: 1024 }),
      message: string('A message for users: what is wrong, where, and what to do.', { maxLength: 32768 }),
    }),
  );
