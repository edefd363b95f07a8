/**
 * Measures what the review of the author adds to a write of an AdmissionPolicy: `npm run bench:policies`. With
 * `-- --check` it fails when a target is missed. The floor is the same write of a copy of the policy, in a kind with the
 * same schema that Gatehouse does not see. Other load on the machine must not decide the result: the kinds of writes
 * alternate, and the result is the median of many batches, so that a burst of load spoils only its own batches.
 */
import { loadavg, availableParallelism } from 'node:os';
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
import { atMost, percentile, printFigures, type Figure } from './figures.ts';

const { values: flags } = parseArgs({ options: { check: { type: 'boolean', default: false } } });

const BATCHES = 15;
/** The smallest number whose p99 is not the maximum: one outlier alone does not decide a batch. */
const BATCH = 101;
const WARM_UP = 200;
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

/** The milliseconds of the three writes of a round. */
type Round = Readonly<Record<'reviewed' | 'unchanged' | 'floor', number>>;

/** Alternate, so that load that grows or falls affects all equally. */
const ORDERS = [
  ['reviewed', 'unchanged', 'floor'],
  ['floor', 'unchanged', 'reviewed'],
] as const satisfies readonly (readonly (keyof Round)[])[];

const ms = (value: number): string => `${value.toFixed(1)} ms`;

const cluster = await startClusterProcess('kube-apiserver');
try {
  const replica = await cluster.startReplica('one');
  await replica.whenReady(60_000);
  const figures = await measure(cluster);
  await replica.program.stop(30_000);
  printFigures(figures);
  if (flags.check && figures.some(({ target }) => target?.met === false)) process.exitCode = 1;
} finally {
  await cluster.stop();
}

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
  const patch = async (kind: Resource, spec: object) => {
    const startedAt = performance.now();
    await author.patchMerge(kind, NAME, { spec }, { dryRun: true });
    return performance.now() - startedAt;
  };
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
  const rounds: Round[] = [];
  for (let round = 0; round < WARM_UP + BATCHES * BATCH; round += 1) {
    const times = { reviewed: 0, unchanged: 0, floor: 0 };
    for (const at of ORDERS[round % ORDERS.length] ?? []) times[at] = await kinds[at](round);
    if (round >= WARM_UP) rounds.push(times);
  }
  return report(rounds, version);
}

function report(rounds: readonly Round[], version: string): readonly Figure[] {
  const batches = Array.from({ length: BATCHES }, (_, index) =>
    rounds.slice(index * BATCH, (index + 1) * BATCH),
  );
  /** The median of the batches. */
  const typical = (valueOf: (batch: readonly Round[]) => number) => percentile(batches.map(valueOf), 0.5);
  const at = (batch: readonly Round[], kind: keyof Round, share: number) =>
    percentile(
      batch.map((round) => round[kind]),
      share,
    );
  const time = (kind: keyof Round) =>
    [0.5, 0.99].map((share) => ms(typical((batch) => at(batch, kind, share)))).join(', ');
  const added = (base: keyof Round, share: number) =>
    typical((batch) => at(batch, 'reviewed', share) - at(batch, base, share));
  const ratio = (base: keyof Round, share: number) =>
    typical((batch) => at(batch, 'reviewed', share) / at(batch, base, share));
  const compared = (base: keyof Round) =>
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
    {
      what: `  load of the machine in the last minute, ${availableParallelism()} cores`,
      measured: (loadavg()[0] ?? 0).toFixed(1),
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
