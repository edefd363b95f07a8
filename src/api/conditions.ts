import { integer, mapList, object, oneOf, optional, string } from './schema.ts';

/** `status.conditions` as the API conventions want it. */
export const conditionsSchema = (types: string) =>
  mapList(
    object(
      {
        type: string({ description: 'What this condition speaks of.', maxLength: 316 }),
        status: oneOf(['True', 'False', 'Unknown'], { description: 'Whether it holds.' }),
        observedGeneration: optional(
          integer({
            description: 'The generation of the object that was judged.',
            format: 'int64',
            minimum: 0,
          }),
        ),
        lastTransitionTime: string({ description: 'When `status` last changed.', format: 'date-time' }),
        reason: string({ description: 'Why, in one CamelCase word.', maxLength: 1024 }),
        message: string({
          description: 'Why, for people: what is wrong, where, and what to do.',
          maxLength: 32768,
        }),
      },
      { description: 'One condition.' },
    ),
    ['type'],
    { description: `The state of this object: ${types}.` },
  );
