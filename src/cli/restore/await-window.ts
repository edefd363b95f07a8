import { setTimeout as sleep } from 'node:timers/promises';

import type { RestoreWindow } from '../../api/restore-window.ts';
import { RESTORE_WINDOWS } from '../../runtime/resources.ts';
import type { UserCluster } from '../user-cluster.ts';

/** A person looks on. */
const LOOK_EVERY_MS = 500;

/** @throws when there is no such window */
export async function readWindow(
  { client }: Pick<UserCluster, 'client'>,
  name: string,
): Promise<RestoreWindow> {
  const window = await client.get<RestoreWindow>(RESTORE_WINDOWS, { name });
  if (window === undefined)
    throw new Error(
      `there is no RestoreWindow "${name}": gatehouse restore status lists those that there are`,
    );
  return window;
}

/**
 * The window once it is as `accept` wants it; undefined when it is not so in time.
 *
 * @param timeoutMs milliseconds
 * @param onLook told of the window each time it is looked at
 * @throws when the window goes
 */
export async function awaitWindow(
  cluster: Pick<UserCluster, 'client'>,
  name: string,
  accept: (window: RestoreWindow) => boolean,
  timeoutMs: number,
  onLook: (window: RestoreWindow) => void = () => undefined,
): Promise<RestoreWindow | undefined> {
  const deadline = performance.now() + timeoutMs;
  for (;;) {
    const window = await readWindow(cluster, name);
    if (accept(window)) return window;
    onLook(window);
    if (performance.now() + LOOK_EVERY_MS > deadline) return undefined;
    await sleep(LOOK_EVERY_MS);
  }
}
