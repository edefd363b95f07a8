/** On every replica: watches RestoreWindows and RestoreDetectors, unless the installation leaves out restores. */
import type { RestoreDetector } from '../../api/restore-detector.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import type { HealthCheck } from '../../server/health.ts';
import type { Config } from '../../config/config.ts';
import { RESTORE_DETECTORS, RESTORE_WINDOWS } from '../resources.ts';
import { unwatched, watch, type WatchContext, type Watched } from '../watch.ts';

export interface RestoreKinds {
  readonly windows: Watched<RestoreWindow>;
  readonly detectors: Watched<RestoreDetector>;
  readonly checks: { readonly windows?: HealthCheck };
}

export function watchRestoreKinds(
  context: WatchContext & { readonly config: Pick<Config, 'without'> },
  signal: AbortSignal,
): RestoreKinds {
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
