/** Waits for the final report of a window, with the progress of its sweep for those who look on. */
import type { RestoreWindow } from '../../api/restore-window.ts';
import { withProgress, type Progress } from '../terminal/progress.ts';
import type { OutputFormat } from '../terminal/output.ts';
import type { UserCluster } from '../user-cluster.ts';
import { awaitWindow, readWindow } from './await-window.ts';
import type { ExitCode, Say } from './outcome.ts';
import { showWindow } from './status.ts';

interface Patience {
  /** As the user wrote it. */
  readonly timeout: string;
  readonly timeoutMs: number;
  readonly format: OutputFormat;
}

/** Prints the window as it is at last, also when there is no final report in time. @throws when the window goes */
export async function showFinalReport(
  cluster: UserCluster,
  name: string,
  { timeout, timeoutMs, format }: Patience,
  say: Say,
): Promise<ExitCode> {
  const swept = await withProgress((line) =>
    awaitWindow(cluster, name, isFinal, timeoutMs, (window) => {
      const progress = progressOf(window);
      if (progress === undefined) line.clear();
      else line.show(progress);
    }),
  );
  if (swept !== undefined) {
    await showWindow(cluster, swept, format, say);
    return swept.status?.phase === 'Completed' ? 0 : 1;
  }
  await showWindow(cluster, await readWindow(cluster, name), format, say);
  say.note(
    `error: there is no final report after ${timeout}. Look again later (gatehouse restore status ${name}), and at the ` +
      'pods of Gatehouse, in gatehouse-system by default',
  );
  return 1;
}

/** The interim sweep comes first, while admitted writes may still arrive. */
export function isFinal({ status }: RestoreWindow): boolean {
  const { phase, lastSweep } = status ?? {};
  return (phase === 'Completed' || phase === 'CompletedWithViolations') && lastSweep?.interim === false;
}

function progressOf({ status }: RestoreWindow): Progress | undefined {
  if (status?.currentSweep === undefined) return undefined;
  const { objectsScanned, objectsTotal, resource } = status.currentSweep;
  return { what: resource, done: objectsScanned, total: objectsTotal };
}
