/** What doctor and status say about a broken installation, from the words of a real API server and a real kubelet. */
import { execFile } from 'node:child_process';
import { afterAll, beforeAll, beforeEach, describe, expect, it, onTestFinished } from 'vitest';

import type { Finding } from '../../src/cli/inspect/doctor/finding.ts';
import { MAIN } from '../support/main-module.ts';
import { admissionPolicy } from '../support/objects.ts';
import { eventually } from '../support/processes.ts';
import { applyAndWait, govern, processesOf, rolledOut, startPodNode } from '../support/node/installed.ts';
import { GOVERNED_NAMESPACE } from '../support/node/governed-load.ts';
import { PAUSE_IMAGE } from '../support/node/node-files.ts';
import type { NodeCluster } from '../support/node/node.ts';

let node: NodeCluster;

beforeAll(async () => {
  node = await startPodNode();
  await applyAndWait(node, '-k', 'deploy');
  await govern(node);
});
afterAll(() => node.stop());
beforeEach(() => rolledOut(node));

const gatehouse = (...words: readonly string[]): Promise<string> =>
  new Promise((resolve) => {
    const args = [MAIN, ...words, '--kubeconfig', node.kubeconfig('admin')];
    // The exit code reports problems: only the output matters here.
    execFile(process.execPath, args, (_error, stdout, stderr) => resolve(stdout === '' ? stderr : stdout));
  });

async function findings(): Promise<readonly Finding[]> {
  const said = await gatehouse('doctor', '-o', 'json');
  return (JSON.parse(said) as { findings: readonly Finding[] }).findings; // docs/status.md#gatehouse-doctor
}

/** Runs doctor until a finding of this check says these words. */
const finding = async (check: string, words: RegExp): Promise<Finding> => {
  let last: readonly Finding[] = [];
  return await eventually(
    `doctor says ${String(words)}`,
    async () => {
      last = await findings();
      return last.find((one) => one.check === check && words.test(one.seen));
    },
    { everyMs: 1_000 },
  ).catch((error: unknown) => {
    const bad = last.filter(({ severity }) => severity !== 'ok');
    throw new Error(JSON.stringify(bad, undefined, 1), { cause: error });
  });
};

it('does not find problems in a new installation', async () => {
  expect((await findings()).filter(({ severity }) => severity === 'problem')).toEqual([]);
});

describe('a new version that does not start', () => {
  /** Even after a failure, which would otherwise fail the tests after it. */
  const undoAfterwards = (name: string) => {
    onTestFinished(async () => {
      await node.inSystem('rollout', 'undo', `deployment/${name}`);
    });
  };

  it('without its image', async () => {
    undoAfterwards('gatehouse-webhook');
    const deadline = ['-p', '{"spec":{"progressDeadlineSeconds":10}}'];
    await node.inSystem('patch', 'deployment', 'gatehouse-webhook', ...deadline);
    await node.inSystem(
      'set',
      'image',
      'deployment/gatehouse-webhook',
      'gatehouse=localhost:1/gatehouse:0.1.1',
    );
    await finding('deployments', /Pod .* does not start: (ErrImagePull|ImagePullBackOff)/);
    const stuck = await finding('deployments', /gatehouse-webhook: the new version does not become ready/);
    expect(stuck).toMatchObject({
      severity: 'problem',
      next: expect.stringContaining('rollout undo') as string,
    });
  });

  it('with a flag that does not exist', async () => {
    undoAfterwards('gatehouse-controllers');
    const flag = [{ op: 'add', path: '/spec/template/spec/containers/0/args/-', value: '--nonsense' }];
    await node.inSystem(
      'patch',
      'deployment',
      'gatehouse-controllers',
      '--type=json',
      '-p',
      JSON.stringify(flag),
    );
    const crash = await finding('deployments', /CrashLoopBackOff/);
    expect(crash.seen).toMatch(/--nonsense/); // the last line of its log
  });
});

it('webhooks scaled to 0: scale them, and no firewall', async () => {
  await node.inSystem('scale', 'deployment/gatehouse-webhook', '--replicas=0');
  const scaled = await finding('deployments', /gatehouse-webhook is scaled to 0/);
  expect(scaled.next).toContain('scale deployment gatehouse-webhook --replicas=2');
  const unreachable = await finding('webhook-reach', /connect: connection refused|no endpoints available/);
  expect(unreachable.next).not.toContain('firewall');
  await node.inSystem('scale', 'deployment/gatehouse-webhook', '--replicas=2');
});

