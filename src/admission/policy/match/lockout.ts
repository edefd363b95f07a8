import { GROUP } from '../../../api/group.ts';
import { groupResourceName, type GroupResource } from '../../../json/kube-object.ts';
import type { CompiledMatch } from '../compiled-policy.ts';
import { NAMESPACE_NAME_LABEL } from '../../../json/label-selector.ts';
import type { Problem } from '../problem.ts';
import { covers } from './resource-pattern.ts';

/** A kind that the cluster needs to heal itself, or that users need to repair Gatehouse. */
interface Protected {
  readonly group: string;
  /** Undefined: all resources of the group. */
  readonly resources: readonly string[] | undefined;
  /** `Fail`: rejected only with that failurePolicy; a policy that ignores failures may govern the kind. */
  readonly refused: 'always' | 'Fail';
  readonly because: string;
}

const PROTECTED: readonly Protected[] = [
  {
    group: GROUP,
    resources: undefined,
    refused: 'always',
    because: 'a policy over the policies themselves could not be corrected any more',
  },
  {
    group: 'admissionregistration.k8s.io',
    resources: undefined,
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

/** Rejects policies that restrict deletions on which the cluster or Gatehouse depends. */
export function deletionLockoutProblems(
  { group, resource }: GroupResource,
  failurePolicy: CompiledMatch['failurePolicy'],
  where: string,
): readonly Problem[] {
  return PROTECTED_DELETIONS.filter(
    (shielded) =>
      shielded.group === group &&
      (shielded.resources === undefined || shielded.resources.includes(resource)) &&
      (shielded.refused === 'always' || failurePolicy === 'Fail'),
  ).flatMap(({ refused, because }) => {
    const instead = refused === 'Fail' ? 'write Allow, or failurePolicy: Ignore' : 'write Allow';
    const name = groupResourceName({ group, resource });
    return lockout(where, `the deletion of ${name} cannot be restricted: ${because}; ${instead}`);
  });
}

/**
 * Rejects scopes that could lock out the cluster or Gatehouse, either through a policy or because Gatehouse is down.
 */
export function scopeLockoutProblems(match: CompiledMatch, ownNamespace: string): readonly Problem[] {
  return [...guardGroups(match), ...guardResources(match), ...guardNamespaces(match, ownNamespace)];
}

function guardGroups({ apiGroups }: CompiledMatch): readonly Problem[] {
  return apiGroups.flatMap((group) =>
    group.includes('*')
      ? lockout(
          'spec.match.apiGroups',
          `"${group}" also covers what the cluster needs to heal itself, such as leases and nodes: list the groups that the policy is about`,
        )
      : [],
  );
}

function guardResources({ apiGroups, resources, failurePolicy }: CompiledMatch): readonly Problem[] {
  return PROTECTED.filter(
    ({ group, refused }) => apiGroups.includes(group) && (refused === 'always' || failurePolicy === 'Fail'),
  ).flatMap(({ group, resources: shielded, refused, because }) => {
    const touching = resources.filter(
      (pattern) => shielded === undefined || shielded.some((resource) => covers(pattern, resource)),
    );
    if (touching.length === 0) return [];
    const instead =
      refused === 'Fail' ? 'name other resources, or write failurePolicy: Ignore' : 'name other resources';
    const covered = shielded === undefined ? 'its resources' : shielded[0];
    return lockout(
      'spec.match.resources',
      `"${touching.join('", "')}" in the API group "${group}" covers ${covered ?? ''}: ${because}; ${instead}`,
    );
  });
}

function guardNamespaces({ namespaceSelector }: CompiledMatch, ownNamespace: string): readonly Problem[] {
  const labelled = namespaceSelector.matchLabels?.[NAMESPACE_NAME_LABEL] === ownNamespace;
  const listed = (namespaceSelector.matchExpressions ?? []).some(
    ({ key, operator, values }) =>
      key === NAMESPACE_NAME_LABEL && operator === 'In' && values?.includes(ownNamespace),
  );
  if (!labelled && !listed) return [];
  return lockout(
    'spec.match.namespaceSelector',
    `selects ${ownNamespace}, in which Gatehouse itself runs and which no policy governs: otherwise it could not be started again once it is down; select other namespaces`,
  );
}

function lockout(where: string, message: string): readonly Problem[] {
  return [{ reason: 'LockoutScope', where, message }];
}
