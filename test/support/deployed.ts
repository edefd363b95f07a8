/**
 * A cluster with the manifests of deploy/ as kubectl applies them, and Gatehouse with a token of its own service
 * account.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseAllDocuments } from 'yaml';

import type { KubeObject } from '../../src/json/kube-object.ts';
import { hasBackstop } from './backstop.ts';
import { localService, SYSTEM_NAMESPACE, type Cluster } from './cluster.ts';
import { testsSandbox } from './control-plane.ts';
import type { Kubectl } from './kubectl.ts';

const DEPLOY = join(import.meta.dirname, '..', '..', 'deploy');

export interface Deployed {
  /** Every object applied so far. */
  readonly manifests: () => readonly KubeObject[];
  /** `kubectl apply -k` of a folder of deploy/, except for the Service, which leads to `port` on this machine. */
  readonly apply: (folder: string) => Promise<void>;
}

export function createDeployed(cluster: Cluster, kubectl: Kubectl, port: number): Deployed {
  const applied: KubeObject[] = [];
  // No pods run here, and deploy.test.ts covers the PodDisruptionBudget on API servers without policy/v1.
  const isLeftOut = ({ kind }: KubeObject) =>
    kind === 'Deployment' ||
    (kind === 'PodDisruptionBudget' && cluster.plane.version.minor < 21) ||
    (kind?.startsWith('ValidatingAdmissionPolicy') === true && !hasBackstop(cluster));
  return {
    manifests: () => applied,
    apply: async (folder) => {
      const rendered = parseAllDocuments(await kubectl.says(`kustomize ${join(DEPLOY, folder)}`))
        .map((document) => document.toJS() as KubeObject) // our own manifests
        .filter((object) => !isLeftOut(object))
        .map((object) =>
          object.kind === 'Service' ? localService(SYSTEM_NAMESPACE, 'gatehouse', port) : object,
        );
      await kubectl.says('apply -f -', { stdin: rendered });
      applied.push(...rendered);
    },
  };
}

/**
 * The path of a kubeconfig with a token for the ServiceAccount. The sandbox issues no such token: there, the user has a
 * static one.
 */
export async function serviceAccountKubeconfig({ plane, adminRest }: Cluster): Promise<string> {
  if (testsSandbox()) return plane.kubeconfig('gatehouse');
  const { status } = await adminRest.request<{ readonly status: { readonly token: string } }>({
    method: 'POST',
    path: `/api/v1/namespaces/${SYSTEM_NAMESPACE}/serviceaccounts/gatehouse/token`,
    body: { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec: {} },
  });
  const path = join(plane.folder, 'service-account.kubeconfig');
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'test',
    clusters: [
      {
        name: 'test',
        cluster: {
          server: plane.server,
          'certificate-authority-data': Buffer.from(plane.ca).toString('base64'),
        },
      },
    ],
    users: [{ name: 'gatehouse', user: { token: status.token } }],
    contexts: [{ name: 'test', context: { cluster: 'test', user: 'gatehouse' } }],
  };
  writeFileSync(path, JSON.stringify(config)); // JSON is YAML
  return path;
}
