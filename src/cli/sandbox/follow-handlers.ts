/** Handlers of the sandbox: lets them read their kinds, and reloads them after a change. */
import { watch } from 'node:fs/promises';
import { setTimeout as sleep } from 'node:timers/promises';

import { messageOf } from '../../json/error-message.ts';
import { compileHandlers, loadHandlers, reloadHandlers } from '../../runtime/handlers/load-handlers.ts';
import { readingRole } from '../manifests.ts';
import { NAMESPACE } from './api.ts';
import type { Cluster } from './tour.ts';

/** After a change, in milliseconds. An editor writes several files at once. */
const SETTLED_MS = 200;

/** Until the signal: restarts the replica after each change of the folder that leaves the handlers valid. */
export async function followHandlers(
  folder: string,
  cluster: Pick<Cluster, 'apply'>,
  restart: () => Promise<void>,
  say: (text: string) => void,
  signal: AbortSignal,
): Promise<void> {
  try {
    for await (const { filename } of watch(folder, { recursive: true, signal })) {
      await sleep(SETTLED_MS, undefined, { signal });
      const problem = await reload(cluster, folder);
      if (problem === undefined) await restart();
      const what = problem ?? `${filename ?? folder} was changed`;
      say(`\nThe ${problem === undefined ? 'handlers are reloaded' : 'former handlers stay'}: ${what}`);
    }
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}

/** Loads the handlers from their changed files. Returns why they cannot be used. */
async function reload(cluster: Pick<Cluster, 'apply'>, handlers: string): Promise<string | undefined> {
  reloadHandlers();
  try {
    await allowReads(cluster, handlers);
    return undefined;
  } catch (error) {
    return messageOf(error);
  }
}

/** Applies the output of `gatehouse manifests` for these handlers. */
export async function allowReads(
  { apply }: Pick<Cluster, 'apply'>,
  handlers: string | undefined,
): Promise<void> {
  if (handlers === undefined) return;
  const loaded = await loadHandlers(handlers, process.cwd());
  const compiled = compileHandlers(loaded, { ownNamespace: NAMESPACE, matchConditions: true });
  const role = readingRole(compiled);
  if (role !== undefined) await apply([role]);
}
