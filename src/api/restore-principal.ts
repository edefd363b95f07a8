import { object, string, type TypeOf } from './schema.ts';

/** Who restores. */
export const principal = object('Who restores: exactly one of user and group.', {
  'user?': string('A user name, e.g. `system:serviceaccount:velero:velero`.', { minLength: 1 }),
  'group?': string('A group, e.g. `system:serviceaccounts:velero`.', { minLength: 1 }),
});

export type Principal = TypeOf<typeof principal>;
