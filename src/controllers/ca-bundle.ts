/** On the leader: the ConfigMap `gatehouse-cabundle` holds the CA bundle, for whoever wants to mount or copy it. */
import type { KubernetesObject } from '../api/meta.ts';
import { CA_BUNDLE_KEY, CABUNDLE_CONFIGMAP } from '../pki/annotations.ts';
import { ownStateLabels } from './authority.ts';
import { AWAIT_CHANGE, requeueIn, type Log, type Reconcile } from './reconcile.ts';

export interface ConfigMap extends KubernetesObject {
  readonly data?: Readonly<Record<string, string>>;
}

export interface CaBundleDeps {
  readonly namespace: string;
  readonly bundle: () => string | undefined;
  readonly readConfigMap: (name: string, signal: AbortSignal) => Promise<ConfigMap | undefined>;
  readonly createConfigMap: (object: ConfigMap, signal: AbortSignal) => Promise<unknown>;
  /** Writes the object if it still has the resourceVersion in its metadata. */
  readonly replaceConfigMap: (object: ConfigMap, signal: AbortSignal) => Promise<unknown>;
  readonly now: () => Date;
  readonly log: Log;
}

/** Nothing tells us when someone changes the ConfigMap: it is looked at this often, in milliseconds. */
const RECHECK_MS = 60_000;

export function createCaBundleReconciler(deps: CaBundleDeps): Reconcile {
  return async (_key, signal) => {
    const bundle = deps.bundle();
    if (bundle === undefined) return AWAIT_CHANGE;
    const live = await deps.readConfigMap(CABUNDLE_CONFIGMAP, signal);
    if (live === undefined) {
      const metadata = { namespace: deps.namespace, name: CABUNDLE_CONFIGMAP, labels: ownStateLabels };
      await deps.createConfigMap(
        { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { [CA_BUNDLE_KEY]: bundle } },
        signal,
      );
      deps.log.info({}, 'published the CA bundle');
    } else if (live.data?.[CA_BUNDLE_KEY] !== bundle) {
      await deps.replaceConfigMap({ ...live, data: { ...live.data, [CA_BUNDLE_KEY]: bundle } }, signal);
      deps.log.info({}, 'published the CA bundle');
    }
    return requeueIn(RECHECK_MS, deps.now());
  };
}
