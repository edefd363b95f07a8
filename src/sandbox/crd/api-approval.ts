import type { ApiObject } from '../api-object.ts';

const ANNOTATION = 'api-approved.kubernetes.io';
const REFERENCE = 'see https://github.com/kubernetes/enhancements/pull/1111';

/** Whether a group that belongs to the Kubernetes community may be used, as an annotation of the definition says. */
export interface ApiApproval {
  readonly state: 'approved' | 'bypassed' | 'missing' | 'invalid';
  readonly annotation: string;
  readonly reason: string;
}

export const APPROVAL_FIELD = `metadata.annotations[${ANNOTATION}]`;

/**
 * Undefined for groups that anyone may use.
 *
 * @see k8s.io/apiextensions-apiserver/pkg/apihelpers
 */
export function apiApprovalOf(crd: ApiObject, group: string): ApiApproval | undefined {
  if (!/(^|\.)(k8s|kubernetes)\.io$/.test(group)) return undefined;
  const annotation = crd.metadata.annotations?.[ANNOTATION] ?? '';
  const demand = `protected groups must have approval annotation "${ANNOTATION}"`;
  if (annotation === '') return { state: 'missing', annotation, reason: `${demand}, ${REFERENCE}` };
  if (annotation.startsWith('unapproved')) {
    return { state: 'bypassed', annotation, reason: `not approved: "${annotation}"` };
  }
  if (URL.canParse(annotation) && new URL(annotation).host !== '') {
    return { state: 'approved', annotation, reason: `approved in ${annotation}` };
  }
  const choice = 'with either a URL or a reason starting with "unapproved"';
  return { state: 'invalid', annotation, reason: `${demand} ${choice}, ${REFERENCE}` };
}
