// suite: own-plane, sandbox: no (it cannot be restarted)
/** A restart of the API server in the logs of all processes: one warning each, and one line when it is over. */
import { readFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { services } from '../../src/kube/well-known.ts';
import { type Balancer } from '../support/balancer.ts';
import { type Cluster, localService } from '../support/cluster.ts';
import { enforceExamples, untilServersChecked, startBalanced } from '../support/gatehouse-cluster.ts';
import { startReplica, type Replica } from '../support/gatehouse.ts';
import { eventually } from '../support/processes.ts';

interface Line {
  readonly level: string;
  readonly msg: string;
  readonly problem?: string;
  readonly err?: object;
}

const linesOf = ({ program }: Replica): readonly Line[] =>
  readFileSync(program.logFile, 'utf8')
    .split('\n')
    .filter((line) => line.startsWith('{'))
    .map((line) => JSON.parse(line) as Line); // as our log writes them

describe('the API server', () => {
  let balancer: Balancer;
  let cluster: Cluster;
  let replicas: readonly Replica[] = [];

  beforeAll(async () => {
    ({ balancer, cluster } = await startBalanced({ own: true }));
    const start = (name: string, only: 'webhook' | 'controllers') =>
      startReplica(cluster.plane, { name, only, servicePort: balancer.port });
    replicas = await Promise.all([
      start('controllers-1', 'controllers'),
      start('controllers-2', 'controllers'),
      start('webhook-1', 'webhook'),
      start('webhook-2', 'webhook'),
    ]);
    balancer.setBackends(replicas.slice(2).map(({ port }) => port));
    await Promise.all(replicas.map((replica) => replica.whenReady()));
    await enforceExamples(cluster);
    for (let index = 0; index < 5; index += 1)
      await cluster.admin.create(services, {
        ...localService('shop', `db-${index}`, 443, {
          'gatehouse.dev/serving-cert-secret-name': `db-${index}`,
        }),
      });
  });

  afterAll(() => cluster.stop());

  const refused = () => untilServersChecked(cluster);

  test('restarts: one warning for each process, and one line when it is back', async () => {
    await refused();
    const before = replicas.map((replica) => linesOf(replica).length);
    const since = () => replicas.map((replica, index) => linesOf(replica).slice(before[index]));
    await cluster.plane.processes?.stopApiServer();
    await cluster.plane.processes?.start();
    await eventually('each process says that it is back', () =>
      since().every((lines) => lines.some(({ msg }) => msg === 'the API server answers again')),
    );
    await refused();
    await sleep(12_000); // longer than the longest backoff of a watch
    for (const [index, lines] of since().entries()) {
      const name = replicas[index]?.name;
      const warnings = lines.filter(({ level }) => level !== 'info');
      expect([name, warnings]).toEqual([
        name,
        [expect.objectContaining({ level: 'warn', msg: 'cannot reach the API server' })],
      ]);
      expect(warnings[0]?.problem).toMatch(/no complete answer: /);
      expect(lines.filter(({ msg }) => msg === 'the API server answers again')).toHaveLength(1);
      expect(JSON.stringify(lines)).not.toContain('"stack"');
    }
  });
});
