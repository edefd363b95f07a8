/** The watches of RestoreWindows and RestoreDetectors: in every process. */
import type { RestoreDetector } from '../../api/restore-detector.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import type { SharedConfig } from '../../config/config.ts';
import type { HealthCheck } from '../../server/operations-server.ts';
import { RESTORE_DETECTORS, RESTORE_WINDOWS } from '../resources.ts';
import { unwatched, watch, type WatchContext, type Watched } from '../watch.ts';
import type { Principal } from '../../api/principals.ts';
import type { GuardedPrincipals } from '../../admission/webhooks/restore-guard.ts';
import { type Danger, DANGERS } from '../../api/restore-guard.ts';
import { stringifyJson, uniqueBy } from '../../json/json.ts';
import type { Store } from '../../kube/store.ts';
import type { WebhookTarget } from '../../admission/webhooks/webhook.ts';
import { kindOf } from '../../restore/quiesce/plan.ts';
import { isEnabled } from '../../restore/detector.ts';
import { isClusterWide } from '../../restore/window.ts';
import { guardsOf } from '../../restore/guard.ts';
import { configMaps } from '../../kube/well-known.ts';
import { parseData, REHEARSAL_CONFIGMAP } from '../../restore/rehearsal-result.ts';
import type { RehearsalFigures } from '../../server/metrics/scraped.ts';
import type { ConfigMap } from '../certificates/ca-bundle.ts';
import type { Context } from '../context.ts';

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

export const restorersOf = (detectors: Pick<Store<RestoreDetector>, 'list'>): readonly Principal[] =>
  detectors
    .list()
    .filter(isEnabled)
    .flatMap(({ spec }) => spec.principals);

/** For the webhook that pauses what restorers write. Windows of tenants have no part in it, or they could exceed its limits. */
export function pausesOf(
  windows: Pick<Store<RestoreWindow>, 'list'>,
  detectors: Pick<Store<RestoreDetector>, 'list'>,
): NonNullable<WebhookTarget['pauses']> {
  const open = windows
    .list()
    .filter((window) => isClusterWide(window) && window.status?.closedAt === undefined);
  const pausing = [...detectors.list().filter(isEnabled), ...open].flatMap(
    ({ spec: { quiesce = [], principals } }) => (quiesce.length === 0 ? [] : [{ quiesce, principals }]),
  );
  return {
    kinds: pausing.flatMap(({ quiesce }) => quiesce.map(kindOf)),
    restorers: pausing.flatMap(({ principals }) => principals),
  };
}

/** The restorers that a guard limits now. */
export function guardedPrincipals(
  windows: Pick<Store<RestoreWindow>, 'list'>,
  detectors: Pick<Store<RestoreDetector>, 'list'>,
  now: Date,
): GuardedPrincipals {
  const guards = guardsOf(detectors.list(), windows.list(), now);
  const limited = (danger: Danger) =>
    guards.flatMap(({ refuse, principals }) => (refuse.includes(danger) ? principals : []));
  return Object.fromEntries(DANGERS.map((danger) => [danger, uniqueBy(limited(danger), stringifyJson)]));
}

export function startRehearsalFigures(context: Context, signal: AbortSignal): void {
  const { config, metrics } = context;
  const { namespace } = config;
  if (config.without.includes('restores')) return;
  const options = { resource: configMaps, namespace, name: REHEARSAL_CONFIGMAP };
  const { store } = watch<ConfigMap>(context, options, signal);
  metrics.scrape({ rehearsal: () => figuresOf(store.list()[0]) }, signal);
}

/** Without series no alert would fire: neither if no run has ever ended, nor if a user has edited the result. */
function figuresOf(stored: ConfigMap | undefined): RehearsalFigures | undefined {
  if (stored === undefined) return undefined;
  return parseData(stored.data) ?? { finishedAt: new Date(stored.metadata?.creationTimestamp ?? 0) };
}
