/** Every way to install Gatehouse on an empty cluster: its pods are ready, the policy refuses, the removal leaves nothing. */
import { mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';

import { createClientCa } from '../support/client-certificates.ts';
import { eventually } from '../support/processes.ts';
import { GOVERNED_NAMESPACE } from '../support/node/governed-load.ts';
import {
  CHART,
  applyAndWait,
  govern,
  helm,
  leftSince,
  objectsOf,
  refuses,
  rolledOut,
  startPodNode,
  SYSTEM,
  wipe,
} from '../support/node/installed.ts';
import { argumentPatch, withKustomization } from '../support/kustomization.ts';
import { PAUSE_IMAGE } from '../support/node/node-files.ts';
import type { NodeCluster } from '../support/node/node.ts';

const ROOT = join(import.meta.dirname, '..', '..');

let node: NodeCluster;
let before: ReadonlySet<string>;
/** Of the API server, for the component client-ca. */
const clientCa = createClientCa('gatehouse clients');
const files = mkdtempSync(join(tmpdir(), 'gatehouse-api-server-'));

beforeAll(async () => {
  const flag = `--admission-control-config-file=${admissionConfiguration()}`;
  node = await startPodNode({ apiServerFlags: [flag], enforcesNetworkPolicies: true });
  before = await objectsOf(node);
});
afterAll(async () => {
  await node.stop();
  rmSync(files, { recursive: true });
});

afterEach(async ({ task }) => {
  if (task.result?.state === 'fail') await wipe(node);
});

/** The files of docs/client-certificates.md. Returns the path of the one that names the other. */
function admissionConfiguration(): string {
  const { cert, key } = clientCa.issue({ commonName: 'kube-apiserver' });
  const user = {
    'client-certificate-data': Buffer.from(cert).toString('base64'),
    'client-key-data': Buffer.from(key).toString('base64'),
  };
  const write = (name: string, content: object): string => {
    writeFileSync(join(files, name), JSON.stringify(content)); // JSON is YAML
    return join(files, name);
  };
  const kubeConfigFile = write('webhook-kubeconfig.yaml', {
    apiVersion: 'v1',
    kind: 'Config',
    users: [{ name: `gatehouse.${SYSTEM}.svc`, user }],
  });
  const kind = { apiVersion: 'apiserver.config.k8s.io/v1', kind: 'WebhookAdmissionConfiguration' };
  return write('admission.yaml', {
    apiVersion: 'apiserver.config.k8s.io/v1',
    kind: 'AdmissionConfiguration',
    plugins: ['ValidatingAdmissionWebhook', 'MutatingAdmissionWebhook'].map((name) => ({
      name,
      configuration: { ...kind, kubeConfigFile },
    })),
  });
}

/**
 * As docs/installing.md says, with the manifests of this installation. Nothing is left.
 * The pods end immediately; lifecycle.test.ts waits for them the way a user does.
 */
async function remove(...manifests: readonly string[]): Promise<void> {
  await node.inSystem('scale', 'deployment', '--all', '--replicas=0');
  await node.inSystem('delete', 'pods', '--all', '--force', '--grace-period=0');
  await node.kubectl('delete', 'admissionpolicies,restoredetectors,restorewindows', '--all');
  await Promise.all([
    node.kubectl('delete', '--ignore-not-found', ...manifests),
    node.kubectl('delete', 'namespace', GOVERNED_NAMESPACE, '--ignore-not-found'),
  ]);
  const installed = ['-l', 'gatehouse.dev/installed-by=gatehouse-controllers'];
  await node.kubectl('delete', 'validatingadmissionpolicies,validatingadmissionpolicybindings', ...installed);
  await node.kubectl('delete', 'clustertrustbundle', 'gatehouse.dev:ca:bundle', '--ignore-not-found');
  await nothingLeft();
}

const nothingLeft = async (): Promise<void> => {
  // The garbage collector removes what others own.
  await expect.poll(() => leftSince(node, before), { timeout: 20_000, interval: 2_000 }).toEqual([]);
};

async function works(seconds: number): Promise<void> {
  expect(seconds).toBeLessThan(60);
  await govern(node);
  const restricted = ['run', 'forbidden', '--image=any', '--dry-run=server', '-n', SYSTEM];
  await expect(node.kubectl(...restricted)).rejects.toThrow(/violates PodSecurity "restricted/);
}

describe('overlays', () => {
  // The other suites use the default. lifecycle.test.ts upgrades through `from-single`.
  const overlays = readdirSync(join(ROOT, 'deploy', 'overlays')).filter(
    (name) => !['default', 'from-single', 'high-availability'].includes(name),
  );
  it.each(overlays)('%s', async (name) => {
    const folder = `deploy/overlays/${name}`;
    if (name === 'restore-velero') await node.kubectl('apply', '-k', 'deploy'); // its kinds first, as docs/installing.md says
    await works(await applyAndWait(node, '-k', folder));
    await remove('-k', folder);
  });

  it('high-availability serves with one pod that waits for another node', async () => {
    const folder = 'deploy/overlays/high-availability';
    await node.kubectl('apply', '-k', folder);
    const oneReady = '--for=jsonpath={.status.readyReplicas}=1';
    await node.inSystem('wait', 'deployment', '--all', oneReady, '--timeout=60s');
    await govern(node);
    await remove('-k', folder);
  });
});

describe('install.yaml and components', () => {
  it('install.yaml', async () => {
    await works(await applyAndWait(node, '--server-side', '-f', 'deploy/install.yaml'));
    await remove('-f', 'deploy/install.yaml');
  });

  const parts = ['without-certificates', 'without-conversions', 'without-injection', 'without-restores'];
  const additions = [
    ...['cert-manager-compat', 'compile-policies', 'delete-secrets', 'distribute-bundles'],
    ...['openshift-compat', 'policy-reports', 'restarts', 'restore-rehearsal', 'status-page'],
  ];
  const inOverlays = ['backstop', 'disruption-budget', 'network-policy', 'single', 'single-account'];

  it('knows every component', () => {
    const known = [...parts, ...additions, ...inOverlays, 'client-ca', 'namespaces'];
    expect(readdirSync(join(ROOT, 'deploy', 'components')).sort()).toEqual(known.sort());
  });

  it('all components that leave out', async () => {
    await withKustomization('overlays/default', { components: parts }, async (folder) => {
      await works(await applyAndWait(node, '-k', folder));
      await remove('-k', folder);
    });
  });

  it('all components that add; with client-ca only the API server is answered', async () => {
    const components = [...additions, 'client-ca'];
    await withKustomization('overlays/default', { components }, async (folder) => {
      const name = 'gatehouse-client-ca';
      await node.apply([
        { apiVersion: 'v1', kind: 'Namespace', metadata: { name: SYSTEM } },
        {
          apiVersion: 'v1',
          kind: 'ConfigMap',
          metadata: { name, namespace: SYSTEM },
          data: { 'ca.crt': clientCa.cert },
        },
      ]);
      await works(await applyAndWait(node, '-k', folder));
      const path = 'jsonpath={.spec.clusterIP}';
      const address = await node.inSystem('get', 'service', 'gatehouse', '-o', path);
      const answer = ['-ksS', '-o', '/dev/null', '-w', '%{http_code}', '-d', '{}'];
      expect(await node.inNode('curl', ...answer, `https://${address}/validate`)).toBe('401');
      await remove('-k', folder);
    });
  });

  it('namespaces: rights in single namespaces', async () => {
    const covered = [SYSTEM, GOVERNED_NAMESPACE];
    const patches = [argumentPatch(`--namespaces=${covered.join(',')}`)];
    await node.apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: GOVERNED_NAMESPACE } });
    await withKustomization('overlays/default', { components: ['namespaces'], patches }, async (folder) => {
      await node.kubectl('apply', '-k', folder);
      for (const namespace of covered)
        await node.kubectl('apply', '-n', namespace, '-k', 'deploy/components/namespaces/bindings');
      await rolledOut(node);
      await works(0);
      await remove('-k', folder);
    });
  });
});

