import { EXCLUDE_FROM_BACKUP_LABEL, GROUP } from '../../api/group.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import type { Principal } from '../../api/restore-principal.ts';
import { isAmongExpression } from './restorer-entries.ts';

export const GUARD_POLICY_NAME = 'gatehouse-restorers';

/** A ValidatingAdmissionPolicy and its binding (admissionregistration.k8s.io/v1, from Kubernetes 1.30). */
export interface GuardPolicy {
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
export function guardPolicy(restorers: readonly Principal[]): GuardPolicy {
  const labels = { 'app.kubernetes.io/managed-by': 'gatehouse', [EXCLUDE_FROM_BACKUP_LABEL]: 'true' };
  const metadata = { name: GUARD_POLICY_NAME, labels };
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
            expression: `!(${isAmongExpression(restorers)}) || (${ENDS_WINDOW})`,
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
      spec: { policyName: GUARD_POLICY_NAME, validationActions: ['Deny'] },
    },
  };
}
