/**
 * Measures what the review of the author adds to a write of an AdmissionPolicy: `npm run bench:policies`. With
 * `-- --check` it fails when a target is missed. The floor is the same write of a copy of the policy, in a kind with the
 * same schema that Gatehouse does not see. Other load on the machine must not decide the result: the kinds of writes
 * alternate, and the result is the median of many batches, so that a burst of load spoils only its own batches.
 */
import { parseArgs } from 'node:util';

import type { AdmissionPolicy } from '../../src/api/admission-policy.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { createClient, type KubeClient } from '../../src/kube/client.ts';
import type { Resource } from '../../src/kube/object.ts';
import { customResourceDefinitions } from '../../src/kube/well-known.ts';
import { ADMISSION_POLICIES } from '../../src/runtime/resources.ts';
import { eventually } from '../../test/support/processes.ts';
import { READS_REVIEWED } from '../../src/runtime/policies/read-records.ts';
import { startClusterProcess, type ClusterProcess } from './cluster-process.ts';
import { atMost, playBatches, runBenchmark, type Figure } from './figures.ts';

const { values: flags } = parseArgs({ options: { check: { type: 'boolean', default: false } } });

/** 101 is the smallest number whose p99 is not the maximum: one outlier alone does not decide a batch. */
const BATCHES = { warmUp: 200, batches: 15, batch: 101 };
/** Of the access reviews, in milliseconds. */
const MOST_ADDED = 20;
/** A reviewed write, in relation to the floor. */
const MOST_TIMES = 4;
const NAME = { name: 'bench' };
const COPIES = { ...ADMISSION_POLICIES, group: 'bench.example.com' };
const RBAC = 'rbac.authorization.k8s.io';
const ALL = ['get', 'list', 'watch', 'create', 'update', 'patch'];
const TARGETS = ['nodes', 'services', 'configmaps', 'serviceaccounts'];

type Crd = KubeObject & { readonly spec: object };

const KINDS = ['reviewed', 'unchanged', 'floor'] as const;
type Kind = (typeof KINDS)[number];

const ms = (value: number): string => `${value.toFixed(1)} ms`;

await runBenchmark(flags.check, async () => {
  const cluster = await startClusterProcess('kube-apiserver');
  try {
    const replica = await cluster.startReplica('one');
    await replica.whenReady(60_000);
    const figures = await measure(cluster);
    await replica.program.stop(30_000);
    return figures;
  } finally {
    await cluster.stop();
  }
});

