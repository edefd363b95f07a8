/** Evidence that a requester restores: known windows, new windows, and restores that have no window yet. */
import { createHash } from 'node:crypto';

import type { RestoreQuery, World } from '../../admission/policy/world.ts';
import { isPrincipal, type Requester } from '../../api/principals.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import type { RestoreDetector } from '../../api/restore-detector.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import { detectorsOf, evidenceOfSources, evidenceOfWindows } from '../../restore/evidence.ts';
import { windowState, type WriteTarget } from '../../restore/window.ts';
import type { Context } from '../context.ts';
import { RESTORE_WINDOWS } from '../resources.ts';
import { createSharedRead } from '../shared-read.ts';
import type { Watched } from '../watch.ts';

export const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

const placeOf = ({ resource, namespace }: RestoreQuery): WriteTarget => ({ ...resource, namespace });

export function createRestoreEvidence(
  { client, discovery, serverClock }: Pick<Context, 'client' | 'discovery' | 'serverClock'>,
  windows: Pick<Watched<RestoreWindow>, 'store'>,
  detectors: Pick<Watched<RestoreDetector>, 'store'>,
) {
  const { now } = serverClock;
  const listWindows = createSharedRead(() => client.listAll<RestoreWindow>(RESTORE_WINDOWS));

  /** Whether an open window or an enabled detector names the user. */
  const mayRestore = (user: Requester): boolean =>
    detectorsOf(detectors.store.list(), user).length > 0 ||
    windows.store
      .list()
      .some(
        (window) => isPrincipal(window.spec.principals, user) && windowState(window, now()).kind === 'open',
      );

  /** What an open window in the store allows. */
  const knownRestore = (query: RestoreQuery) =>
    evidenceOfWindows(windows.store.list(), query.userInfo, placeOf(query), now());

  /**
   * Reads windows and sources live if the stores hold no evidence. Backup tools do not retry, so a slow watch must not
   * cost an object.
   */
  const restoreEvidence: World['restoreEvidence'] = async (query, signal) => {
    const known = knownRestore(query);
    if (known !== undefined) return known;
    const { userInfo } = query;
    const place = placeOf(query);
    const { items } = await listWindows(signal);
    const opened = evidenceOfWindows(items, userInfo, place, now());
    if (opened !== undefined) return opened;
    // A closed window stays closed, whatever the state of its source.
    for (const detector of detectorsOf(detectors.store.list(), userInfo)) {
      const sources = await sourcesOf(detector, signal);
      const evidence = evidenceOfSources(detector, sources, userInfo, place, now(), sha256, (window) =>
        items.some(({ metadata }) => metadata.name === window),
      );
      if (evidence !== undefined) return evidence;
    }
    return undefined;
  };

  async function sourcesOf(
    { spec: { watch, namespaces } }: RestoreDetector,
    signal: AbortSignal,
  ): Promise<readonly KubeObject[]> {
    const { apiGroup: group, resource, version } = watch;
    const kind = await discovery.resolve({ group, resource }, signal);
    if (kind === undefined) return []; // the backup tool is not installed
    const inVersion = { ...kind, version };
    const places = kind.namespaced && !namespaces.includes('*') ? namespaces : [undefined];
    const lists = await Promise.all(
      places.map((namespace) => client.listAll<KubeObject>(inVersion, { namespace, signal })),
    );
    return lists.flatMap(({ items }) => items);
  }

  return { mayRestore, knownRestore, restoreEvidence };
}
