/** One pass of each controller of deploy/examples, and the cron fields. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { startFakeBuckets } from '../../deploy/examples/buckets/fake-buckets.ts';
import { parseCron } from '../../deploy/examples/cronjobs/controllers/cron/cron.ts';
import { runController, type ControllerVerdict } from '../../src/controllers/run-controller.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import { exampleController } from '../support/example-controller.ts';

const buckets = await exampleController('buckets');
const cronjobs = await exampleController('cronjobs');
const memcacheds = await exampleController('memcacheds');

const targets = ({ writes }: ControllerVerdict, verb: string) => [
  ...new Set(writes.filter((one) => one.verb === verb).map(({ target }) => target)),
];
const readyOf = ({ conditions }: ControllerVerdict) => conditions.find(({ type }) => type === 'Ready');

describe('cron', () => {
  test.each([
    ['* * * * *', '2026-01-01T00:00:30Z', '2026-01-01T00:01:00.000Z'],
    ['*/15 8-9 * * *', '2026-01-01T08:50:00Z', '2026-01-01T09:00:00.000Z'],
    ['0 0 29 2 *', '2026-03-01T00:00:00Z', '2028-02-29T00:00:00.000Z'],
    ['0 0 29 2 *', '2096-03-01T00:00:00Z', '2104-02-29T00:00:00.000Z'],
    ['0 12 13 * 5', '2026-01-01T00:00:00Z', '2026-01-02T12:00:00.000Z'], // day or weekday
    ['0 12 * * 7', '2026-01-01T00:00:00Z', '2026-01-04T12:00:00.000Z'],
    ['0 0 30 2 *', '2026-01-01T00:00:00Z', undefined],
  ])('%s after %s', (schedule, after, next) => {
    expect(parseCron(schedule).next(new Date(after))?.toISOString()).toBe(next);
  });

  test('the last run is after the other time', () => {
    const { last } = parseCron('30 6 * * *');
    const until = new Date('2026-01-03T06:29:59Z');
    expect(last(until, new Date('2026-01-01T00:00:00Z'))?.toISOString()).toBe('2026-01-02T06:30:00.000Z');
    expect(last(until, new Date('2026-01-02T06:30:00Z'))).toBeUndefined();
  });

  test.each([
    '60 * * * *',
    '* * 0 * *',
    '*/0 * * * *',
    '5-1 * * * *',
    'a * * * *',
    '* * * *',
    '1,,2 * * * *',
  ])('%s is refused', (schedule) => {
    expect(() => parseCron(schedule)).toThrow();
  });
});

describe('cronjobs', () => {
  const cronJob = (spec: object = {}, status?: object) => ({
    apiVersion: 'batch.tutorial.example.com/v1',
    kind: 'CronJob',
    metadata: { name: 'tick', namespace: 'shop', uid: 'u1', creationTimestamp: '2026-01-01T00:00:00Z' },
    spec: { schedule: '* * * * *', jobTemplate: { spec: { template: {} } }, ...spec },
    ...(status === undefined ? {} : { status }),
  });
  const at = (minute: number) => new Date(Date.UTC(2026, 0, 1, 0, minute, 10));
  const job = (minute: number) => `jobs.batch shop/tick-${Math.floor(at(minute).getTime() / 60_000)}`;
  const run = (object: object, minute: number, cluster: Readonly<Record<string, readonly object[]>> = {}) =>
    runController(cronjobs, { object, cluster, now: at(minute) });
  const next = ({ object, cluster }: ControllerVerdict, minute: number, spec: object = {}, type?: string) =>
    run({ ...object, spec: cronJob(spec).spec }, minute, {
      'jobs.batch': (cluster['jobs.batch'] ?? []).map((one) =>
        type === undefined ? one : { ...one, status: { conditions: [{ type, status: 'True' }] } },
      ),
    });

  test('a run starts once, and the next pass is due at the next minute', async () => {
    const first = await run(cronJob(), 1);
    expect(first.error).toBeUndefined();
    expect(targets(first, 'apply')).toEqual([job(1)]);
    expect(first.requeueAt?.toISOString()).toBe('2026-01-01T00:02:00.000Z');
    expect(first.object).toMatchObject({ status: { lastScheduleTime: '2026-01-01T00:01:00.000Z' } });
    expect((await next(first, 1)).writes).toEqual([]);
  });

  test.each([
    ['Allow', [2], []],
    ['Forbid', [], []],
    ['Replace', [2], [1]],
  ])('%s with an active Job', async (concurrencyPolicy, started, deleted) => {
    const spec = { concurrencyPolicy };
    const second = await next(await run(cronJob(spec), 1), 2, spec);
    expect(targets(second, 'apply')).toEqual(started.map(job));
    expect(targets(second, 'delete')).toEqual(deleted.map(job));
  });

  test.each([
    ['Complete', { successfulJobsHistoryLimit: 0 }],
    ['Failed', { failedJobsHistoryLimit: 0 }],
  ])('%s: the history limit', async (type, spec) => {
    const first = await run(cronJob(spec), 1);
    expect(targets(await next(first, 1, spec, type), 'delete')).toEqual([job(1)]);
    expect(targets(await next(first, 1, {}, type), 'delete')).toEqual([]);
  });

  test.each([
    ['the newest missed run', {}, [30]],
    ['too late', { startingDeadlineSeconds: 5 }, []],
    ['suspended', { suspend: true }, []],
  ])('%s', async (_what, spec, started) => {
    expect(targets(await run(cronJob(spec), 30), 'apply')).toEqual(started.map(job));
  });

  test('after a crash, the recorded run starts, not the next one, which is also due', async () => {
    const first = await run(cronJob(), 1);
    const progress = {
      operation: `start-tick-${at(1).getTime() / 60_000 - 1 / 6}`,
      id: 'x',
      startedAt: 'x',
      attempt: 1,
    };
    const crashed = cronJob({}, { lastScheduleTime: '2026-01-01T00:01:00Z', progress });
    expect(targets(await run(crashed, 2), 'apply')).toEqual([job(1)]);
    expect(first.error).toBeUndefined();
  });

  test('a wrong schedule stalls', async () => {
    expect(readyOf(await run(cronJob({ schedule: 'x' }), 1))).toMatchObject({
      status: 'False',
      reason: 'Invalid',
    });
  });
});

