/**
 * Small requests while 32 clients send objects of 1 MB, whose rule exceeds the cost limit, through a kube-apiserver: `npm run bench:large-objects`.
 * With `--check`, the exit code is 1 when a target is missed. Large objects slow down the API server itself, so the target compares with
 * large objects that no policy governs.
 */
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { createNamespace, type Cluster } from '../../test/support/cluster.ts';
import { seeInForce, startGatehouse, untilRefused } from '../../test/support/gatehouse-cluster.ts';
import type { Replica } from '../../test/support/gatehouse.ts';
import { admissionPolicy, configMap, configMapsWith } from '../../test/support/objects.ts';
import { configMaps } from '../../src/kube/well-known.ts';
import { startChild } from './child.ts';
import type { ConfigMapClient } from './config-maps.ts';
import { whole } from './table.ts';
import { atMost, percentile, runBenchmark, type Figure } from './figures.ts';

const { values: flags } = parseArgs({
  options: { check: { type: 'boolean', default: false }, seconds: { type: 'string', default: '20' } },
});

const TIMEOUTS = [1, 5, 10];
const LARGE = { words: Array.from({ length: 90_000 }, (_, index) => `key-${index}`).join(' ') };
const MOST_RATIO = 2;

/** The 99th percentile of the small requests, and of the replica's answers to readiness checks, which wait for its event loop only. */
async function measure(): Promise<readonly Figure[]> {
  const { cluster, replica } = await startGatehouse();
  const [small, large] = [
    startChild<ConfigMapClient>('config-maps.ts'),
    startChild<ConfigMapClient>('config-maps.ts'),
  ];
  const { server, ca, token } = cluster.plane;
  const milliseconds = Number(flags.seconds) * 1_000;
  const target = { server, ca, token: token('admin'), milliseconds };
  const askSmall = () =>
    small.call('create', {
      ...target,
      data: { words: 'a b' },
      labels: { size: 'small' },
      lanes: 2,
      pauseMs: 5,
    });
  const askLarge = (size: string) =>
    large.call('create', { ...target, data: LARGE, labels: { size }, lanes: 32, pauseMs: 0 });
  const beside = async (size?: string) => {
    const [seen, own, others] = await Promise.all([
      askSmall(),
      checkReadiness(replica, milliseconds),
      size === undefined ? undefined : askLarge(size),
    ]);
    const [p99, ownP99] = [percentile(seen.latencies, 0.99), percentile(own, 0.99)];
    return { p99, ownP99, failed: seen.latencies.length - seen.stored, others };
  };
  try {
    await installPolicies(cluster);
    const alone = await beside();
    const free = await beside('of-no-policy');
    const figures: Figure[] = [
      { what: 'small requests alone: p99, ms', measured: whole(alone.p99) },
      { what: '  p99 of the replica itself, ms', measured: whole(alone.ownP99) },
      { what: 'with 32 large ones without a policy: p99, ms', measured: whole(free.p99) },
    ];
    for (const timeout of TIMEOUTS) {
      const {
        p99,
        ownP99,
        failed,
        others = { latencies: [], stored: 0 },
      } = await beside(`large-${timeout}s`);
      const [ofAlone, ofFree] = [p99 / alone.p99, p99 / free.p99];
      const { latencies, stored } = others;
      figures.push(
        { what: `with 32 large ones, timeout ${timeout} s: p99, ms`, measured: whole(p99) },
        { what: '  p99 of the replica itself, ms', measured: whole(ownP99) },
        { what: '  in relation to alone', measured: ratio(ofAlone) },
        {
          what: '  in relation to large ones without a policy',
          measured: ratio(ofFree),
          target: atMost(ofFree, MOST_RATIO, ratio),
        },
        { what: '  small requests that failed', measured: whole(failed), target: atMost(failed, 0, whole) },
        {
          what: `  of ${latencies.length} large ones, admitted unchecked`,
          measured: whole(stored),
          target: atMost(stored, 0, whole),
        },
      );
    }
    return figures;
  } finally {
    await small.stop();
    await large.stop();
    await cluster.stop();
  }
}

async function installPolicies(cluster: Cluster): Promise<void> {
  await createNamespace(cluster, 'shop');
  for (const [name, spec] of policies()) {
    await cluster.apply(admissionPolicy(name, { match: configMapsWith({ size: name }), ...spec }));
    await seeInForce(cluster, name);
    const wrong = configMap('any', { words: 'bad bad' }, { labels: { size: name } });
    await untilRefused(name, name, () => cluster.admin.create(configMaps, wrong, { dryRun: true }));
  }
}

async function checkReadiness({ readyz }: Replica, milliseconds: number): Promise<readonly number[]> {
  const until = performance.now() + milliseconds;
  const latencies: number[] = [];
  while (performance.now() < until) {
    const began = performance.now();
    await readyz();
    latencies.push(performance.now() - began);
    await sleep(20);
  }
  return latencies;
}

const ratio = (value: number): string => value.toFixed(2);

function policies(): readonly (readonly [string, object])[] {
  const variables = [{ name: 'words', expression: 'object.data.words.split(" ")' }];
  const distinct = 'variables.words.all(a, variables.words.exists_one(b, a == b))';
  const validate = { rules: [{ name: 'distinct', expression: distinct }] };
  return [
    ['small', { variables, validate }],
    ...TIMEOUTS.map(
      (timeoutSeconds) =>
        [
          `large-${timeoutSeconds}s`,
          { variables, validate, timeoutSeconds, failurePolicy: 'Ignore' },
        ] as const,
    ),
  ];
}

await runBenchmark(flags.check, measure);
