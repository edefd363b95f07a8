/** What the user can do about a window and its violations. */
import type { RelinkItem } from '../../api/restore-findings.ts';
import type { RestoreWindow, Violation } from '../../api/restore-window.ts';

export function adviceFor(window: RestoreWindow): readonly string[] {
  const { metadata, spec, status } = window;
  const { name = '' } = metadata;
  const refused = messageOf(window, 'Open', 'InvalidSpec');
  if (refused !== undefined)
    return [`the window is invalid and never opens: ${refused}. Open another one: gatehouse restore open`];
  if (status?.phase === undefined)
    return [
      'Gatehouse has not processed the window yet: if this persists, check its pods (namespace gatehouse-system by default)',
    ];
  const unread = messageOf(window, 'SweepComplete', 'KindUnreadable');
  return [
    ...whileOpen(window, name),
    ...(status.phase === 'Settling'
      ? [
          'all checks are enforced again; the final sweep starts when no admitted write can be in flight any more',
        ]
      : []),
    ...(status.closeReason === 'Expired'
      ? [
          `the window expired: if the restore continued after ${spec.expiresAt}, restore the rejected objects again`,
        ]
      : []),
    ...(unread === undefined
      ? []
      : [
          `the sweep could not read all kinds, so more violations are possible: ${unread}. Fix this; Gatehouse then sweeps again`,
        ]),
    ...((status.violations?.total ?? 0) > 0
      ? [
          'fix the violations: Gatehouse removes each one from the report, at once when its target appears, otherwise at the ' +
            'next check (after one minute at first, later after up to one hour)',
        ]
      : []),
    ...owners(window, name),
  ];
}

function whileOpen({ spec, status }: RestoreWindow, name: string): readonly string[] {
  if (status?.phase !== 'Open') return [];
  const { ref } = spec.source ?? {};
  return ref === undefined || spec.closeWithSource === false
    ? [`after the restore, close the window: gatehouse restore close ${name} --wait`]
    : [
        `the window closes when ${ref.kind} ${ref.name} has finished; to close it earlier: gatehouse restore close ${name}`,
      ];
}

function owners({ spec, status }: RestoreWindow, name: string): readonly string[] {
  const items = status?.relink?.items ?? [];
  const { requireApprovalToLink = false, approved = false } = spec.sweep ?? {};
  const waits = requireApprovalToLink && !approved && items.some(({ result }) => result === 'WouldLink');
  return [
    ...(waits ? [`approve the owner references: gatehouse restore approve ${name}`] : []),
    ...(items.some(({ result }) => result !== 'WouldLink' && result !== 'Linked')
      ? ['docs/owner-references.md explains the results of owner references']
      : []),
  ];
}

/** What is wrong with the object, and what to do. */
export function describeViolation({ reason, message, target }: Violation): string {
  if (message !== undefined) return message;
  const place = target?.namespace === undefined ? '' : ` in namespace "${target.namespace}"`;
  const group = (target?.group ?? '') === '' ? '' : `.${target?.group ?? ''}`;
  const named = target === undefined ? 'the target' : `${target.resource}${group} "${target.name}"${place}`;
  switch (reason) {
    case 'TargetMissing':
      return `${named} does not exist: restore or create it, or correct the field`;
    case 'TargetTerminating':
      return `${named} is being deleted: create it again after the deletion, or correct the field`;
    case 'Duplicate':
      return 'another object has the same value: change one of the two';
    case 'DefaultWouldChange':
      return 'a default is missing: update the object once, and Gatehouse adds the default';
    case 'CheckFailed':
      return 'the policy rejects the object: correct it';
    case 'CrossesNamespaceMapping':
      return `the copy still refers to ${named}: refer to the copy of that object if this is intended`;
  }
}

export function describeRelink({ owner, result, message }: RelinkItem): string {
  return `${owner.kind} ${owner.name}: ${result}${message === undefined ? '' : `: ${message}`}`;
}

function messageOf({ status }: RestoreWindow, type: string, reason: string): string | undefined {
  return status?.conditions?.find((condition) => condition.type === type && condition.reason === reason)
    ?.message;
}