async function measure({ rest, client, version }: ClusterProcess): Promise<readonly Figure[]> {
  const rules = [
    {
      apiGroups: [ADMISSION_POLICIES.group, COPIES.group],
      resources: [ADMISSION_POLICIES.resource],
      verbs: ALL,
    },
    { apiGroups: [''], resources: [...TARGETS, 'pods', 'namespaces'], verbs: ['get', 'list'] },
  ];
  const post = (kind: string, body: object) =>
    rest.request({
      method: 'POST',
      path: `/apis/${RBAC}/v1/${kind}s`,
      body: { apiVersion: `${RBAC}/v1`, ...body },
    });
  await post('clusterrole', { metadata: NAME, rules });
  await post('clusterrolebinding', {
    metadata: NAME,
    roleRef: { apiGroup: RBAC, kind: 'ClusterRole', name: NAME.name },
    subjects: [{ apiGroup: RBAC, kind: 'User', name: 'author' }],
  });
  const author = createClient(rest.impersonate({ user: 'author', groups: ['system:authenticated'] }));
  // Dry runs call the same webhooks. Controllers react to stored writes, and would compete with the next write.
  const patch = (kind: Resource, spec: object) => author.patchMerge(kind, NAME, { spec }, { dryRun: true });
  await client.create(ADMISSION_POLICIES, policyThatReads(TARGETS));
  await eventually('the API server calls the webhook', async () => {
    const { metadata } = await author.patchMerge(ADMISSION_POLICIES, NAME, {
      metadata: { annotations: { [READS_REVIEWED]: 'again' } },
    });
    return metadata?.annotations?.[READS_REVIEWED] !== 'again';
  });
  await createCopy(client);

  const variables = (round: number) => ({ variables: [{ name: 'round', expression: String(round) }] });
  const kinds = {
    reviewed: (round: number) => patch(ADMISSION_POLICIES, variables(round)),
    unchanged: (round: number) => patch(ADMISSION_POLICIES, { timeoutSeconds: 6 + (round % 2) }),
    floor: (round: number) => patch(COPIES, variables(round)),
  };
  const typical = await playBatches(KINDS, BATCHES, (kind, round) => kinds[kind](round));
  const time = (kind: Kind) => [0.5, 0.99].map((share) => ms(typical((at) => at(kind, share)))).join(', ');
  const added = (base: Kind, share: number) => typical((at) => at('reviewed', share) - at(base, share));
  const ratio = (base: Kind, share: number) => typical((at) => at('reviewed', share) / at(base, share));
  const compared = (base: Kind) =>
    [0.5, 0.99]
      .map((share) => `${ms(added(base, share))} (${ratio(base, share).toFixed(1)} times)`)
      .join(', ');
  return [
    {
      what: `write of a policy with ${TARGETS.length + 2} reads, kube-apiserver ${version}: p50, p99`,
      measured: time('reviewed'),
    },
    { what: '  the same policy, a change that needs no review', measured: time('unchanged') },
    {
      what: '  floor: the same write of a copy that Gatehouse does not see',
      measured: time('floor'),
    },
    {
      what: '  added by the access reviews, against a change that needs none',
      measured: compared('unchanged'),
      target: atMost(added('unchanged', 0.99), MOST_ADDED, ms),
    },
    {
      what: '  added by both webhooks and the access reviews, against the floor',
      measured: compared('floor'),
      target: atMost(
        Math.max(ratio('floor', 0.5), ratio('floor', 0.99)),
        MOST_TIMES,
        (value) => `${value.toFixed(1)} times the floor`,
      ),
    },
  ];
}

/** Copies the kind AdmissionPolicy, and the policy with its status. */
async function createCopy(client: KubeClient): Promise<void> {
  const name = `${ADMISSION_POLICIES.resource}.${ADMISSION_POLICIES.group}`;
  const { spec } = await eventually('the CRD of policies', () =>
    client.get<Crd>(customResourceDefinitions, { name }),
  );
  await client.create<Crd>(customResourceDefinitions, {
    metadata: { name: `${COPIES.resource}.${COPIES.group}` },
    spec: { ...spec, group: COPIES.group },
  });
  const policy = await eventually('the policy has a status', async () => {
    const found = await client.get<AdmissionPolicy>(ADMISSION_POLICIES, NAME);
    return found?.status?.conditions === undefined ? undefined : found;
  });
  const { annotations = {} } = policy.metadata;
  const copy = {
    apiVersion: `${COPIES.group}/${COPIES.version}`,
    ...{ kind: COPIES.kind, metadata: { ...NAME, annotations }, spec: policy.spec },
  };
  await eventually('the API serves copies', () => client.create(COPIES, copy));
  await client.patchStatus(COPIES, NAME, { status: policy.status });
}

function policyThatReads(targets: readonly string[]) {
  const references = targets.map((resource) => ({
    name: resource,
    path: `metadata.annotations["${resource}"]`,
    target: { apiGroup: '', resource },
  }));
  const match = {
    apiGroups: [''],
    apiVersions: ['v1'],
    resources: ['pods'],
    objectSelector: { matchLabels: { bench: 'yes' } },
  };
  const spec = { match, validate: { references, rules: [{ expression: 'namespaceObject != null' }] } };
  return { apiVersion: 'gatehouse.dev/v1alpha1', kind: 'AdmissionPolicy', metadata: NAME, ...{ spec } };
}
