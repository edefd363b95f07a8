import { object, string, type TypeOf } from './schema.ts';

export const principal = object('A restorer: exactly one of user and group.', {
  'user?': string('A user name, e.g. `system:serviceaccount:velero:velero`.', { minLength: 1 }),
  'group?': string('A group, e.g. `system:serviceaccounts:velero`.', { minLength: 1 }),
});

export type Principal = TypeOf<typeof principal>;

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
  return group !== undefined && !isEverybody({ group }) && requester.groups.includes(group);
}

/** Kubernetes reserves these prefixes for its own groups: all users, all nodes, administrators, and so on. */
export const RESERVED_GROUP_PREFIXES = ['system:', 'kubeadm:'] as const;
/** Not reserved: the service accounts of one namespace, e.g. `system:serviceaccounts:velero`. */
export const ACCOUNTS_OF = 'system:serviceaccounts:';
/** Never one restorer, as a user or as a group. The last one contains the controllers of Kubernetes. */
export const EVERYBODY: readonly string[] = [
  '*',
  'system:anonymous',
  'system:authenticated',
  `${ACCOUNTS_OF}kube-system`,
];

/** Whether the principal is not one restorer: a window for it would disable the checks, or lock administrators out. */
export function isEverybody({ user, group = '' }: Principal): boolean {
  if (EVERYBODY.includes(user ?? group)) return true;
  return !group.startsWith(ACCOUNTS_OF) && RESERVED_GROUP_PREFIXES.some((prefix) => group.startsWith(prefix));
}

/** The problems of principals that their schema cannot express. @param where the field, e.g. `spec.principals` */
export function principalProblems(principals: readonly Principal[], where: string): readonly string[] {
  return principals.flatMap((principal, index) => {
    const { user, group } = principal;
    const place = `${where}[${index}]`;
    if ((user === undefined) === (group === undefined)) return [`${place}: give either user or group`];
    const name = user ?? group ?? '';
    return isEverybody(principal)
      ? [`${place}: ${name} is not one restorer; name the user or the service accounts that restore`]
      : [];
  });
}