describe('the NetworkPolicies of the default', () => {
  const reach = async (namespace: string, address: string): Promise<string> => {
    const connect = ['nc', '-w', '3', ...address.split(':'), '-e', '/bin/busybox', 'true'];
    return await node.kubectl('-n', namespace, 'exec', 'caller', '--', '/bin/busybox', ...connect).then(
      () => 'reached',
      (error: unknown) => (/timed out|refused/.test(String(error)) ? 'blocked' : String(error)),
    );
  };

  it('admit webhooks from everywhere, and metrics from labelled namespaces only', async () => {
    await works(await applyAndWait(node, '-k', 'deploy'));
    const namespaces = { stranger: {}, monitoring: { metrics: 'enabled' } };
    for (const [name, labels] of Object.entries(namespaces))
      await node.apply([{ apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } }, caller(name)]);
    for (const name of Object.keys(namespaces))
      await node.kubectl('-n', name, 'wait', 'pod/caller', '--for=condition=Ready', '--timeout=30s');
    const webhooks = ['-l', 'app.kubernetes.io/component=webhook'];
    const ip = await node.inSystem('get', 'pods', ...webhooks, '-o', 'jsonpath={.items[0].status.podIP}');
    expect({
      webhook: [await reach('stranger', `${ip}:8443`), await reach('monitoring', `${ip}:8443`)],
      metrics: [await reach('stranger', `${ip}:8080`), await reach('monitoring', `${ip}:8080`)],
    }).toEqual({ webhook: ['reached', 'reached'], metrics: ['blocked', 'reached'] });
    await node.kubectl('delete', 'namespace', ...Object.keys(namespaces));
    await remove('-k', 'deploy');
  });
});

