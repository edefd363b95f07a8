/** The controllers of deploy/examples with real pods and Jobs, installed as docs/handlers.md says. */
import { execFile } from 'node:child_process';
import { cpSync, mkdtempDisposableSync, readFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { MAIN } from '../support/main-module.ts';
import { parseManifests } from '../support/kustomization.ts';
import { applyAndWait, processesOf, rolledOut, startPodNode } from '../support/node/installed.ts';
import { PAUSE_IMAGE } from '../support/node/node-files.ts';
import type { NodeCluster } from '../support/node/node.ts';
import { GATEHOUSE_IMAGE } from '../support/node/setup.ts';
import { eventually } from '../support/processes.ts';

const EXAMPLES = join(import.meta.dirname, '..', '..', 'deploy', 'examples');
const FILES = {
  'cronjobs.ts': 'cronjobs/controllers/cronjobs.ts',
  'cron/cron.ts': 'cronjobs/controllers/cron/cron.ts',
  'memcacheds.ts': 'memcacheds/controllers/memcacheds.ts',
  'buckets.ts': 'buckets/controllers/buckets.ts',
  'service/client.ts': 'buckets/controllers/service/client.ts',
};
const LONG = { timeoutMs: 200_000, everyMs: 1_000 };
const MINUTES_5 = 300_000;

let node: NodeCluster;
let serviceUrl: string;

const text = (path: string): string => readFileSync(join(EXAMPLES, path), 'utf8');
const keyOf = (path: string): string => path.replace('/', '.');
const configMap = (name: string, namespace: string, data: Record<string, string>) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name, namespace },
  data,
});

/** The storage service, in a pod. */
const SERVICE = [
  configMap('storage', 'default', { 'fake-buckets.ts': text('buckets/fake-buckets.ts') }),
  {
    apiVersion: 'v1',
    kind: 'Service',
    metadata: { name: 'storage', namespace: 'default' },
    spec: { selector: { app: 'storage' }, ports: [{ port: 8091 }] },
  },
  {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'storage', namespace: 'default', labels: { app: 'storage' } },
    spec: {
      terminationGracePeriodSeconds: 0,
      volumes: [{ name: 'code', configMap: { name: 'storage' } }],
      containers: [
        {
          name: 'storage',
          image: GATEHOUSE_IMAGE,
          command: ['/nodejs/bin/node', '/code/fake-buckets.ts'],
          env: [
            { name: 'BUCKETS_HOST', value: '0.0.0.0' },
            // The time in which the test kills the leader: the service has created the bucket, and nobody knows.
            { name: 'BUCKETS_ANSWER_AFTER_MS', value: '6000' },
          ],
          volumeMounts: [{ name: 'code', mountPath: '/code' }],
        },
      ],
    },
  },
];

async function installControllers(): Promise<void> {
  using own = mkdtempDisposableSync(join(tmpdir(), 'gatehouse-tutorials-'));
  for (const [name, path] of Object.entries(FILES))
    cpSync(join(EXAMPLES, path), join(own.path, 'tutorials', name));
  const words = [MAIN, 'manifests', '--handlers', join(own.path, 'tutorials')];
  const { stdout } = await promisify(execFile)(process.execPath, words);
  await node.apply(parseManifests(stdout));
  const data = Object.fromEntries(Object.entries(FILES).map(([name, path]) => [keyOf(name), text(path)]));
  await node.apply(configMap('tutorials', 'gatehouse-system', data));
  const items = Object.keys(FILES).map((path) => ({ key: keyOf(path), path }));
  const patch = {
    spec: {
      template: {
        spec: {
          volumes: [{ name: 'handlers', configMap: { name: 'tutorials', items } }],
          containers: [
            {
              name: 'gatehouse',
              env: [
                { name: 'GATEHOUSE_HANDLERS', value: '/handlers' },
                { name: 'BUCKETS_URL', value: serviceUrl },
              ],
              volumeMounts: [{ name: 'handlers', mountPath: '/handlers' }],
            },
          ],
        },
      },
    },
  };
  await node.inSystem('patch', 'deployment', 'gatehouse-controllers', '-p', JSON.stringify(patch));
  await rolledOut(node);
}

beforeAll(async () => {
  node = await startPodNode();
  await node.apply(SERVICE);
  const address = await node.kubectl('get', 'service', 'storage', '-o', 'jsonpath={.spec.clusterIP}');
  serviceUrl = `http://${address}:8091`;
  for (const name of ['cronjobs', 'memcacheds', 'buckets'])
    await node.kubectl('apply', '-k', join(EXAMPLES, name));
  await applyAndWait(node, '-k', 'deploy');
  await node.kubectl('wait', 'pod/storage', '--for=condition=Ready', '--timeout=60s');
  await installControllers();
}, MINUTES_5);
afterAll(() => node.stop());

