/** On the leader: the ConfigMap `gatehouse-cabundle` holds the CA bundle, for whoever wants to mount or copy it. */
import { isDeepStrictEqual } from 'node:util';

import type { KubeObject } from '../../json/kube-object.ts';
import { CA_BUNDLE_KEY, CABUNDLE_CONFIGMAP } from '../../pki/annotations.ts';
import { ownStateLabels } from './authority.ts';
import type { Log } from '../../log.ts';
import { AWAIT_CHANGE, requeueIn, type Reconcile } from '../controller.ts';

export interface ConfigMap extends KubeObject {
  readonly data?: Readonly<Record<string, string>>;
}

export interface CaBundleDeps {
  readonly namespace: string;
  readonly bundle: () => string | undefined;
  readonly readConfigMap: (name: string, signal: AbortSignal) => Promise<ConfigMap | undefined>;
  readonly createConfigMap: (object: ConfigMap, signal: AbortSignal) => Promise<unknown>;
  /** Writes the object if it still has the resourceVersion in its metadata. */
  readonly replaceConfigMap: (object: ConfigMap, signal: AbortSignal) => Promise<unknown>;
  /** The ConfigMap has been written. */
  readonly onPublished?: () => void;
  readonly now: () => Date;
  readonly log: Log;
}

/** A watch tells when someone changes the ConfigMap; it is looked at all the same, this often, in milliseconds. */
const RECHECK_MS = 60_000;

export function createCaBundleReconciler(deps: CaBundleDeps): Reconcile {
  return async (_key, signal) => {
    const bundle = deps.bundle();
    if (bundle === undefined) return AWAIT_CHANGE;
    const live = await deps.readConfigMap(CABUNDLE_CONFIGMAP, signal);
    const desired = withBundle(live, bundle, deps.namespace);
    if (!isDeepStrictEqual(live, desired)) {
      const write = live === undefined ? deps.createConfigMap : deps.replaceConfigMap;
      await write(desired, signal);
      deps.log.info({}, 'published the CA bundle');
      deps.onPublished?.();
    }
    return requeueIn(RECHECK_MS, deps.now());
  };
}

/** Beside what others put there. */
function withBundle(existing: ConfigMap | undefined, bundle: string, namespace: string): ConfigMap {
  const { metadata, data } = existing ?? {};
  return {
    ...(existing ?? { apiVersion: 'v1', kind: 'ConfigMap' }),
    metadata: {
      ...metadata,
      namespace,
      name: CABUNDLE_CONFIGMAP,
      labels: { ...metadata?.labels, ...ownStateLabels },
    },
    data: { ...data, [CA_BUNDLE_KEY]: bundle },
  };
}
