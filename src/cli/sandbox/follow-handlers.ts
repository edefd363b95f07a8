/** Handlers of the sandbox: lets them read their kinds, and reloads them after a change. */
import { once } from 'node:events';
import { watch } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

import { messageOf } from '../../json/error-message.ts';
import { compileHandlers, loadModules, reloadHandlers } from '../../runtime/handlers/load-handlers.ts';
import { controllerRoles, readingRole } from '../manifests.ts';
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
  await followChanges(folder, signal, async (file) => {
    const problem = await reload(cluster, folder);
    if (problem === undefined) await restart();
    const what = problem ?? `${file} was changed`;
    say(`\nThe ${problem === undefined ? 'handlers are reloaded' : 'former handlers stay'}: ${what}`);
  });
}

/**
 * Until the signal: calls `follow` with a changed file, one call at a time. A change during a call causes another call; the
 * iterator of `node:fs/promises` would lose it.
 */
export async function followChanges(
  folder: string,
  signal: AbortSignal,
  follow: (file: string) => Promise<void>,
): Promise<void> {
  let change = Promise.withResolvers<string>();
  const watcher = watch(folder, { recursive: true, signal }, (_, file) => {
    change.resolve(file ?? folder);
  });
  const closed = once(watcher, 'close').then(() => undefined);
  for (;;) {
    const file = await Promise.race([change.promise, closed]);
    if (file === undefined) return;
    await sleep(SETTLED_MS);
    change = Promise.withResolvers();
    await follow(file);
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
  const loaded = await loadModules(handlers, process.cwd());
  const compiled = compileHandlers(loaded.handlers, { ownNamespace: NAMESPACE });
  const role = readingRole(compiled);
  await apply([...(role === undefined ? [] : [role]), ...controllerRoles(loaded.controllers, NAMESPACE)]);
}
