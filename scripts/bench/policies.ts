/**
 * Measures what the review of the author adds to a write of an AdmissionPolicy: `npm run bench:policies`. With
 * `-- --check` it fails when the target is missed. The kinds of writes alternate, so other load affects all equally.
 */
import { parseArgs } from 'node:util';

import { createClient } from '../../src/kube/client.ts';
import { ADMISSION_POLICIES, CONVERSION_POLICIES } from '../../src/runtime/resources.ts';
import { eventually } from '../../test/support/processes.ts';
import { READS_REVIEWED } from '../../src/runtime/policies/read-records.ts';
import { startClusterProcess, type ClusterProcess } from './cluster-process.ts';
import { atMost, percentile, printFigures, type Figure } from './figures.ts';

const { values: flags } = parseArgs({ options: { check: { type: 'boolean', default: false } } });

const ROUNDS = 600;
const WARM_UP = 100;
/** In milliseconds. */
const MOST_ADDED = 20;
const NAME = { name: 'bench' };
const RBAC = 'rbac.authorization.k8s.io';
const ALL = ['get', 'list', 'watch', 'create', 'update', 'patch'];
const TARGETS = ['nodes', 'services', 'configmaps', 'serviceaccounts'];

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
    { apiGroups: ['gatehouse.dev'], resources: ['admissionpolicies', 'conversionpolicies'], verbs: ALL },
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
  const patch = async (kind: typeof ADMISSION_POLICIES, spec: object) => {
    const startedAt = performance.now();
    await author.patchMerge(kind, NAME, { spec });
    return performance.now() - startedAt;
  };
  const policy = policyThatReads(TARGETS);
  await client.create(ADMISSION_POLICIES, policy);
  await client.create(CONVERSION_POLICIES, conversionPolicy());
  await eventually('the API server calls the webhook', async () => {
    const { metadata } = await author.patchMerge(ADMISSION_POLICIES, NAME, {
      metadata: { annotations: { [READS_REVIEWED]: 'again' } },
    });
    return metadata?.annotations?.[READS_REVIEWED] !== 'again';
  });

  const taken = { reviewed: [] as number[], unchanged: [] as number[], uncalled: [] as number[] };
  for (let round = 0; round < WARM_UP + ROUNDS; round += 1) {
    const reviewed = await patch(ADMISSION_POLICIES, {
      variables: [{ name: 'round', expression: String(round) }],
    });
    const unchanged = await patch(ADMISSION_POLICIES, { timeoutSeconds: 5 + (round % 2) });
    const uncalled = await patch(CONVERSION_POLICIES, { roundTrip: round % 2 === 0 ? 'Preserve' : 'Lossy' });
    if (round < WARM_UP) continue;
    taken.reviewed.push(reviewed);
    taken.unchanged.push(unchanged);
    taken.uncalled.push(uncalled);
  }
  const at = (share: number) => ({
    reviewed: percentile(taken.reviewed, share),
    unchanged: percentile(taken.unchanged, share),
    uncalled: percentile(taken.uncalled, share),
  });
  const [p50, p99] = [at(0.5), at(0.99)];
  const added = p99.reviewed - p99.uncalled;
  const both = (value: (all: typeof p50) => number) => `${ms(value(p50))}, ${ms(value(p99))}`;
  return [
    {
      what: `write of a policy with ${TARGETS.length + 2} reads, kube-apiserver ${version}: p50, p99`,
      measured: both(({ reviewed }) => reviewed),
    },
    {
      what: '  the same policy, a change that needs no review',
      measured: both(({ unchanged }) => unchanged),
    },
    {
      what: '  a ConversionPolicy, whose writes no mutating webhook sees',
      measured: both(({ uncalled }) => uncalled),
    },
    {
      what: '  added by the access reviews, against a change that needs none',
      measured: both(({ reviewed, unchanged }) => reviewed - unchanged),
    },
    {
      what: '  added by webhook and access reviews',
      measured: both(({ reviewed, uncalled }) => reviewed - uncalled),
      target: atMost(added, MOST_ADDED, ms),
    },
  ];
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

function conversionPolicy() {
  const target = { apiGroup: 'bench.example.com', resource: 'things' };
  const spec = { target, hub: 'v1', versions: [] };
  return { apiVersion: 'gatehouse.dev/v1alpha1', kind: 'ConversionPolicy', metadata: NAME, ...{ spec } };
}
