import { object, string, type TypeOf } from './schema.ts';

/** Who restores. */
export const principal = object('A restorer: exactly one of user and group.', {
  'user?': string('A user name, e.g. `system:serviceaccount:velero:velero`.', { minLength: 1 }),
  'group?': string('A group, e.g. `system:serviceaccounts:velero`.', { minLength: 1 }),
});

export type Principal = TypeOf<typeof principal>;

/** The part of an admission request's `userInfo` that identifies the user. */
export interface Requester {
  readonly username: string;
  readonly groups: readonly string[];
}

/** Labels of objects and user agents never count: any user can set them. */
export function isPrincipal(principals: readonly Principal[], requester: Requester): boolean {
  return principals.some((principal) => matchesPrincipal(principal, requester));
}

/** Exactly one of user and group counts; a principal with both or neither matches no user. */
function matchesPrincipal({ user, group }: Principal, requester: Requester): boolean {
  if (user !== undefined && group !== undefined) return false;
  if (user !== undefined) return user === requester.username;
  return group !== undefined && !BROAD_GROUPS.has(group) && requester.groups.includes(group);
}

/** Groups of all users, service accounts or administrators: a window for them would disable the checks. */
export const BROAD_GROUPS: ReadonlySet<string> = new Set([
  'system:authenticated',
  'system:unauthenticated',
  'system:serviceaccounts',
  'system:masters',
  '*',
]);

/** The problems of principals that their schema cannot express. @param where the field, e.g. `spec.principals` */
export function principalProblems(principals: readonly Principal[], where: string): readonly string[] {
  return principals.flatMap(({ user, group }, index) => {
    const place = `${where}[${index}]`;
    if ((user === undefined) === (group === undefined)) return [`${place}: give either user or group`];
    const name = user ?? group ?? '';
    return BROAD_GROUPS.has(name)
      ? [`${place}: ${name} is not one restorer but everybody; name the one that restores`]
      : [];
  });
}
