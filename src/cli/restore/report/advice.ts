/** What somebody who looks at a window can do. */
import type { RestoreWindow, Violation } from '../../../api/restore-window.ts';
import type { RelinkItem } from '../../../api/restore-findings.ts';

export function adviceFor(window: RestoreWindow): readonly string[] {
  const { metadata, spec, status } = window;
  const { name = '' } = metadata;
  const refused = conditionOf(window, 'Open', 'InvalidSpec');
  if (refused !== undefined)
    return [`it never opened, and never will: ${refused.message}. Open another one: gatehouse restore open`];
  if (status?.phase === undefined)
    return [
      'Gatehouse has not looked at it yet: if that lasts, look at its pods, in gatehouse-system by default',
    ];
  return [
    ...whileOpen(window, name),
    ...(status.phase === 'Settling'
      ? ['every check is enforced again; the final sweep follows when no write can be under way any more']
      : []),
    ...(status.closeReason === 'Expired'
      ? [
          `it ended because its time was over: if the restore went on after ${spec.expiresAt}, restore again what was refused`,
        ]
      : []),
    ...incomplete(window),
    ...((status.violations?.total ?? 0) > 0
      ? [
          'mend the violations: each goes from the report by itself, at once when a target appears, else at the next look (after a minute; later up to an hour)',
        ]
      : []),
    ...owners(window, name),
  ];
}

function whileOpen({ spec, status }: RestoreWindow, name: string): readonly string[] {
  if (status?.phase !== 'Open') return [];
  const { ref } = spec.source ?? {};
  return ref === undefined || spec.closeWithSource === false
    ? [`when the restore is over: gatehouse restore close ${name} --wait`]
    : [
        `it closes by itself when ${ref.kind} ${ref.name} has written everything; sooner with: gatehouse restore close ${name}`,
      ];
}

function incomplete(window: RestoreWindow): readonly string[] {
  const unread = conditionOf(window, 'SweepComplete', 'KindUnreadable');
  return unread === undefined
    ? []
    : [
        `the sweep could not read everything, so more may be wrong: ${unread.message}. Mend that; it is swept again by itself`,
      ];
}

function owners({ spec, status }: RestoreWindow, name: string): readonly string[] {
  const items = status?.relink?.items ?? [];
  const { requireApprovalToLink = false, approved = false } = spec.sweep ?? {};
  const waits = requireApprovalToLink && !approved && items.some(({ result }) => result === 'WouldLink');
  return [
    ...(waits ? [`have the owner references linked: gatehouse restore approve ${name}`] : []),
    ...(items.some(({ result }) => result !== 'WouldLink' && result !== 'Linked')
      ? ['what the results of owner references mean: docs/owner-references.md']
      : []),
  ];
}

/** What is wrong with the object, and what to do. */
export function describeViolation({ reason, message, target }: Violation): string {
  if (message !== undefined) return message;
  const place = target?.namespace === undefined ? '' : ` in namespace "${target.namespace}"`;
  const group = (target?.group ?? '') === '' ? '' : `.${target?.group ?? ''}`;
  const named = target === undefined ? 'its target' : `${target.resource}${group} "${target.name}"${place}`;
  switch (reason) {
    case 'TargetMissing':
      return `${named} is not there: restore or create it, or correct the field`;
    case 'TargetTerminating':
      return `${named} is being deleted: create it anew when it is gone, or correct the field`;
    case 'Duplicate':
      return 'another object has the same value: change one of the two';
    case 'DefaultWouldChange':
      return 'a default is lacking: write the object once, and it is filled in';
    case 'CheckFailed':
      return 'the policy refuses it: correct the object';
    case 'CrossesNamespaceMapping':
      return `the copy still names ${named}: name its copy instead, if that is what is meant`;
  }
}

export function describeRelink({ owner, result, message }: RelinkItem): string {
  return `${owner.kind} ${owner.name}: ${result}${message === undefined ? '' : `: ${message}`}`;
}

function conditionOf({ status }: RestoreWindow, type: string, reason: string) {
  return status?.conditions?.find((condition) => condition.type === type && condition.reason === reason);
}
