/** Flags of `gatehouse restore open` → the RestoreWindow to create. */
import { parseDuration } from '../../api/duration.ts';
import { EXCLUDE_FROM_BACKUP_LABEL, GROUP, VERSION } from '../../api/group.ts';
import { principalProblems } from '../../api/principals.ts';
import type { RestoreWindow, RestoreWindowSpec } from '../../api/restore-window.ts';
import { toTimestamp } from '../../json/kube-object.ts';
import { MAX_WINDOW_MS } from '../../restore/window.ts';

export interface OpenFlags {
  readonly user?: readonly string[];
  readonly group?: readonly string[];
  readonly namespace?: readonly string[];
  readonly operation?: readonly string[];
  readonly for: string;
  readonly reason?: string;
  readonly requireApproval?: boolean;
}

export class WrongUsage extends Error {
  override readonly name = 'WrongUsage';
}

type Operation = NonNullable<NonNullable<RestoreWindowSpec['match']>['operations']>[number];
const OPERATIONS: readonly Operation[] = ['CREATE', 'UPDATE', 'DELETE'];

export function newWindow(name: string | undefined, flags: OpenFlags, now: Date): RestoreWindow {
  const { user = [], group = [], namespace = [], operation = [], reason, requireApproval } = flags;
  const users = user.map((one) => ({ user: one }));
  const groups = group.map((one) => ({ group: one }));
  const principals = [...users, ...groups];
  const problems = [
    ...(principals.length === 0
      ? ['name the user that restores: --user system:serviceaccount:<namespace>:<name>, or --group <name>']
      : []),
    ...[...principalProblems(users, '--user'), ...principalProblems(groups, '--group')].map(withoutIndex),
    ...(namespace.includes('') ? ['--namespace must not be empty: name a namespace, or omit the flag'] : []),
    ...operation
      .filter((one) => !isOperation(one))
      .map((one) => `--operation ${one}: only ${OPERATIONS.join(', ')} can be deferred`),
    ...durationProblems(flags.for),
  ];
  if (problems.length > 0) throw new WrongUsage(problems.join('\n'));

  const match = {
    ...(operation.length === 0 ? {} : { operations: [...new Set(operation)].filter(isOperation) }),
    ...(namespace.length === 0 ? {} : { namespaces: { include: [...new Set(namespace)] } }),
  };
  return {
    apiVersion: `${GROUP}/${VERSION}`,
    kind: 'RestoreWindow',
    metadata: {
      name: name ?? defaultName(now),
      labels: { [EXCLUDE_FROM_BACKUP_LABEL]: 'true' },
    },
    spec: {
      source: { type: 'Manual' },
      principals,
      ...(Object.keys(match).length === 0 ? {} : { match }),
      expiresAt: toTimestamp(new Date(now.getTime() + (parseDuration(flags.for) ?? 0))),
      ...(requireApproval === true ? { sweep: { requireApprovalToLink: true } } : {}),
      ...(reason === undefined ? {} : { reason }),
    },
  };
}

export function readTimeout(text: string): number {
  const ms = parseDuration(text);
  if (ms === undefined) throw new WrongUsage(`--timeout ${text}: must be a duration such as 30s or 10m`);
  return ms;
}

function durationProblems(text: string): readonly string[] {
  const ms = parseDuration(text);
  if (ms === undefined || ms === 0) return [`--for ${text}: must be a duration such as 30m or 1h30m`];
  return ms > MAX_WINDOW_MS ? [`--for ${text}: must not exceed 24h`] : [];
}

/** Strips `[n]`: flags lack an index. */
const withoutIndex = (problem: string): string => problem.replace(/^(--\w+)\[\d+\]/, '$1');

const isOperation = (text: string): text is Operation => OPERATIONS.some((one) => one === text);

const defaultName = (now: Date): string =>
  `manual-${toTimestamp(now).replaceAll(/[-:Z]/g, '').replace('T', '-')}`;
