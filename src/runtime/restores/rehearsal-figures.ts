/** On the leader: the result of the scheduled rehearsal, as metrics. */
import type { KubeObject } from '../../json/kube-object.ts';
import { objectKey } from '../../json/kube-object.ts';
import { configMaps } from '../../kube/well-known.ts';
import { parseData, REHEARSAL_CONFIGMAP } from '../../restore/rehearsal-result.ts';
import type { RehearsalFigures } from '../../server/metrics/scraped.ts';
import type { Context } from '../context.ts';
import { watch } from '../watch.ts';

interface ConfigMap extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
}

export function startRehearsalFigures(context: Context, signal: AbortSignal): void {
  const { config, metrics } = context;
  const { namespace } = config;
  if (config.without.includes('restores')) return;
  const fieldSelector = `metadata.name=${REHEARSAL_CONFIGMAP}`;
  const { store } = watch<ConfigMap>(context, { resource: configMaps, namespace, fieldSelector }, signal);
  const key = objectKey({ namespace, name: REHEARSAL_CONFIGMAP });
  metrics.scrape({ rehearsal: () => figuresOf(store.get(key)) }, signal);
}

/** Without series no alert would fire: neither if no run has ever ended, nor if a user has edited the result. */
function figuresOf(stored: ConfigMap | undefined): RehearsalFigures | undefined {
  if (stored === undefined) return undefined;
  return parseData(stored.data) ?? { finishedAt: new Date(stored.metadata?.creationTimestamp ?? 0) };
}
