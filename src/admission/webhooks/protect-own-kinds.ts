import { EXCLUDE_FROM_BACKUP_LABEL, GROUP, OWN_LABELS } from '../../api/group.ts';
import { accountsIn, CONTROLLERS_ACCOUNT, WEBHOOK_ACCOUNT } from '../../api/own-accounts.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import type { Principal } from '../../api/principals.ts';
import type { MatchCondition } from '../policy/compiled-policy.ts';
import { principalExpression } from './webhook.ts';
import type { Operation } from '../review/request.ts';

export const OWN_KINDS_POLICY_NAME = 'gatehouse-restorers';

export interface OwnKindsPolicy {
  readonly policy: KubeObject & { readonly spec: object };
  readonly binding: KubeObject & { readonly spec: object };
}

const WITH_STATUS = ['admissionpolicies', 'conversionpolicies', 'restoredetectors', 'restorewindows'];
const STATUSES = WITH_STATUS.map((resource) => `${resource}/status`);
const RESOURCES = [...WITH_STATUS, 'restorereports', 'uniqueclaims', ...STATUSES];

/** Only Gatehouse writes a status, regardless of the restorer's permissions. The API server omits an empty subresource. */
const IS_OBJECT = "!has(request.subResource) || request.subResource == ''";

/** A restorer may end its own window earlier. */
const ENDS_WINDOW =
  "request.resource.resource == 'restorewindows' && request.operation == 'UPDATE' && " +
  'object.spec.principals == oldObject.spec.principals && ' +
  'timestamp(object.spec.expiresAt) <= timestamp(oldObject.spec.expiresAt)';

/** Users who may open windows for the whole cluster are never locked out. Backup tools, which run as service accounts, are. */
const IS_ADMINISTRATOR =
  "!request.userInfo.username.startsWith('system:serviceaccount:') && " +
  `authorizer.group('${GROUP}').resource('restorewindows').check('open').allowed()`;

/** The API server evaluates the policy, so it also applies while Gatehouse is down. @param restorers at least one */
export function ownKindsPolicy(restorers: readonly Principal[]): OwnKindsPolicy {
  const metadata = { name: OWN_KINDS_POLICY_NAME, labels: OWN_LABELS };
  return {
    policy: {
      apiVersion: 'admissionregistration.k8s.io/v1',
      kind: 'ValidatingAdmissionPolicy',
      metadata,
      spec: {
        failurePolicy: 'Fail',
        matchConstraints: {
          matchPolicy: 'Equivalent',
          namespaceSelector: {},
          objectSelector: {},
          resourceRules: [
            {
              apiGroups: [GROUP],
              apiVersions: ['*'],
              operations: ['CREATE', 'UPDATE', 'DELETE'],
              resources: RESOURCES,
              scope: '*',
            },
          ],
        },
        validations: [
          {
            expression: `!(${principalExpression(restorers)}) || ((${IS_OBJECT}) && ((${ENDS_WINDOW}) || (${IS_ADMINISTRATOR})))`,
            message:
              'a restorer may not write objects of gatehouse.dev: restores leave them out by design. ' +
              `Exclude them from the backup: label them ${EXCLUDE_FROM_BACKUP_LABEL}=true`,
            reason: 'Forbidden',
          },
        ],
      },
    },
    binding: {
      apiVersion: 'admissionregistration.k8s.io/v1',
      kind: 'ValidatingAdmissionPolicyBinding',
      metadata,
      spec: { policyName: OWN_KINDS_POLICY_NAME, validationActions: ['Deny'] },
    },
  };
}

/** Fails closed: while Gatehouse is down, windows can neither be opened nor have an effect. */
export const WINDOW_ENTRY = 'own-opening';
/** Fails open: users must be able to correct policies, and to uninstall Gatehouse, while it is down. */
export const STATE_ENTRY = 'own-state';

export interface OwnKindEntry {
  readonly entryId: string;
  readonly phase: 'mutate' | 'validate';
  readonly failurePolicy: 'Fail' | 'Ignore';
  readonly rules: readonly {
    readonly operations: readonly Operation[];
    readonly resources: readonly string[];
  }[];
}

export const OWN_KIND_ENTRIES: readonly OwnKindEntry[] = [
  {
    entryId: WINDOW_ENTRY,
    phase: 'mutate',
    failurePolicy: 'Fail',
    rules: [{ operations: ['CREATE', 'UPDATE'], resources: ['restorewindows'] }],
  },
  {
    entryId: STATE_ENTRY,
    phase: 'mutate',
    failurePolicy: 'Ignore',
    rules: [{ operations: ['CREATE', 'UPDATE'], resources: ['admissionpolicies'] }],
  },
  {
    entryId: WINDOW_ENTRY,
    phase: 'validate',
    failurePolicy: 'Fail',
    rules: [
      { operations: ['CREATE', 'UPDATE'], resources: ['restoredetectors', 'restorewindows'] },
      { operations: ['UPDATE'], resources: ['restorewindows/status'] },
    ],
  },
  {
    entryId: STATE_ENTRY,
    phase: 'validate',
    failurePolicy: 'Ignore',
    rules: [
      {
        operations: ['CREATE', 'UPDATE', 'DELETE'],
        resources: ['admissionpolicies', 'conversionpolicies', 'restorereports', 'uniqueclaims'],
      },
      { operations: ['CREATE', 'UPDATE'], resources: ['policyexceptions'] },
      { operations: ['DELETE'], resources: ['restoredetectors', 'restorewindows'] },
      { operations: ['UPDATE'], resources: STATUSES.filter((name) => name !== 'restorewindows/status') },
    ],
  },
];

/** Without it, each claim that Gatehouse writes during a review would cause another review. */
export function notOwnClaims(ownNamespace: string): MatchCondition {
  const users = [WEBHOOK_ACCOUNT, CONTROLLERS_ACCOUNT].map((name) => accountsIn(ownNamespace) + name);
  return {
    name: 'not-own-claims',
    expression: `request.resource.resource != 'uniqueclaims' || !(request.userInfo.username in ${JSON.stringify(users)})`,
  };
}

export const isOwnEntry = (entry: string): boolean => entry === WINDOW_ENTRY || entry === STATE_ENTRY;
