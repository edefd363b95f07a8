import { GROUP } from '../../../api/group.ts';
import { groupResourceName, type GroupResource } from '../../../json/kube-object.ts';
import type { CompiledMatch } from '../compiled-policy.ts';
import { NAMESPACE_NAME_LABEL } from '../../../json/label-selector.ts';
import type { Report } from '../problem.ts';
import { covers } from './resource-pattern.ts';

/** A kind that the cluster needs to heal itself, or that users need to repair Gatehouse. */
interface Protected {
  readonly group: string;
  /** Absent: all resources of the group. */
  readonly resources?: readonly string[];
  /** `Fail`: rejected only with that failurePolicy; a policy that ignores failures may govern the kind. */
  readonly refused: 'always' | 'Fail';
  readonly because: string;
}

const PROTECTED: readonly Protected[] = [
  {
    group: GROUP,
    refused: 'always',
    because: 'a policy over the policies themselves could not be corrected any more',
  },
  {
    group: 'admissionregistration.k8s.io',
    refused: 'always',
    because:
      'the API server never asks a webhook about them, so the policy would seem to be in force and never be',
  },
  {
    group: 'coordination.k8s.io',
    resources: ['leases'],
    refused: 'always',
    because:
      'nodes and controllers renew leases every few seconds, and lose their work when an answer is late',
  },
  {
    group: '',
    resources: ['nodes', 'nodes/status'],
    refused: 'Fail',
    because:
      'no node could join or report itself while Gatehouse is down, so there might be none to start it on',
  },
  {
    group: 'certificates.k8s.io',
    resources: [
      'certificatesigningrequests',
      'certificatesigningrequests/approval',
      'certificatesigningrequests/status',
    ],
    refused: 'Fail',
    because:
      'no node could get its certificate while Gatehouse is down, so there might be none to start it on',
  },
  {
    group: 'authentication.k8s.io',
    resources: ['tokenreviews', 'selfsubjectreviews'],
    refused: 'Fail',
    because: 'the API could authenticate no user while Gatehouse is down',
  },
  {
    group: 'authorization.k8s.io',
    resources: [
      'subjectaccessreviews',
      'localsubjectaccessreviews',
      'selfsubjectaccessreviews',
      'selfsubjectrulesreviews',
    ],
    refused: 'Fail',
    because: 'the API could authorise no user while Gatehouse is down',
  },
];

/** Deletions that the cluster needs to heal itself, in addition to those of the protected kinds. */
const PROTECTED_DELETIONS: readonly Protected[] = [
  ...PROTECTED,
  {
    group: '',
    resources: ['namespaces'],
    refused: 'Fail',
    because:
      'no namespace could be deleted while Gatehouse is down, and what is in it would stay half deleted',
  },
  {
    group: '',
    resources: ['pods'],
    refused: 'Fail',
    because: 'no pod could be replaced while Gatehouse is down, not even one on whose network it depends',
  },
  {
    group: '',
    resources: ['endpoints'],
    refused: 'Fail',
    because: 'traffic would go on to what is no longer there while Gatehouse is down',
  },
  {
    group: 'discovery.k8s.io',
    resources: ['endpointslices'],
    refused: 'Fail',
    because: 'traffic would go on to what is no longer there while Gatehouse is down',
  },
];

const isRefused = ({ refused }: Protected, failurePolicy: CompiledMatch['failurePolicy']): boolean =>
  refused === 'always' || failurePolicy === 'Fail';

/** Rejects policies that restrict deletions on which the cluster or Gatehouse depends. */
export function reportDeletionLockout(
  { group, resource }: GroupResource,
  failurePolicy: CompiledMatch['failurePolicy'],
  where: string,
  report: Report,
): void {
  for (const shielded of PROTECTED_DELETIONS) {
    if (shielded.group !== group || shielded.resources?.includes(resource) === false) continue;
    if (!isRefused(shielded, failurePolicy)) continue;
    const instead = shielded.refused === 'Fail' ? 'write Allow, or failurePolicy: Ignore' : 'write Allow';
    const name = groupResourceName({ group, resource });
    const message = `the deletion of ${name} cannot be restricted: ${shielded.because}; ${instead}`;
    report(where, message, 'LockoutScope');
  }
}

/**
 * Rejects scopes that could lock out the cluster or Gatehouse, either through a policy or because Gatehouse is down.
 */
export function reportScopeLockout(match: CompiledMatch, ownNamespace: string, report: Report): void {
  for (const group of match.apiGroups.filter((name) => name.includes('*'))) {
    const message = `"${group}" also covers what the cluster needs to heal itself, such as leases and nodes: list the groups that the policy is about`;
    report('spec.match.apiGroups', message, 'LockoutScope');
  }
  reportProtectedResources(match, report);
  const { matchLabels = {}, matchExpressions = [] } = match.namespaceSelector;
  const isSelected =
    matchLabels[NAMESPACE_NAME_LABEL] === ownNamespace ||
    matchExpressions.some(
      ({ key, operator, values }) =>
        key === NAMESPACE_NAME_LABEL && operator === 'In' && values?.includes(ownNamespace),
    );
  if (!isSelected) return;
  const message = `selects ${ownNamespace}, in which Gatehouse itself runs and which no policy governs: otherwise it could not be started again once it is down; select other namespaces`;
  report('spec.match.namespaceSelector', message, 'LockoutScope');
}

function reportProtectedResources(
  { apiGroups, resources, failurePolicy }: CompiledMatch,
  report: Report,
): void {
  for (const shielded of PROTECTED) {
    if (!apiGroups.includes(shielded.group) || !isRefused(shielded, failurePolicy)) continue;
    const touching = resources.filter(
      (pattern) => shielded.resources?.some((resource) => covers(pattern, resource)) ?? true,
    );
    if (touching.length === 0) continue;
    const covered = shielded.resources?.[0] ?? 'its resources';
    const instead = `name other resources${shielded.refused === 'Fail' ? ', or write failurePolicy: Ignore' : ''}`;
    const message = `"${touching.join('", "')}" in the API group "${shielded.group}" covers ${covered}: ${shielded.because}; ${instead}`;
    report('spec.match.resources', message, 'LockoutScope');
  }
}