const caller = (namespace: string): object => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: 'caller', namespace },
  spec: {
    terminationGracePeriodSeconds: 0,
    containers: [{ name: 'caller', image: PAUSE_IMAGE, imagePullPolicy: 'Never' }],
  },
});

describe('Helm 4', () => {
  const generations = async (): Promise<string> => {
    const path = '{range .items[*]}{.metadata.name} {.metadata.generation}{"\\n"}{end}';
    return await node.inSystem('get', 'deployments', '-o', `jsonpath=${path}`);
  };
  const replicas = async (): Promise<string> =>
    await node.inSystem('get', 'deployment/gatehouse-webhook', '-o', 'jsonpath={.spec.replicas}');

  it('install, upgrade, the same upgrade twice, rollback, uninstall', async () => {
    const from = performance.now();
    await helm(node, 'install', 'gatehouse', CHART, '--create-namespace', '--wait');
    await node.kubectl('label', 'namespace', SYSTEM, 'pod-security.kubernetes.io/enforce=restricted');
    await works((performance.now() - from) / 1_000);
    const larger = ['--set', 'replicas=3', '--set', 'resources.limits.memory=640Mi', '--wait'];
    await helm(node, 'upgrade', 'gatehouse', CHART, ...larger);
    expect(await replicas()).toBe('3');
    const upgraded = await generations();
    await helm(node, 'upgrade', 'gatehouse', CHART, ...larger);
    expect(await generations()).toBe(upgraded);
    await helm(node, 'rollback', 'gatehouse', '1', '--wait');
    expect(await replicas()).toBe('2');
    await refuses(node);
    await helm(node, 'uninstall', 'gatehouse');
    await eventually('no webhook configuration is left', async () => {
      const kinds = 'mutatingwebhookconfigurations,validatingwebhookconfigurations';
      return !(await node.kubectl('get', kinds, '-o', 'name')).includes('gatehouse');
    });
    await node.kubectl('delete', 'admissionpolicies', '--all');
    await node.kubectl('delete', 'namespace', SYSTEM, GOVERNED_NAMESPACE);
    await node.kubectl('delete', 'customresourcedefinitions', '-l', 'app.kubernetes.io/part-of=gatehouse');
    await node.kubectl('delete', 'clustertrustbundle', 'gatehouse.dev:ca:bundle', '--ignore-not-found');
    await nothingLeft();
  });
});