test('memcacheds: waits for pods, then is ready with their names', async () => {
  const object = {
    apiVersion: 'cache.example.com/v1',
    kind: 'Memcached',
    metadata: { name: 'cache', namespace: 'shop' },
    spec: { size: 1, image: 'memcached' },
  };
  const first = await runController(memcacheds, { object });
  expect(readyOf(first)).toMatchObject({ status: 'False', message: '0 of 1 pods are ready' });
  const [deployment] = first.cluster['deployments.apps'] ?? [];
  const ready = { ...deployment, status: { observedGeneration: 1, readyReplicas: 1, updatedReplicas: 1 } };
  const pod = {
    metadata: { name: 'cache-1', namespace: 'shop', labels: { 'cache.example.com/memcached': 'cache' } },
  };
  const cluster = { 'deployments.apps': [ready], pods: [pod] };
  const second = await runController(memcacheds, { object: first.object ?? {}, cluster });
  expect(readyOf(second)).toMatchObject({ status: 'True' });
  expect(second.object).toMatchObject({ status: { nodes: ['cache-1'], replicas: 1 } });
});

describe('buckets', () => {
  let service: Awaited<ReturnType<typeof startFakeBuckets>>;
  beforeAll(async () => {
    service = await startFakeBuckets();
    process.env.BUCKETS_URL = service.url;
  });
  afterAll(() => service.stop());
  const object: KubeObject & { spec: object } = {
    apiVersion: 'storage.example.com/v1',
    kind: 'Bucket',
    metadata: { name: 'photos', namespace: 'shop' },
    spec: { region: 'north' },
  };

  test('created once, even if the status is lost; the end waits until it is empty', async () => {
    const first = await runController(buckets, { object });
    expect(first.object).toMatchObject({ status: { bucketId: 'b-1' } });
    await runController(buckets, { object });
    expect(service.created()).toBe(1);
    await fetch(`${service.url}/buckets/b-1/objects/cat`, { method: 'PUT' });
    const ending = {
      ...first.object,
      metadata: { ...first.object?.metadata, deletionTimestamp: new Date().toISOString() },
    };
    const full = await runController(buckets, { object: ending });
    expect(readyOf(full)?.message).toBe('the bucket b-1 has 1 objects: delete them');
    process.env.BUCKETS_URL = 'http://127.0.0.1:1';
    const down = await runController(buckets, { object: ending });
    expect(readyOf(down)).toMatchObject({ reason: 'ServiceDown' });
    process.env.BUCKETS_URL = service.url;
    await fetch(`${service.url}/buckets/b-1/objects/cat`, { method: 'DELETE' });
    expect((await runController(buckets, { object: ending })).object).toBeUndefined();
    expect(service.buckets()).toEqual([]);
  });
});
