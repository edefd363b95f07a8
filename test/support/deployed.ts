/** A cluster with the manifests of deploy/ as kubectl applies them. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, relative } from 'node:path';
import { parseAllDocuments } from 'yaml';

import { withSingleAccount } from '../../src/cli/deploy-manifests.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { localService, SYSTEM_NAMESPACE, type Cluster } from './cluster.ts';
import type { Kubectl } from './kubectl.ts';

const DEPLOY = join(import.meta.dirname, '..', '..', 'deploy');

export interface Deployed {
  /** Every object applied so far. */
  readonly manifests: () => readonly KubeObject[];
  /**
   * `kubectl apply -k` of a folder of deploy/, except for the Service, which leads to `port` on this machine. Bindings also
   * apply to the account of `gatehouse serve`.
   */
  readonly apply: (folder: string, changes?: Changes) => Promise<void>;
}

/** Of the user's kustomization. */
interface Changes {
  /** Of deploy/components: they also patch the policies of the backstop. */
  readonly components?: readonly string[];
  readonly namespace?: string;
  /** Bindings apply to no other account. */
  readonly isExact?: boolean;
}

export function createDeployed(cluster: Cluster, kubectl: Kubectl, port: number): Deployed {
  const applied: KubeObject[] = [];
  return {
    manifests: () => applied,
    apply: async (folder, changes = {}) => {
      const rendered = parseAllDocuments(await kustomize(kubectl, folder, changes))
        .map((document) => document.toJS() as KubeObject) // our own manifests
        .filter(({ kind }) => kind !== 'Deployment') // no pods run here
        .map((object) =>
          object.kind === 'Service' ? localService(SYSTEM_NAMESPACE, 'gatehouse', port) : object,
        );
      const bound = changes.isExact === true ? rendered : withSingleAccount(rendered);
      await kubectl.says('apply -f -', { stdin: bound });
      applied.push(...bound);
    },
  };
}

async function kustomize(
  kubectl: Kubectl,
  folder: string,
  { components = [], namespace }: Changes,
): Promise<string> {
  const own = mkdtempSync(join(tmpdir(), 'gatehouse-overlay-'));
  try {
    const inDeploy = (path: string) => relative(own, join(DEPLOY, path));
    const kustomization = {
      ...(namespace === undefined ? {} : { namespace }),
      resources: [inDeploy(folder)],
      components: components.map((name) => inDeploy(join('components', name))),
    };
    writeFileSync(join(own, 'kustomization.yaml'), JSON.stringify(kustomization)); // JSON is YAML
    return await kubectl.says(`kustomize ${own}`);
  } finally {
    rmSync(own, { recursive: true });
  }
}