it('a bundle of another CA: the check of bundles, and no firewall', async () => {
  await node.inSystem('scale', 'deployment/gatehouse-controllers', '--replicas=0'); // it would restore the bundle
  await eventually(
    'no leader',
    async () => (await processesOf(node, 'controllers').catch(() => [])).length === 0,
  );
  const caBundle = Buffer.from(node.ca).toString('base64');
  for (const kind of ['mutating', 'validating']) {
    const name = `${kind}webhookconfiguration/gatehouse`;
    const live = JSON.parse(await node.kubectl('get', name, '-o', 'json')) as { webhooks: readonly object[] };
    const patch = live.webhooks.map((_one, index) => ({
      op: 'replace',
      path: `/webhooks/${index}/clientConfig/caBundle`,
      value: caBundle,
    }));
    await node.kubectl('patch', name, '--type=json', '-p', JSON.stringify(patch));
  }
  const unreachable = await finding('webhook-reach', /x509: /);
  expect(unreachable.next).toBe('see the check ca-bundle');
  await node.inSystem('scale', 'deployment/gatehouse-controllers', '--replicas=2');
  await finding('webhook-reach', /the API server reaches Gatehouse/);
});

const policyOn = (name: string, apiGroup: string, resource: string, more: object = {}) =>
  admissionPolicy(name, {
    match: { apiGroups: [apiGroup], apiVersions: ['v1'], resources: [resource] },
    validate: { rules: [{ expression: 'has(object.metadata.labels)' }] },
    ...more,
  });

describe('policies on what Kubernetes itself writes', () => {
  it.each([
    ...['configmaps', 'serviceaccounts', 'serviceaccounts/token', 'endpoints', 'events', 'pods/binding'],
    ...['bindings', 'pods/status', 'discovery.k8s.io/endpointslices', 'apps/replicasets'],
    ...['storage.k8s.io/csinodes', 'storage.k8s.io/volumeattachments'],
    ...['rbac.authorization.k8s.io/clusterroles', 'flowcontrol.apiserver.k8s.io/flowschemas'],
  ])('%s: the answer to the write warns', async (scope) => {
    const [, group = '', resource = ''] = /^(?:([a-z0-9.]+\.k8s\.io|apps)\/)?(.+)$/.exec(scope) ?? [];
    const said = await node
      .apply(policyOn('trial', group, resource), '--dry-run=server', '--warnings-as-errors')
      .then(
        () => 'no warning',
        (error: unknown) => String(error),
      );
    expect(said).toContain(`Kubernetes also writes ${resource}`);
  });

  it('the first policy of the docs harms no pod of a namespace that is made after it', async () => {
    await node.kubectl('delete', 'namespace', GOVERNED_NAMESPACE);
    await node.kubectl('create', 'namespace', GOVERNED_NAMESPACE);
    const image = [`--image=${PAUSE_IMAGE}`, '--image-pull-policy=Never'];
    await node.kubectl('-n', GOVERNED_NAMESPACE, 'run', 'one', ...image);
    await node.kubectl('-n', GOVERNED_NAMESPACE, 'wait', 'pod/one', '--for=condition=Ready', '--timeout=60s');
    await node.kubectl('-n', GOVERNED_NAMESPACE, 'delete', 'pod/one', '--force');
  });
});

it('status shows why an audit lacks permission to read, and counts nothing', async () => {
  await node.apply(policyOn('pods-owner', '', 'pods', { failurePolicy: 'Ignore', enforcement: 'Warn' }));
  const status = await eventually('status has the reason', async () => {
    const said = await gatehouse('status');
    return /pods-owner .*(403|forbidden|may not)/i.test(said) ? said : undefined;
  });
  expect(status).toMatch(/^ +pods-owner +\S+ +\S+ +Warn +–/m);
  expect((await findings()).filter(({ seen }) => seen.includes('pods-owner matched no'))).toEqual([]);
  await node.kubectl('delete', 'admissionpolicy', 'pods-owner');
});