interface Read {
  readonly metadata: { readonly name: string; readonly uid: string; readonly deletionTimestamp?: string };
  readonly status?: {
    readonly nodes?: readonly string[];
    readonly active?: readonly string[];
    readonly lastScheduleTime?: string;
    readonly succeeded?: number;
    readonly readyReplicas?: number;
    readonly bucketId?: string;
    readonly conditions?: readonly {
      readonly type: string;
      readonly status: string;
      readonly message: string;
    }[];
  };
}

const read = async (...words: readonly string[]): Promise<Read> =>
  JSON.parse(await node.kubectl('get', ...words, '-o', 'json')) as Read;
const listed = async (...words: readonly string[]): Promise<readonly Read[]> =>
  (JSON.parse(await node.kubectl('get', ...words, '-o', 'json')) as { items: readonly Read[] }).items;
const conditionOf = (object: Read, type: string) =>
  object.status?.conditions?.find((one) => one.type === type);

const cronJob = (name: string, command: string, spec: object = {}) => ({
  apiVersion: 'batch.tutorial.example.com/v1',
  kind: 'CronJob',
  metadata: { name, namespace: 'default' },
  spec: {
    schedule: '* * * * *',
    jobTemplate: {
      spec: {
        backoffLimit: 0,
        template: {
          spec: {
            restartPolicy: 'Never',
            terminationGracePeriodSeconds: 0,
            containers: [{ name: 'main', image: PAUSE_IMAGE, command: ['/bin/sh', '-c', command] }],
          },
        },
      },
    },
    ...spec,
  },
});
const jobsOf = (name: string) => listed('jobs', '-l', `batch.tutorial.example.com/cronjob=${name}`);

