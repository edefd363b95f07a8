import { EXCLUDE_FROM_BACKUP_LABEL, GROUP } from '../../api/group.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import type { Principal } from '../../api/restore-principal.ts';
import { principalExpression } from './webhook.ts';
import type { Operation } from '../review/request.ts';

export const OWN_KINDS_POLICY_NAME = 'gatehouse-restorers';

/** A ValidatingAdmissionPolicy and its binding (admissionregistration.k8s.io/v1, from Kubernetes 1.30). */
export interface OwnKindsPolicy {
  readonly policy: KubeObject & { readonly spec: object };
  readonly binding: KubeObject & { readonly spec: object };
}

const KINDS = [
  'admissionpolicies',
  'conversionpolicies',
  'restoredetectors',
  'restorereports',
  'restorewindows',
  'uniqueclaims',
];

/** An own window may be ended sooner by whoever restores in it. */
const ENDS_WINDOW =
  "request.resource.resource == 'restorewindows' && request.operation == 'UPDATE' && " +
  'object.spec.principals == oldObject.spec.principals && ' +
  'timestamp(object.spec.expiresAt) <= timestamp(oldObject.spec.expiresAt)';

/**
 * What keeps restorers from Gatehouse's own kinds also while Gatehouse is down: the API server judges by itself. Every field that it
 * would default is written out, so that a comparison with the live objects finds no difference.
 *
 * @param restorers at least one
 */
export function ownKindsPolicy(restorers: readonly Principal[]): OwnKindsPolicy {
  const labels = { 'app.kubernetes.io/managed-by': 'gatehouse', [EXCLUDE_FROM_BACKUP_LABEL]: 'true' };
  const metadata = { name: OWN_KINDS_POLICY_NAME, labels };
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
              resources: KINDS,
              scope: '*',
            },
          ],
        },
        validations: [
          {
            expression: `!(${principalExpression(restorers)}) || (${ENDS_WINDOW})`,
            message:
              'whoever restores may not write the kinds of gatehouse.dev: they are left out of restores by design. ' +
              `Leave them out of the backup: label them ${EXCLUDE_FROM_BACKUP_LABEL}=true`,
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

/** The webhook entries for Gatehouse's own kinds, which are there whatever the policies. */
/** Fails closed: without Gatehouse nobody opens a window, and nobody needs one then. */
export const WINDOW_ENTRY = 'own-opening';
/** Fails open: policies have to be mended, and all of this be uninstalled, while Gatehouse is down. */
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
    entryId: WINDOW_ENTRY,
    phase: 'validate',
    failurePolicy: 'Fail',
    rules: [{ operations: ['CREATE', 'UPDATE'], resources: ['restoredetectors', 'restorewindows'] }],
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
      { operations: ['DELETE'], resources: ['restoredetectors', 'restorewindows'] },
    ],
  },
];

export const isOwnEntry = (entry: string): boolean => entry === WINDOW_ENTRY || entry === STATE_ENTRY;
