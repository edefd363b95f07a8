/** A cluster with the manifests of deploy/ as kubectl applies them. */
import { parseAllDocuments } from 'yaml';

import { withSingleAccount } from '../../src/cli/deploy-manifests.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { localService, SYSTEM_NAMESPACE, type Cluster } from './cluster.ts';
import type { Kubectl } from './kubectl.ts';
import { withKustomization } from './kustomization.ts';

export type Deployed = ReturnType<typeof createDeployed>;

interface Changes {
  /** Of deploy/components: they also patch the policies of the backstop. */
  readonly components?: readonly string[];
  readonly namespace?: string;
}

export function createDeployed(cluster: Cluster, kubectl: Kubectl, port: number) {
  const applied: KubeObject[] = [];
  return {
    manifests: (): readonly KubeObject[] => applied,
    /** `kubectl apply -k` of a folder of deploy/. The Service leads to `port`; bindings include `gatehouse serve`. */
    apply: async (folder: string, changes: Changes = {}) => {
      const printed = await withKustomization(folder, changes, (own) => kubectl.says(`kustomize ${own}`));
      const rendered = parseAllDocuments(printed)
        .map((document) => document.toJS() as KubeObject) // our own manifests
        .filter(({ kind }) => kind !== 'Deployment') // no pods run here
        .map((object) =>
          object.kind === 'Service' ? localService(SYSTEM_NAMESPACE, 'gatehouse', port) : object,
        );
      const bound = withSingleAccount(rendered);
      await kubectl.says('apply -f -', { stdin: bound });
      applied.push(...bound);
    },
  };
}
