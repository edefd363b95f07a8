import { object, optional, string, type TypeOf } from './schema.ts';

/** Who restores. */
export const principal = object(
  {
    user: optional(
      string({ description: 'A user name, e.g. `system:serviceaccount:velero:velero`.', minLength: 1 }),
    ),
    group: optional(string({ description: 'A group, e.g. `system:serviceaccounts:velero`.', minLength: 1 })),
  },
  { description: 'Who restores: exactly one of user and group.' },
);

export type Principal = TypeOf<typeof principal>;
