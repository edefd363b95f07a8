/** The watches of RestoreWindows and RestoreDetectors: in every process. */
import type { RestoreDetector } from '../../api/restore-detector.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import type { SharedConfig } from '../../config/config.ts';
import type { HealthCheck } from '../../server/operations-server.ts';
import { RESTORE_DETECTORS, RESTORE_WINDOWS } from '../resources.ts';
import { unwatched, watch, type WatchContext, type Watched } from '../watch.ts';
import type { Principal } from '../../api/principals.ts';
import type { Store } from '../../kube/store.ts';
import { isEnabled } from '../../restore/detector.ts';

export interface RestoreKinds {
  readonly windows: Watched<RestoreWindow>;
  readonly detectors: Watched<RestoreDetector>;
}

export function watchRestoreKinds(
  context: WatchContext & { readonly config: Pick<SharedConfig, 'without'> },
  signal: AbortSignal,
): RestoreKinds & { readonly checks: { readonly windows?: HealthCheck } } {
  if (context.config.without.includes('restores'))
    return { windows: unwatched(), detectors: unwatched(), checks: {} };
  const windows = watch<RestoreWindow>(context, { resource: RESTORE_WINDOWS }, signal);
  const detectors = watch<RestoreDetector>(context, { resource: RESTORE_DETECTORS }, signal);
  const check = () =>
    windows.hasSynced() && detectors.hasSynced()
      ? undefined
      : 'RestoreWindows and RestoreDetectors have not been listed yet: are the CRDs installed?';
  return { windows, detectors, checks: { windows: check } };
}

/** The principals of all enabled detectors. */
export const restorersOf = (detectors: Pick<Store<RestoreDetector>, 'list'>): readonly Principal[] =>
  detectors
    .list()
    .filter(isEnabled)
    .flatMap(({ spec }) => spec.principals);
