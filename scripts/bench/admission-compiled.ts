/** What a policy costs a create through the API: judged by the webhook, or compiled and judged by the API server itself. */
import { join } from 'node:path';

import { DEPLOY, readManifests, withSingleAccount } from '../../src/cli/deploy-manifests.ts';
import type { AdmissionPolicy } from '../../src/api/admission-policy.ts';
import { configMaps } from '../../src/kube/well-known.ts';
import { ADMISSION_POLICIES } from '../../src/runtime/resources.ts';
import { eventually } from '../../test/support/processes.ts';
import { startClusterProcess, type ClusterProcess } from './cluster-process.ts';
import { atMost, playBatches, type Figure } from './figures.ts';
import { apply } from './restore-scene.ts';
import { admissionPolicy } from '../../test/support/objects.ts';

const BATCHES = { warmUp: 300, batches: 15, batch: 101 };
const MOST_SHARE = 0.8;

const JUDGES = ['none', 'API server', 'webhook'] as const;
type Judge = (typeof JUDGES)[number];

const labelOf = (judge: Judge): string => judge.replace(' ', '-').toLowerCase();

const RULES = [
  { name: 'owner', expression: 'has(object.metadata.labels) && "owner" in object.metadata.labels' },
  { name: 'keys', expression: 'object.?data.orValue({}).all(key, key.matches("^[a-z-]{1,40}$"))' },
  { name: 'size', expression: 'object.?data.orValue({}).size() <= 20' },
];

/** On creations alone: a compiled policy has no webhook entry then. */
const policyFor = (judge: Judge, compile: 'Auto' | 'Never') =>
  admissionPolicy(`bench-${labelOf(judge)}`, {
    match: {
      ...{ apiGroups: [''], apiVersions: ['v1'], resources: ['configmaps'], operations: ['CREATE'] },
      objectSelector: { matchLabels: { bench: labelOf(judge) } },
    },
    ...{ compile, audit: false, validate: { rules: RULES } },
  });

export async function measureCompiled(): Promise<readonly Figure[]> {
  const cluster = await startClusterProcess('sandbox');
  try {
    const component = join(DEPLOY, 'components', 'compile-policies');
    await apply(cluster, ...withSingleAccount(readManifests(component)));
    const replica = await cluster.startReplica('one', [], { 'compile-policies': 'true' });
    await replica.whenReady(60_000);
    await apply(cluster, policyFor('webhook', 'Never'), policyFor('API server', 'Auto'));
    await untilJudged(cluster);
    const figures = await play(cluster);
    await replica.program.stop(30_000);
    return figures;
  } finally {
    await cluster.stop();
  }
}

const untilJudged = ({ client }: ClusterProcess) =>
  eventually(
    'each policy has its judge',
    async () => {
      const compiled = async (judge: Judge) => {
        const name = `bench-${labelOf(judge)}`;
        const { status } = (await client.get<AdmissionPolicy>(ADMISSION_POLICIES, { name })) ?? {};
        const isReady = status?.conditions?.some((one) => one.type === 'Ready' && one.status === 'True');
        return isReady === true ? status?.compiled : undefined;
      };
      return (await compiled('API server')) === '3/3' && (await compiled('webhook')) === '0/3';
    },
    { timeoutMs: 60_000, everyMs: 100 },
  );

async function play({ client }: ClusterProcess): Promise<readonly Figure[]> {
  const create = (judge: Judge) => {
    const metadata = { name: 'bench', namespace: 'default', labels: { bench: labelOf(judge), owner: 'ada' } };
    const data = Object.fromEntries(Array.from('abcdefghij', (key) => [`key-${key}`, 'x'.repeat(100)]));
    return client.create(
      configMaps,
      { apiVersion: 'v1', kind: 'ConfigMap', metadata, ...{ data } },
      { dryRun: true },
    );
  };
  const typical = await playBatches(JUDGES, BATCHES, create);
  const time = (judge: Judge) =>
    [0.5, 0.99].map((share) => `${typical((at) => at(judge, share)).toFixed(2)} ms`).join(', ');
  const share = typical((at) => at('API server', 0.5) / at('webhook', 0.5));
  const percent = (value: number) => `${Math.round(value * 100)} % of the webhook`;
  return [
    { what: 'create through the API of the sandbox, no policy: p50, p99', measured: time('none') },
    { what: '  webhook: a policy with three rules', measured: time('webhook') },
    { what: '  compiled: the same policy, judged by the API server', measured: time('API server') },
    { what: '  compiled, p50', measured: percent(share), target: atMost(share, MOST_SHARE, percent) },
  ];
}
