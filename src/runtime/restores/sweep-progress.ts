/** Progress of a long sweep, in the status of its RestoreWindow. */
import { groupResourceName, type GroupResource } from '../../json/kube-object.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import type { StoredObjects } from '../policies/stored-objects.ts';
import { RESTORE_WINDOWS } from '../resources.ts';
import type { SweepProgress } from './sweep.ts';
import type { RestoreWriter } from './window-status.ts';

export interface SweepProgressOptions extends Pick<RestoreWriter, 'now' | 'log'> {
  readonly client: Pick<RestoreWriter['client'], 'replaceStatus'>;
  readonly stored: Pick<StoredObjects, 'count'>;
}

/** Delay before the first write and between writes, in milliseconds. Most sweeps end before the first write. */
const EVERY_MS = 3_000;

/** Receives the progress of a sweep and writes it. A failed write is only logged: it must not end the sweep. */
export function followSweep(judged: RestoreWindow, { client, stored, now, log }: SweepProgressOptions) {
  let window = judged;
  let writtenAt: number | undefined;
  let total: Promise<number | undefined> | undefined;
  let isOutdated = false;
  const write = async (progress: SweepProgress, signal: AbortSignal) => {
    total ??= totalOf(progress.resources, stored, signal);
    const { startedAt, objectsScanned, resource } = progress;
    const objectsTotal = await total;
    const currentSweep = {
      startedAt: startedAt.toISOString(),
      objectsScanned,
      ...(objectsTotal === undefined ? {} : { objectsTotal: Math.max(objectsTotal, objectsScanned) }),
      resource: groupResourceName(resource),
    };
    const next = { ...window, status: { ...window.status, currentSweep } };
    window = await client.replaceStatus(RESTORE_WINDOWS, next, { signal });
  };
  return {
    /** The window as last written: the next write must start from it, because its resourceVersion has changed. */
    window: () => window,
    onProgress: async (progress: SweepProgress, signal: AbortSignal): Promise<void> => {
      const time = now().getTime();
      if (isOutdated || time - (writtenAt ?? progress.startedAt.getTime()) < EVERY_MS) return;
      writtenAt = time;
      try {
        await write(progress, signal);
      } catch (error) {
        // Usually the window has changed. The report then fails with the same conflict and is retried.
        isOutdated = true;
        log.debug({ window: judged.metadata.name, err: error }, 'could not write the progress of the sweep');
      }
    },
  };
}

async function totalOf(
  resources: readonly GroupResource[],
  stored: SweepProgressOptions['stored'],
  signal: AbortSignal,
): Promise<number | undefined> {
  const counts = await Promise.all(
    resources.map((resource) => stored.count(resource, signal).catch(() => undefined)),
  );
  return counts.reduce<number | undefined>(
    (sum, one) => (sum === undefined || one === undefined ? undefined : sum + one),
    0,
  );
}