describe.concurrent('tutorials', () => {
  it(
    'CronJob: real Jobs, Forbid, Replace, history, suspend',
    async () => {
      await node.apply([
        cronJob('quick', 'exit 0', { successfulJobsHistoryLimit: 1 }),
        cronJob('fails', 'exit 1', { failedJobsHistoryLimit: 0 }),
        cronJob('forbid', 'sleep 1000', { concurrencyPolicy: 'Forbid' }),
        cronJob('replace', 'sleep 1000', { concurrencyPolicy: 'Replace' }),
        cronJob('suspended', 'exit 0', { suspend: true }),
      ]);
      const first = await eventually(
        'each first run',
        async () => {
          const [quick, forbid, replace] = await Promise.all(['quick', 'forbid', 'replace'].map(jobsOf));
          return quick?.[0]?.status?.succeeded === 1 && forbid?.[0] && replace?.[0]
            ? { quick: quick[0], forbid: forbid[0], replace: replace[0] }
            : undefined;
        },
        LONG,
      );
      await eventually(
        'the second runs: the history has one, and Replace another Job',
        async () => {
          const [quick = [], replace = []] = await Promise.all(['quick', 'replace'].map(jobsOf));
          const [done] = quick;
          return (
            quick.length === 1 &&
            done?.status?.succeeded === 1 &&
            done.metadata.uid !== first.quick.metadata.uid &&
            replace.length === 1 &&
            replace[0]?.metadata.uid !== first.replace.metadata.uid
          );
        },
        LONG,
      );
      expect((await jobsOf('forbid')).map(({ metadata }) => metadata.uid)).toEqual([
        first.forbid.metadata.uid,
      ]);
      expect((await read('cronjobs.batch.tutorial.example.com', 'forbid')).status?.active).toEqual([
        first.forbid.metadata.name,
      ]);
      await eventually('no failed Job is left', async () => (await jobsOf('fails')).length === 0, LONG);
      const fails = await read('cronjobs.batch.tutorial.example.com', 'fails');
      expect(fails.status?.lastScheduleTime).toBeDefined();
      expect(await jobsOf('suspended')).toEqual([]);
    },
    MINUTES_5,
  );

  it(
    'Memcached: ready pods, their names, scale, a deleted Deployment',
    async () => {
      await node.apply({
        apiVersion: 'cache.example.com/v1',
        kind: 'Memcached',
        metadata: { name: 'cache', namespace: 'default' },
        spec: { size: 1, image: PAUSE_IMAGE },
      });
      const settles = async (size: number) =>
        await eventually(
          `${size} ready pods, and their names`,
          async () => {
            const memcached = await read('memcached', 'cache');
            const pods = await listed('pods', '-l', 'cache.example.com/memcached=cache');
            const names = pods.map(({ metadata }) => metadata.name).sort();
            return (
              pods.length === size &&
              conditionOf(memcached, 'Ready')?.status === 'True' &&
              JSON.stringify(memcached.status?.nodes) === JSON.stringify(names)
            );
          },
          LONG,
        );
      await settles(1);
      await node.kubectl('scale', 'memcached/cache', '--replicas=3');
      await settles(3);
      const before = await read('deployment', 'cache');
      await node.kubectl('delete', 'deployment', 'cache');
      await settles(3);
      expect((await read('deployment', 'cache')).metadata.uid).not.toBe(before.metadata.uid);
      await node.kubectl('scale', 'memcached/cache', '--replicas=1');
      await settles(1);
      expect(conditionOf(await read('memcached', 'cache'), 'Degraded')?.status).toBe('False');
    },
    MINUTES_5,
  );

  /** From the node, as a user of the service. */
  const ask = async (method: string, path: string): Promise<unknown> => {
    const script = `fetch('${serviceUrl}${path}', { method: '${method}' }).then(async (r) => console.log(await r.text() || '{}'))`;
    return JSON.parse(await node.inNode(process.execPath, '-e', script)) as unknown;
  };
  const bucket = { apiVersion: 'storage.example.com/v1', kind: 'Bucket', spec: { region: 'north' } };

  it(
    'Bucket: created once although the leader is killed; its end waits for the service and says why',
    async () => {
      await node.apply({ ...bucket, metadata: { name: 'photos', namespace: 'default' } });
      await eventually(
        'the service has it',
        async () => ((await ask('GET', '/buckets')) as readonly unknown[]).length === 1,
        {
          everyMs: 300,
        },
      );
      expect((await read('bucket', 'photos')).status?.bucketId).toBeUndefined(); // the answer is on its way
      const pids = await processesOf(node, 'controllers');
      await node.inNode('kill', '-9', ...pids.map(String));
      await eventually('its status', async () => (await read('bucket', 'photos')).status?.bucketId, LONG);
      expect(await ask('GET', '/created')).toEqual({ created: 1 });

      const { bucketId = '' } = (await read('bucket', 'photos')).status ?? {};
      await ask('PUT', `/buckets/${bucketId}/objects/cat`);
      await node.kubectl('delete', 'bucket', 'photos', '--wait=false');
      const says = (words: RegExp) =>
        eventually(
          `the condition says ${String(words)}`,
          async () => words.test(conditionOf(await read('bucket', 'photos'), 'Ready')?.message ?? ''),
          LONG,
        );
      await says(/has 1 objects: delete them/);
      // A Service without endpoints refuses connections.
      await node.kubectl('label', 'pod/storage', 'app=down', '--overwrite');
      await says(/does not answer/);
      expect((await read('bucket', 'photos')).metadata.deletionTimestamp).toBeDefined();
      await node.kubectl('label', 'pod/storage', 'app=storage', '--overwrite');
      await eventually('the service is back', () => ask('DELETE', `/buckets/${bucketId}/objects/cat`), LONG);
      await node.kubectl('wait', 'bucket/photos', '--for=delete', '--timeout=60s');
      expect(await ask('GET', '/buckets')).toEqual([]);
    },
    MINUTES_5,
  );
});

it(
  'CronJob: after an outage a missed run starts once, and not after its deadline',
  async () => {
    const scale = (count: number) =>
      node.inSystem('scale', 'deployment/gatehouse-controllers', `--replicas=${count}`);
    await scale(0);
    const pods = () => node.inSystem('get', 'pods', '-o', 'name');
    await eventually('the outage', async () => !(await pods()).includes('gatehouse-controllers'), LONG);
    // One run a day, so that no further run is due during the test.
    const missed = Math.ceil((Date.now() + 5_000) / 60_000);
    const time = new Date(missed * 60_000);
    const schedule = `${time.getUTCMinutes()} ${time.getUTCHours()} * * *`;
    await node.apply([
      cronJob('missed', 'exit 0', { schedule }),
      cronJob('late', 'exit 0', { schedule, startingDeadlineSeconds: 1 }),
    ]);
    await eventually('its time passed', () => Date.now() > time.getTime() + 2_000, LONG);
    await scale(2);
    const ofName = (name: string) => read('cronjobs.batch.tutorial.example.com', name);
    const scheduled = (name: string) =>
      eventually(
        `a pass for ${name}`,
        async () => conditionOf(await ofName(name), 'Scheduled')?.status === 'True',
        LONG,
      );
    await scheduled('missed');
    await scheduled('late');
    const names = async (name: string) => (await jobsOf(name)).map(({ metadata }) => metadata.name);
    expect(await names('missed')).toEqual([`missed-${missed}`]);
    expect(await names('late')).toEqual([]);
    expect((await ofName('late')).status?.lastScheduleTime).toBeUndefined();
  },
  MINUTES_5,
);
