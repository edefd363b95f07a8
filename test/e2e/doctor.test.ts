// suite: shared-plane, sandbox: long
/** `gatehouse doctor`, on a healthy cluster and on broken ones. */
import { afterAll, beforeAll, expect, test } from 'vitest';

import type { Finding } from '../../src/cli/inspect/doctor/finding.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { mutatingWebhookConfigurations, secrets } from '../../src/kube/well-known.ts';
import { READS_SECRET } from '../../src/runtime/policies/read-records.ts';
import { CLUSTER_ROLE_BINDINGS, SYSTEM_NAMESPACE, type Cluster } from '../support/cluster.ts';
import type { User } from '../support/control-plane.ts';
import { enforceExamples, startGatehouse } from '../support/gatehouse-cluster.ts';
import type { Replica } from '../support/gatehouse.ts';
import { eventually } from '../support/processes.ts';
import { runGatehouse } from '../support/review-command.ts';

let cluster: Cluster;
let replica: Replica;

beforeAll(async () => {
  ({ cluster, replica } = await startGatehouse());
  const records = { namespace: SYSTEM_NAMESPACE, name: READS_SECRET };
  // Policies that are older than the review of their reads get a warning.
  await cluster.see('the review of policies', secrets, records);
  await enforceExamples(cluster);
});

afterAll(() => cluster.stop());

async function doctorAs(
  user: User,
): Promise<{ readonly code: number | null; readonly bad: readonly Finding[] }> {
  const { code, stdout, stderr } = await runGatehouse([
    ...['doctor', '-o', 'json', '--kubeconfig', cluster.plane.kubeconfig(user)],
  ]);
  expect(stderr).toBe('');
  const { findings } = JSON.parse(stdout) as { readonly findings: readonly Finding[] }; // as docs/status.md promises
  return { code, bad: findings.filter(({ severity }) => severity !== 'ok') };
}

const one = (bad: readonly Finding[], check: string): Finding | undefined =>
  bad.find((finding) => finding.check === check);

test('the doctor finds nothing in a healthy cluster', async () => {
  const { code, bad } = await doctorAs('admin');
  // after the first audit
  const unused = /^AdmissionPolicy servers matched no existing object at its last audit, \d+s ago$/;
  expect(bad.filter(({ seen }) => !unused.test(seen))).toEqual([]);
  expect(code).toBe(0);
});

test('the doctor lists the missing permissions of its user, and does not report them as problems of the cluster', async () => {
  const { code, bad } = await doctorAs('alice');
  expect(new Set(bad.map(({ severity }) => severity))).toEqual(new Set(['unknown']));
  expect(one(bad, 'access')?.seen).toBe('no permission to create subjectaccessreviews.authorization.k8s.io');
  expect(one(bad, 'webhook-reach')?.next).toContain('kubectl auth can-i create restorewindows.gatehouse.dev');
  // a check that could not be made may hide a problem
  expect(code).toBe(1);
});

test('the doctor finds missing ClusterRoleBindings', async () => {
  for (const name of ['gatehouse-webhook', 'gatehouse-controllers', 'gatehouse-references'])
    await cluster.admin.delete(CLUSTER_ROLE_BINDINGS, { name });
  const found = async () => {
    const { code, bad } = await doctorAs('admin');
    expect(one(bad, 'access')).toMatchObject({ severity: 'problem', next: 'kubectl apply -k deploy' });
    expect(one(bad, 'access')?.seen).toContain('get/list/watch admissionpolicies.gatehouse.dev');
    expect(one(bad, 'governed-kinds')).toMatchObject({ severity: 'problem' });
    expect(one(bad, 'governed-kinds')?.seen).toContain('datacenters.infra.example.com');
    expect(code).toBe(1);
    return true;
  };
  await eventually('the authorizer knows', found);
  await cluster.applyFolder('base', ({ kind }) => kind === 'ClusterRoleBinding');
});

test('the doctor finds a replica that is gone, and a bundle that another manager owns', async () => {
  await replica.program.stop(15_000);
  const ref = { name: 'gatehouse' };
  interface Configuration extends KubeObject {
    readonly webhooks: readonly { readonly clientConfig: object }[];
  }
  const live = await cluster.admin.get<Configuration>(mutatingWebhookConfigurations, ref);
  if (live === undefined) throw new Error('there is no configuration to break');
  // Replaces the bundle like cert-manager's cainjector.
  await cluster.admin.replace<Configuration>(
    mutatingWebhookConfigurations,
    {
      ...live,
      metadata: { ...live.metadata, annotations: { 'cert-manager.io/inject-ca-from': 'other/cert' } },
      webhooks: live.webhooks.map((webhook) => ({
        ...webhook,
        clientConfig: {
          ...webhook.clientConfig,
          caBundle: Buffer.from(cluster.plane.ca).toString('base64'),
        },
      })),
    },
    { fieldManager: 'cainjector' },
  );

  const { code, bad } = await doctorAs('admin');
  expect(code).toBe(1);
  expect(one(bad, 'leader')?.seen).toBe('no replica holds the Lease gatehouse-system/gatehouse');
  expect(one(bad, 'webhook-reach')?.seen).toContain(
    'failed calling webhook "own-opening.mutate.gatehouse.dev"',
  );
  expect(one(bad, 'fail-closed')?.seen).toContain('no replica responds');
  expect(one(bad, 'ca-bundle')?.seen).toContain('MutatingWebhookConfiguration gatehouse: ');
  const rivals = bad.filter(({ check }) => check === 'rivals').map(({ seen }) => seen);
  expect(rivals).toEqual([
    expect.stringContaining('also cert-manager') as string,
    expect.stringContaining('"cainjector" also writes caBundle') as string,
  ]);
});

test('wrong usage exits with 2', async () => {
  expect((await runGatehouse(['doctor', '-o', 'xml'])).code).toBe(2);
});
