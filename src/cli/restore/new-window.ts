/** What the user says on the command line → the RestoreWindow to create. */
import { parseDuration } from '../../api/duration.ts';
import { EXCLUDE_FROM_BACKUP_LABEL, GROUP, VERSION } from '../../api/group.ts';
import { principalProblems } from '../../api/principals.ts';
import type { RestoreWindow, RestoreWindowSpec } from '../../api/restore-window.ts';
import { LONGEST_WINDOW_MS } from '../../restore/window.ts';

export interface OpenFlags {
  readonly user?: readonly string[];
  readonly group?: readonly string[];
  readonly namespace?: readonly string[];
  readonly operation?: readonly string[];
  /** A duration. */
  readonly for: string;
  readonly reason?: string;
  readonly requireApproval?: boolean;
}

/** How the user is wrong: a line each, with what to do. */
export class WrongUsage extends Error {
  override readonly name = 'WrongUsage';
}

type Operation = NonNullable<NonNullable<RestoreWindowSpec['match']>['operations']>[number];
const OPERATIONS: readonly Operation[] = ['CREATE', 'UPDATE', 'DELETE'];

/**
 * @param name default: `manual-` and the time
 * @throws WrongUsage with everything that is wrong
 */
export function newWindow(name: string | undefined, flags: OpenFlags, now: Date): RestoreWindow {
  const { user = [], group = [], namespace = [], operation = [], reason, requireApproval } = flags;
  const principals = [...user.map((one) => ({ user: one })), ...group.map((one) => ({ group: one }))];
  const problems = [
    ...(principals.length === 0
      ? ['say who restores: --user system:serviceaccount:<namespace>:<name>, or --group <name>']
      : []),
    ...[
      ...principalProblems(
        user.map((one) => ({ user: one })),
        '--user',
      ),
      ...principalProblems(
        group.map((one) => ({ group: one })),
        '--group',
      ),
    ].map(withoutIndex),
    ...(namespace.includes('') ? ['--namespace: name one, or leave it out'] : []),
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
      expiresAt: wholeSeconds(new Date(now.getTime() + (parseDuration(flags.for) ?? 0))),
      ...(requireApproval === true ? { sweep: { requireApprovalToLink: true } } : {}),
      ...(reason === undefined ? {} : { reason }),
    },
  };
}

/** Milliseconds. @throws WrongUsage when it is no duration */
export function readTimeout(text: string): number {
  const ms = parseDuration(text);
  if (ms === undefined) throw new WrongUsage(`--timeout ${text}: write a duration such as 30s or 10m`);
  return ms;
}

/** RFC 3339. */
export const wholeSeconds = (time: Date): string => time.toISOString().replace(/\.\d+Z$/, 'Z');

function durationProblems(text: string): readonly string[] {
  const ms = parseDuration(text);
  if (ms === undefined || ms === 0) return [`--for ${text}: write a duration such as 30m or 1h30m`];
  return ms > LONGEST_WINDOW_MS ? [`--for ${text}: no window is open for more than 24h`] : [];
}

/** Of several flags none has a number. */
const withoutIndex = (problem: string): string => problem.replace(/^(--\w+)\[\d+\]/, '$1');

const isOperation = (text: string): text is Operation => OPERATIONS.some((one) => one === text);

/** e.g. `manual-20261121-234457`, in UTC. */
const defaultName = (now: Date): string =>
  `manual-${wholeSeconds(now).replaceAll(/[-:Z]/g, '').replace('T', '-')}`;
