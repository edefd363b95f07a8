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
  const advice: string[] = [];
  if (status.phase === 'Open') advice.push(whileOpen(spec, name));
  if (status.phase === 'Settling')
    advice.push(
      'all checks are enforced again; the final sweep starts when no admitted write can be in flight any more',
    );
  if (status.closeReason === 'Expired')
    advice.push(
      `the window expired: if the restore continued after ${spec.expiresAt}, restore the rejected objects again`,
    );
  const unchecked = messageOf(window, 'CheckedAtAdmission', 'Unobserved');
  if (unchecked !== undefined) advice.push(unchecked);
  if (unread !== undefined)
    advice.push(
      `the sweep could not read all kinds, so more violations are possible: ${unread}. Fix this; Gatehouse then sweeps again`,
    );
  if ((status.violations?.total ?? 0) > 0)
    advice.push(
      'fix the violations: Gatehouse removes each one from the report, at once when its target appears, otherwise at the ' +
        'next check (after one minute at first, later after up to one hour)',
    );
  const results = (status.relink?.items ?? []).map(({ result }) => result);
  const { requireApprovalToLink = false, approved = false } = spec.sweep ?? {};
  if (requireApprovalToLink && !approved && results.includes('WouldLink'))
    advice.push(`approve the owner references: gatehouse restore approve ${name}`);
  if (results.some((result) => result !== 'WouldLink' && result !== 'Linked'))
    advice.push('docs/owner-references.md explains the results of owner references');
  return advice;
}

function whileOpen({ source, closeWithSource }: RestoreWindow['spec'], name: string): string {
  const { ref } = source ?? {};
  return ref === undefined || closeWithSource === false
    ? `after the restore, close the window: gatehouse restore close ${name} --wait`
    : `the window closes when ${ref.kind} ${ref.name} has finished; to close it earlier: gatehouse restore close ${name}`;
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

export function describeRelink({ owner, field, result, message }: RelinkItem): string {
  return `${field === undefined ? '' : `${field}: `}${owner.kind} ${owner.name}: ${result}${message === undefined ? '' : `: ${message}`}`;
}

function messageOf({ status }: RestoreWindow, type: string, reason: string): string | undefined {
  return status?.conditions?.find((condition) => condition.type === type && condition.reason === reason)
    ?.message;
}
