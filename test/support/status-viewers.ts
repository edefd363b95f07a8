/** Service accounts with and without permission to view the status page of a replica, and its stream. */
import { onTestFinished } from 'vitest';

import type { KubeObject } from '../../src/json/kube-object.ts';
import type { Cluster } from './cluster.ts';
import { resourceOf } from './definitions.ts';
import type { Replica } from './gatehouse.ts';

export const VIEWERS = 'status-viewers';

export const serviceAccounts = resourceOf('', 'serviceaccounts', 'ServiceAccount');

export const createAccount = (cluster: Cluster, name: string): Promise<KubeObject> =>
  cluster.admin.create(serviceAccounts, { metadata: { namespace: VIEWERS, name } });

export async function letLook(cluster: Cluster, name: string): Promise<void> {
  const apiGroup = 'rbac.authorization.k8s.io';
  await cluster.apply({
    apiVersion: `${apiGroup}/v1`,
    kind: 'ClusterRoleBinding',
    metadata: { name: `status-viewer-${name}` },
    ...{
      roleRef: { apiGroup, kind: 'ClusterRole', name: 'gatehouse-status-viewer' },
      subjects: [{ kind: 'ServiceAccount', namespace: VIEWERS, name }],
    },
  });
}

export async function tokenFor(cluster: Cluster, name: string, audience?: string): Promise<string> {
  const { status } = await cluster.adminRest.request<{ readonly status: { readonly token: string } }>({
    method: 'POST',
    path: `/api/v1/namespaces/${VIEWERS}/serviceaccounts/${name}/token`,
    body: {
      apiVersion: 'authentication.k8s.io/v1',
      kind: 'TokenRequest',
      spec: audience === undefined ? {} : { audiences: [audience] },
    },
  });
  return status.token;
}

export const statusUrl = ({ operationsPort }: Replica, path = ''): string =>
  `http://127.0.0.1:${operationsPort}/status${path}`;

export async function visit(replica: Replica, token: string | undefined, path = '') {
  const response = await fetch(statusUrl(replica, path), {
    headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
    redirect: 'manual',
  });
  return { status: response.status, headers: response.headers, body: await response.text() };
}

/** Opens the stream of a status page, until the test ends. */
export async function listen(page: string, headers: Readonly<Record<string, string>>) {
  const stopped = new AbortController();
  const stop = () => {
    stopped.abort();
  };
  onTestFinished(stop);
  const response = await fetch(`${page}/events`, { headers, signal: stopped.signal });
  const heard = { text: '', over: false };
  void (async () => {
    for await (const chunk of response.body ?? []) heard.text += Buffer.from(chunk).toString();
    heard.over = true;
  })().catch(() => (heard.over = true));
  return { status: response.status, type: response.headers.get('content-type'), heard, stop };
}
