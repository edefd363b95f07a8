// suite: own-plane, sandbox: no (it cannot be restarted)
/** An outage of the API server in the logs of all processes: one warning each, and one line when it is over. */
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { type Balancer } from '../support/balancer.ts';
import { type Cluster, askForCertificate } from '../support/cluster.ts';
import { enforceExamples, untilServersChecked, startBalanced } from '../support/gatehouse-cluster.ts';
import { startReplica, type Replica, type ReplicaOptions } from '../support/gatehouse.ts';
import { eventually } from '../support/processes.ts';

interface Line {
  readonly level: string;
  readonly msg: string;
  readonly problem?: string;
}

const linesOf = ({ program }: Replica): readonly Line[] =>
  readFileSync(program.logFile, 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Line); // as our log writes them

let balancer: Balancer;
let cluster: Cluster;
let replicas: readonly Replica[] = [];

const start = (
  name: string,
  only: 'webhook' | 'controllers',
  settings: NonNullable<ReplicaOptions['settings']> = {},
) => startReplica(cluster.plane, { name, only, settings, servicePort: balancer.port });

beforeAll(async () => {
  ({ balancer, cluster } = await startBalanced({ own: true }));
  replicas = await Promise.all([
    start('controllers-1', 'controllers'),
    start('controllers-2', 'controllers'),
    start('webhook-1', 'webhook'),
    start('webhook-2', 'webhook', { 'log-level': 'debug' }),
  ]);
  balancer.setBackends(replicas.slice(2).map(({ port }) => port));
  await Promise.all(replicas.map((replica) => replica.whenReady()));
  await enforceExamples(cluster);
  for (let index = 0; index < 5; index += 1) await askForCertificate(cluster, 'shop', `db-${index}`);
});

afterAll(() => cluster.stop());

const DEBUG = 'could not list or watch';

test('one warning for each process, even for one that starts before the API server, and one line when it is back', async () => {
  await untilServersChecked(cluster);
  const before = replicas.map((replica) => linesOf(replica).length);
  await cluster.plane.processes?.stopApiServer();
  replicas = [...replicas, await start('controllers-3', 'controllers')];
  const since = () => replicas.map((replica, index) => linesOf(replica).slice(before[index]));
  await sleep(4_500); // three attempts
  await cluster.plane.processes?.start();
  await eventually('each process says that it is back', () =>
    since().every((lines) => lines.some(({ msg }) => msg === 'the API server answers again')),
  );
  await untilServersChecked(cluster);
  await sleep(12_000); // longer than the longest backoff of a watch
  for (const [index, all] of since().entries()) {
    const name = replicas[index]?.name;
    const lines = all.filter(({ level }) => level !== 'debug');
    const warnings = lines.filter(({ level }) => level !== 'info');
    expect([name, warnings]).toEqual([
      name,
      [expect.objectContaining({ level: 'warn', msg: 'cannot reach the API server' })],
    ]);
    expect(warnings[0]?.problem).toMatch(/no complete answer: /);
    expect(lines.filter(({ msg }) => msg === 'the API server answers again')).toHaveLength(1);
    expect(JSON.stringify(lines)).not.toContain('"stack"');
    expect([name, all.some(({ msg }) => msg === DEBUG)]).toEqual([name, name === 'webhook-2']);
  }
});
