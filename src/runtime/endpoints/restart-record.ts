/**
 * The restart that is in progress, in the ConfigMap of the report: a later leader must not restart another workload during
 * its rollout. Each write is conditional, so of two leaders only one restarts.
 */
import { parseJson, textIn } from '../../json/json.ts';
import { toTimestamp } from '../../json/kube-object.ts';
import type { KubeClient } from '../../kube/client.ts';
import { configMaps } from '../../kube/well-known.ts';
import { ownStateLabels, type ConfigMap } from '../certificates/ca-bundle.ts';
import { SERVED_CERTS_CONFIGMAP } from './report.ts';

const RESTART_KEY = 'restart.json';

/** A rollout that takes longer no longer holds up the next workload, in milliseconds. */
export const ROLLOUT_MS = 10 * 60_000;

export type RestartRecord = ReturnType<typeof createRestartRecord>;

export function createRestartRecord(
  client: Pick<KubeClient, 'get' | 'create' | 'replace'>,
  namespace: string,
) {
  const ref = { namespace, name: SERVED_CERTS_CONFIGMAP };
  /** The latest record of this process. */
  let own: string | undefined;
  const read = (signal: AbortSignal) => client.get<ConfigMap>(configMaps, ref, { signal });
  const write = async (live: ConfigMap | undefined, text: string | undefined, signal: AbortSignal) => {
    const others = Object.entries(live?.data ?? {}).filter(([key]) => key !== RESTART_KEY);
    const desired = {
      ...(live ?? { apiVersion: 'v1', kind: 'ConfigMap' }),
      metadata: { ...live?.metadata, ...ref, labels: { ...live?.metadata?.labels, ...ownStateLabels } },
      data: Object.fromEntries([...others, ...(text === undefined ? [] : [[RESTART_KEY, text] as const])]),
    };
    await (live === undefined ? client.create : client.replace)(configMaps, desired, { signal });
  };

  return {
    /**
     * Records that this workload is about to be restarted. Undefined: it may be. Otherwise why not, for users.
     * @throws ApiError if the record cannot be written, e.g. because another leader has just written one
     */
    begin: async (workload: string, now: Date, signal: AbortSignal): Promise<string | undefined> => {
      const live = await read(signal);
      const stored = live?.data?.[RESTART_KEY];
      const other = stored === undefined || stored === own ? undefined : running(stored, now);
      if (other !== undefined)
        return `${other}, which an earlier leader restarted, may not be available again`;
      const text = JSON.stringify({ workload, at: toTimestamp(now) });
      await write(live, text, signal);
      own = text;
      return undefined;
    },
    /** The rollout is over. If the record stays, only a later leader waits for it. */
    end: async (signal: AbortSignal): Promise<void> => {
      try {
        const live = await read(signal);
        if (own !== undefined && live?.data?.[RESTART_KEY] === own) await write(live, undefined, signal);
      } catch {
        signal.throwIfAborted();
      }
    },
  };
}

/** The workload in this record, if its rollout may still run. */
function running(text: string, now: Date): string | undefined {
  const record = valueOf(text);
  const age = Math.abs(now.getTime() - Date.parse(textIn(record, 'at')));
  return age < ROLLOUT_MS ? textIn(record, 'workload') : undefined;
}

function valueOf(text: string): unknown {
  try {
    return parseJson(text);
  } catch {
    return undefined; // an edit by a user
  }
}
