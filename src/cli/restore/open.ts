/** `gatehouse restore open` */
import type { RestoreWindow } from '../../api/restore-window.ts';
import { RESTORE_WINDOWS } from '../../runtime/resources.ts';
import { awaitWindow } from './await-window.ts';
import type { WaitFlags } from './command.ts';
import type { UserCluster } from '../user-cluster.ts';
import { newWindow, readTimeout, type OpenFlags } from './new-window.ts';
import type { ExitCode, Say } from './outcome.ts';

/** @throws WrongUsage; an Error when the API server refuses, or the window goes while it is awaited */
export async function openWindow(
  cluster: UserCluster,
  name: string | undefined,
  flags: OpenFlags & WaitFlags,
  say: Say,
): Promise<ExitCode> {
  const timeoutMs = readTimeout(flags.timeout);
  const wanted = newWindow(name, flags, cluster.now());
  const created = await create(cluster, wanted);
  if (flags.wait === false) {
    await say.result(`${describeOpening(created, 'is created')}\n`);
    return 0;
  }
  const label = created.metadata.name ?? '';
  const seen = await awaitWindow(
    cluster,
    label,
    (window) => isOpen(window) || whyNot(window) !== undefined,
    timeoutMs,
  );
  if (seen === undefined) {
    say.note(
      `error: RestoreWindow "${label}" is created, but no leader of Gatehouse has taken it up within ${flags.timeout}: ` +
        'look at its pods, in gatehouse-system by default. Without them nothing is deferred, and nothing will be swept',
    );
    return 1;
  }
  const refusal = isOpen(seen) ? undefined : whyNot(seen);
  if (refusal !== undefined) {
    say.note(`error: RestoreWindow "${label}" is not open: ${refusal}`);
    return 1;
  }
  await say.result(`${describeOpening(seen, 'is open')}\n`);
  return 0;
}

async function create({ client }: UserCluster, window: RestoreWindow): Promise<RestoreWindow> {
  try {
    return await client.create(RESTORE_WINDOWS, window);
  } catch (cause) {
    throw new Error(`could not open RestoreWindow "${window.metadata.name ?? ''}"`, { cause });
  }
}

const isOpen = ({ status }: RestoreWindow): boolean => status?.phase === 'Open';

/** Undefined while that may still come. */
function whyNot({ status }: RestoreWindow): string | undefined {
  const condition = status?.conditions?.find(({ type }) => type === 'Open');
  if (condition?.status === 'False') return condition.message;
  return status?.closedAt === undefined
    ? undefined
    : `it is closed already (${status.closeReason ?? 'Manual'})`;
}

/** Until when, for whom, and how it ends: whoever opens a window should know. */
export function describeOpening({ metadata, spec }: RestoreWindow, what: string): string {
  const { operations = ['CREATE', 'UPDATE'], namespaces } = spec.match ?? {};
  const who = spec.principals.map(({ user, group }) => user ?? `group ${group ?? ''}`).join(', ');
  const where = namespaces?.include === undefined ? 'everywhere' : `in ${namespaces.include.join(', ')}`;
  const { name = '' } = metadata;
  return [
    `RestoreWindow "${name}" ${what}, until ${spec.expiresAt}.`,
    `  defers  ${operations.join(', ')} by ${who}, ${where}; everybody else is checked as ever`,
    `  close   gatehouse restore close ${name} --wait`,
  ].join('\n');
}
