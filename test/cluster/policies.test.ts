/** Every policy of the documentation and of the library at the same time, on a node with pods: none may harm the cluster. */
import { afterAll, beforeAll, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';

import type { KubeObject } from '../../src/json/kube-object.ts';
import { pages, scriptOf } from '../support/doc-pages.ts';
import { applyAndWait, rolledOut, startPodNode } from '../support/node/installed.ts';
import { NODE_NAME, PAUSE_IMAGE } from '../support/node/node-files.ts';
import type { NodeCluster } from '../support/node/node.ts';
import { eventually } from '../support/processes.ts';

interface Policy extends KubeObject {
  readonly status?: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] };
}

let node: NodeCluster;
beforeAll(async () => {
  node = await startPodNode();
  await applyAndWait(node, '-k', 'deploy');
  await node.kubectl('apply', '-k', 'deploy/examples');
  await node.kubectl('apply', '-k', 'deploy/examples/library');
  for (const object of documented()) await node.apply(object);
  await eventually('the policies are in force', async () => (await waiting()).length === 0, {
    timeoutMs: 120_000,
    everyMs: 2_000,
  }).catch(async (error: unknown) => {
    throw new Error(`not in force: ${(await waiting()).join(', ')}`, { cause: error });
  });
});
afterAll(() => node.stop());

/** The whole manifests of the pages: kinds, permissions, then policies, each with a name of its own. */
function documented(): readonly KubeObject[] {
  const wanted = ['CustomResourceDefinition', 'ClusterRole', 'AdmissionPolicy'];
  const found = pages().flatMap((page) =>
    scriptOf(page)
      .actions.flatMap((action) => (action.kind === 'apply' || action.kind === 'write' ? [action.text] : []))
      .filter((text) => /^kind: /m.test(text))
      .flatMap((text) => parseAllDocuments(text, { merge: true }))
      .map((document) => document.toJS() as KubeObject)
      .filter(({ kind = '' }) => wanted.includes(kind))
      .map((object) => ({ object, page: page.path })),
  );
  return found
    .toSorted((a, b) => wanted.indexOf(a.object.kind ?? '') - wanted.indexOf(b.object.kind ?? ''))
    .map(({ object, page }, n) => {
      if (object.kind !== 'AdmissionPolicy') return object;
      const name = `${page.toLowerCase().replaceAll(/[^a-z]+/g, '-')}-${n}`;
      return { ...object, metadata: { ...object.metadata, name } };
    });
}

async function waiting(): Promise<readonly string[]> {
  const { items } = JSON.parse(await node.kubectl('get', 'admissionpolicies', '-o', 'json')) as {
    readonly items: readonly Policy[];
  };
  expect(items.length).toBeGreaterThan(35);
  const inForce = ({ status }: Policy) =>
    status?.conditions?.some(({ type, status: is }) => type === 'WebhooksInstalled' && is === 'True');
  return items.filter((policy) => inForce(policy) !== true).map(({ metadata }) => metadata?.name ?? '');
}

/** What the add-ons of a cluster are: a pod of the system that controls its node, without labels of a team. */
const addOn = (name: string) => ({
  apiVersion: 'apps/v1',
  kind: 'DaemonSet',
  metadata: { name, namespace: 'kube-system' },
  spec: {
    selector: { matchLabels: { name } },
    template: {
      metadata: { labels: { name } },
      spec: {
        hostNetwork: true,
        containers: [{ name, image: PAUSE_IMAGE, securityContext: { privileged: true } }],
      },
    },
  },
});

/** Works only if the controllers of Kubernetes, the kubelet and a user with its namespaces can write. */
async function clusterWorks(name: string): Promise<void> {
  await node.apply(addOn(name));
  await node.kubectl('-n', 'kube-system', 'rollout', 'status', `daemonset/${name}`, '--timeout=60s');
  const labels = { 'example.com/team': 'shop' };
  await node.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } });
  await eventually(`the ServiceAccount and the CA of the namespace ${name}`, async () => {
    await node.kubectl('-n', name, 'get', 'serviceaccount/default', 'configmap/kube-root-ca.crt');
    return true;
  });
  await node.kubectl('delete', 'namespace', name, '--timeout=60s');
  const lease = ['-n', 'kube-node-lease', 'get', `lease/${NODE_NAME}`];
  const renewed = async () => await node.kubectl(...lease, '-o', 'jsonpath={.spec.renewTime}');
  const before = await renewed();
  await eventually('the kubelet renews its Lease', async () => (await renewed()) !== before);
}

it('the cluster works, and Gatehouse can be upgraded', async () => {
  await clusterWorks('first');
  await applyAndWait(node, '-k', 'deploy', '--server-side', '--force-conflicts');
  await node.inSystem('rollout', 'restart', 'deployment');
  await rolledOut(node);
});

it('without a running webhook, the cluster works, and Gatehouse comes back', async () => {
  await node.inSystem('scale', 'deployment/gatehouse-webhook', '--replicas=0');
  await node.inSystem(
    'wait',
    'pod',
    '--for=delete',
    '-l',
    'app.kubernetes.io/component=webhook',
    '--timeout=60s',
  );
  await node.kubectl('-n', 'kube-system', 'rollout', 'restart', 'daemonset/first');
  await node.kubectl('-n', 'kube-system', 'rollout', 'status', 'daemonset/first', '--timeout=60s');
  await node.inSystem('delete', 'pods', '--all', '--timeout=60s');
  await node.inSystem('scale', 'deployment/gatehouse-webhook', '--replicas=2');
  await rolledOut(node);
});

it('after a reboot of the node, everything comes back', async () => {
  await node.reboot();
  // At first, the status of a Deployment is the one before the reboot, and its Service has endpoints that are gone.
  const works = async () => {
    await rolledOut(node);
    await clusterWorks('second');
    return true;
  };
  await eventually('the cluster works', works, { timeoutMs: 120_000, everyMs: 1_000 });
});

it('no controller of Kubernetes was refused anything', async () => {
  const { items } = JSON.parse(await node.kubectl('get', 'events', '-A', '-o', 'json')) as {
    readonly items: readonly { readonly reason: string; readonly message: string }[];
  };
  expect(items.filter(({ message }) => /denied the request|denied request/.test(message))).toEqual([]);
});
