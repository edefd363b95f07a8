/** What RestoreDetectors and RestoreWindows keep out of a restore. */
import { array, object, oneOf, string, type TypeOf } from './schema.ts';

export const RBAC_GROUP = 'rbac.authorization.k8s.io';
const ADMISSION = 'admissionregistration.k8s.io';

export const DANGERS = [
  'Permissions',
  'AdmissionObjects',
  'CustomResourceDefinitions',
  'APIServices',
] as const;
export type Danger = (typeof DANGERS)[number];

const kinds = (group: string, ...resources: readonly string[]) => ({ group, resources });

/** The kinds that the API server lets a webhook or policy judge. */
export const GUARDED_KINDS: Readonly<Record<Danger, ReturnType<typeof kinds>>> = {
  Permissions: kinds(RBAC_GROUP, 'roles', 'clusterroles', 'rolebindings', 'clusterrolebindings'),
  AdmissionObjects: kinds(ADMISSION, 'mutatingwebhookconfigurations', 'validatingwebhookconfigurations'),
  CustomResourceDefinitions: kinds('apiextensions.k8s.io', 'customresourcedefinitions'),
  APIServices: kinds('apiregistration.k8s.io', 'apiservices'),
};

/** The API server calls no webhook for them, and evaluates no policy that it stores. */
export const UNGUARDED_KINDS = kinds(
  ADMISSION,
  'validatingadmissionpolicies',
  'validatingadmissionpolicybindings',
  'mutatingadmissionpolicies',
  'mutatingadmissionpolicybindings',
);

export const GUARD_ADVICE = 'exclude it from the restore, or let an administrator apply it';

export const MOST_GROUPS = 256;

export const restoreGuard = object(
  'What the restorers must not create or change, regardless of their permissions, and, except for roles and bindings, must ' +
    'not delete. Updates that change only metadata are allowed.',
  {
    refuse: array(
      'Permissions: roles and bindings that grant more than `rightsOf` has. AdmissionObjects: webhook configurations; the API ' +
        'server cannot refuse ValidatingAdmissionPolicies and MutatingAdmissionPolicies, so only the rehearsal reports them. ' +
        'CustomResourceDefinitions, APIServices: all.',
      oneOf('A group of kinds.', DANGERS),
      { minItems: 1, maxItems: DANGERS.length },
    ),
    'rightsOf?': object(
      'The user whose permissions limit the roles and bindings of the restore. Absent: the user that opens the window. A ' +
        'RestoreDetector without it refuses all new and changed roles and bindings.',
      {
        user: string('A user name.', { minLength: 1 }),
        'groups?': array('The groups of the user.', string('A group.', { minLength: 1 }), {
          maxItems: MOST_GROUPS,
        }),
      },
    ),
  },
);

export type RestoreGuard = TypeOf<typeof restoreGuard>;
