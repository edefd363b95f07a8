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
  /** Otherwise, a policy that ignores failures may govern the kind. */
  readonly isAlways?: true;
  readonly because: string;
}

const NEVER_ASKED = 'and from Kubernetes 1.37 on, the API server never asks a webhook about them';

const PROTECTED: readonly Protected[] = [
  {
    group: GROUP,
    isAlways: true,
    because: 'a policy over the policies themselves could not be corrected any more',
  },
  {
    group: 'admissionregistration.k8s.io',
    isAlways: true,
    because:
      'the API server never asks a webhook about them, so the policy would seem to be in force and never be',
  },
  {
    group: 'coordination.k8s.io',
    resources: ['leases'],
    isAlways: true,
    because:
      'nodes and controllers renew leases every few seconds, and lose their work when an answer is late',
  },
  {
    group: '',
    resources: ['nodes', 'nodes/status'],
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
    because:
      'no node could get its certificate while Gatehouse is down, so there might be none to start it on',
  },
  {
    group: 'authentication.k8s.io',
    resources: ['tokenreviews', 'selfsubjectreviews'],
    isAlways: true,
    because: `the API could authenticate no user while Gatehouse is down, ${NEVER_ASKED}`,
  },
  {
    group: 'authorization.k8s.io',
    resources: [
      'subjectaccessreviews',
      'localsubjectaccessreviews',
      'selfsubjectaccessreviews',
      'selfsubjectrulesreviews',
    ],
    isAlways: true,
    because: `the API could authorise no user while Gatehouse is down, ${NEVER_ASKED}`,
  },
];

const STALE_TRAFFIC = 'Services would still send traffic to deleted pods while Gatehouse is down';

const PROTECTED_DELETIONS: readonly Protected[] = [
  ...PROTECTED,
  {
    group: '',
    resources: ['namespaces'],
    because:
      'no namespace could be deleted while Gatehouse is down, and its objects would remain half deleted',
  },
  {
    group: '',
    resources: ['pods'],
    because: 'no pod could be replaced while Gatehouse is down, not even one on whose network it depends',
  },
  { group: '', resources: ['endpoints'], because: STALE_TRAFFIC },
  { group: 'discovery.k8s.io', resources: ['endpointslices'], because: STALE_TRAFFIC },
];

const isRejected = ({ isAlways }: Protected, failurePolicy: CompiledMatch['failurePolicy']): boolean =>
  isAlways === true || failurePolicy === 'Fail';

/** Rejects policies that restrict deletions on which the cluster or Gatehouse depends. */
export function reportDeletionLockout(
  { group, resource }: GroupResource,
  failurePolicy: CompiledMatch['failurePolicy'],
  where: string,
  report: Report,
): void {
  for (const kind of PROTECTED_DELETIONS) {
    if (kind.group !== group || kind.resources?.includes(resource) === false) continue;
    if (!isRejected(kind, failurePolicy)) continue;
    const instead = kind.isAlways === true ? 'write Allow' : 'write Allow, or failurePolicy: Ignore';
    const name = groupResourceName({ group, resource });
    const message = `cannot apply to ${name}: ${kind.because}; ${instead}`;
    report(where, message, 'LockoutScope');
  }
}

/** Rejects scopes that could lock out the cluster, through a policy or because Gatehouse is down. */
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
  for (const kind of PROTECTED) {
    if (!apiGroups.includes(kind.group) || !isRejected(kind, failurePolicy)) continue;
    const touching = resources.filter(
      (pattern) => kind.resources?.some((resource) => covers(pattern, resource)) ?? true,
    );
    if (touching.length === 0) continue;
    const covered = kind.resources?.[0] ?? 'its resources';
    const instead = `name other resources${kind.isAlways === true ? '' : ', or write failurePolicy: Ignore'}`;
    const message = `"${touching.join('", "')}" in the API group "${kind.group}" covers ${covered}: ${kind.because}; ${instead}`;
    report('spec.match.resources', message, 'LockoutScope');
  }
}
