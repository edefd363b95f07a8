/** Says in the status of a RestoreWindow how far its sweep has come, if that takes long. */
import { groupResourceName, type GroupResource } from '../../json/kube-object.ts';
import type { RestoreWindow, RestoreWindowStatus } from '../../api/restore-window.ts';
import type { Log } from '../../log.ts';
import type { OnSweepProgress, SweepProgress } from './sweep.ts';

export interface SweepFollowerDeps {
  /** About how many objects of a kind are stored; undefined where the API server does not say. Throws when it cannot be read. */
  readonly count: (resource: GroupResource, signal: AbortSignal) => Promise<number | undefined>;
  /** Makes this the whole status, if the object is still the one that was judged. Gives the object as it is then. */
  readonly writeStatus: (
    window: RestoreWindow,
    status: RestoreWindowStatus,
    signal: AbortSignal,
  ) => Promise<RestoreWindow>;
  readonly now: () => Date;
  readonly log: Pick<Log, 'debug'>;
}

export interface SweepFollower {
  readonly onProgress: OnSweepProgress;
  /** The window with what was written into it: what writes next has to go on from there. */
  readonly window: () => RestoreWindow;
}

/** Most sweeps are over by then, and nothing is written about them. Milliseconds, also between two writes. */
const EVERY_MS = 3_000;

/** What cannot be said is not said: a sweep must not fail for the sake of its progress. */
export function followSweep(
  judged: RestoreWindow,
  { count, writeStatus, now, log }: SweepFollowerDeps,
): SweepFollower {
  let window = judged;
  let saidAt: number | undefined;
  let total: Promise<number | undefined> | undefined;
  let isOutdated = false;
  const say = async (progress: SweepProgress, signal: AbortSignal) => {
    total ??= totalOf(progress.resources, count, signal);
    const { startedAt, objectsScanned, resource } = progress;
    const objectsTotal = await total;
    const currentSweep = {
      startedAt: startedAt.toISOString(),
      objectsScanned,
      ...(objectsTotal === undefined ? {} : { objectsTotal: Math.max(objectsTotal, objectsScanned) }),
      resource: groupResourceName(resource),
    };
    window = await writeStatus(window, { ...window.status, currentSweep }, signal);
  };
  return {
    window: () => window,
    onProgress: async (progress, signal) => {
      const time = now().getTime();
      if (isOutdated || time - (saidAt ?? progress.startedAt.getTime()) < EVERY_MS) return;
      saidAt = time;
      try {
        await say(progress, signal);
      } catch (error) {
        // Mostly somebody changed the window meanwhile: the report will find that too, and is made again.
        isOutdated = true;
        log.debug({ window: judged.metadata.name, err: error }, 'could not say how far the sweep is');
      }
    },
  };
}

async function totalOf(
  resources: readonly GroupResource[],
  count: SweepFollowerDeps['count'],
  signal: AbortSignal,
): Promise<number | undefined> {
  const counts = await Promise.all(
    resources.map((resource) => count(resource, signal).catch(() => undefined)),
  );
  return counts.reduce<number | undefined>(
    (sum, one) => (sum === undefined || one === undefined ? undefined : sum + one),
    0,
  );
}
