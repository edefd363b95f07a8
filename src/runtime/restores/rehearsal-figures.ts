/** On the leader: the result of the scheduled rehearsal, as metrics. */
import { configMaps } from '../../kube/well-known.ts';
import { parseData, REHEARSAL_CONFIGMAP } from '../../restore/rehearsal-result.ts';
import type { RehearsalFigures } from '../../server/metrics/scraped.ts';
import type { ConfigMap } from '../certificates/ca-bundle.ts';
import type { Context } from '../context.ts';
import { watch } from '../watch.ts';

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
