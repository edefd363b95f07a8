// suite: shared-plane, sandbox: long
/** `gatehouse status` and `gatehouse doctor`, on a healthy cluster and on broken ones. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { parse } from 'yaml';

import { clusterAdmin } from '../../src/cli/sandbox/tour-objects.ts';
import type { Finding } from '../../src/cli/inspect/doctor/finding.ts';
import type { StatusReport } from '../../src/cli/inspect/status/report/status-report.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { configMaps, mutatingWebhookConfigurations, secrets } from '../../src/kube/well-known.ts';
import { READS_SECRET } from '../../src/runtime/policies/read-records.ts';
import {
  CLUSTER_ROLE_BINDINGS,
  SYSTEM_NAMESPACE,
  type Cluster,
  askForCertificate,
} from '../support/cluster.ts';
import type { User } from '../support/control-plane.ts';
import { enforceExamples, startGatehouse } from '../support/gatehouse-cluster.ts';
import type { Replica } from '../support/gatehouse.ts';
import { eventually } from '../support/processes.ts';
import { runGatehouse, type Ran } from '../support/review-command.ts';

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

const statusAs = (user: User, ...args: readonly string[]): Promise<Ran> =>
  runGatehouse(['status', ...args, '--kubeconfig', cluster.plane.kubeconfig(user)]);

async function reportAs(user: User): Promise<StatusReport> {
  const { stdout } = await statusAs(user, '-o', 'json');
  return JSON.parse(stdout) as StatusReport;
}

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
  expect(one(bad, 'access')?.seen).toBe(
    'this user lacks permission to create subjectaccessreviews.authorization.k8s.io',
  );
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

test('the command exits with 0 for a healthy cluster, as text, JSON and YAML', async () => {
  await askForCertificate(cluster, 'shop', 'third-party');
  await cluster.admin.create(configMaps, {
    metadata: { namespace: 'shop', name: 'trust', annotations: { 'gatehouse.dev/inject-cabundle': 'true' } },
  });
  const { stdout } = await eventually('the cluster is healthy', async () => {
    const ran = await statusAs('admin');
    return ran.code === 0 && ran.stdout.includes('shop/third-party-tls') ? ran : undefined;
  });
  expect(stdout).toContain('Leader: one, for ');
  expect(stdout).toMatch(/^ {2}[0-9a-f]{8} +active .* \|=+$/m);
  expect(stdout).toMatch(/^ {2}ConfigMap +shop\/trust +Current +authority$/m);
  expect(stdout).toMatch(/^ {2}servers +True +True +Deny/m);
  expect(stdout).toContain('Gatehouse is healthy.');
  expect(stdout).not.toContain('\u001b');

  const [json, yaml] = await Promise.all([statusAs('admin', '-o', 'json'), statusAs('admin', '-o', 'yaml')]);
  expect(json.stdout + yaml.stdout).not.toContain('PRIVATE KEY');
  const report = JSON.parse(json.stdout) as StatusReport;
  expect(report).toMatchObject({ namespace: SYSTEM_NAMESPACE, healthy: true, attention: [] });
  expect(report.servingCerts.items.map(({ name, state }) => [name, state])).toEqual([
    ['gatehouse-serving', 'Valid'],
    ['third-party-tls', 'Valid'],
  ]);
  expect(Object.keys(parse(yaml.stdout) as StatusReport)).toEqual(Object.keys(report));
});

test('the output lists each part that the user lacks permission to read, and shows the others', async () => {
  const stranger = await statusAs('alice');
  expect(stranger.code).toBe(1);
  expect(stranger.stderr).toBe('');
  for (const what of ['Lease', 'Secret', 'ConfigMap', 'AdmissionPolicies', 'RestoreWindows'])
    expect(stranger.stdout).toContain(`(permission to read ${what}`);

  await grantAlice();
  const report = await eventually('alice may read', async () => {
    const seen = await reportAs('alice');
    return seen.authority.source === 'ConfigMap' ? seen : undefined;
  });
  expect(report.attention).toEqual([]);
  expect(report.authority.generations).toMatchObject([{ state: 'trusted', expired: false }]);
  expect(report.servingCerts.unread).toMatchObject([{ reason: 'Forbidden' }]);
  expect(report.injectionTargets.items).toContainEqual(
    expect.objectContaining({ kind: 'ConfigMap', name: 'trust', state: 'Current' }),
  );
  expect(report.admissionPolicies.items).toContainEqual(
    expect.objectContaining({ name: 'servers', ready: 'True' }),
  );
});

/** Grants all that the command reads, except Secrets, with the ClusterRole that the manual recommends. */
async function grantAlice(): Promise<void> {
  const manual = readFileSync(join(import.meta.dirname, '..', '..', 'docs', 'status.md'), 'utf8');
  const [, yaml = ''] = /```yaml\n(apiVersion: rbac[^`]*)```/.exec(manual) ?? [];
  const role = parse(yaml) as KubeObject;
  const name = role.metadata?.name ?? '';
  const { roleRef, ...binding } = clusterAdmin('test-alice-looks', 'alice') as KubeObject & {
    readonly roleRef: object;
  };
  await cluster.apply(role, { ...binding, ...{ roleRef: { ...roleRef, name } } });
}

test('no replica leads after the last one has stopped', async () => {
  await replica.program.stop(15_000);
  const { code, stdout } = await statusAs('admin');
  expect(stdout).toContain(`- Lease ${SYSTEM_NAMESPACE}/gatehouse: no replica leads`);
  expect(code).toBe(1);
});

test('the doctor finds a replica that is gone, and a bundle that another manager owns', async () => {
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
        clientConfig: { ...webhook.clientConfig, caBundle: Buffer.from(cluster.plane.ca).toString('base64') },
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
    expect.stringContaining('from cert-manager: if both run') as string,
    expect.stringContaining('"cainjector" also writes caBundle') as string,
  ]);
});
