import { integer, mapList, object, oneOf, string } from './schema.ts';

/** `status.conditions` as the API conventions want it. */
export const conditionsSchema = (types: string) =>
  mapList(
    `The state of this object: ${types}.`,
    'type',
    object('One condition.', {
      type: string('What this condition speaks of.', { maxLength: 316 }),
      status: oneOf('Whether it holds.', ['True', 'False', 'Unknown']),
      'observedGeneration?': integer('The generation of the object that was judged.', {
        format: 'int64',
        minimum: 0,
      }),
      lastTransitionTime: string('When `status` last changed.', { format: 'date-time' }),
      reason: string('Why, in one CamelCase word.', { maxLength: 1024 }),
      message: string('Why, for people: what is wrong, where, and what to do.', { maxLength: 32768 }),
    }),
  );
