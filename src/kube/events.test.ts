import { expect, test } from 'vitest';
import type { KubeClient } from './client.ts';
import { systemClock } from './clock.ts';
import { createEventRecorder, createEventQueue, type EventNote } from './events.ts';
import type { KubeObject } from '../json/kube-object.ts';
import { createCluster } from '../../test/support/runtime/fixtures.ts';
import { events } from './well-known.ts';

interface Written extends KubeObject {
  readonly message: string;
  readonly count: number;
}

const note: EventNote = {
  regarding: { apiVersion: 'v1', kind: 'Service', namespace: 'prod', name: 'db', uid: 'u1' },
  type: 'Normal',
  reason: 'Issued',
  message: 'issued a serving cert',
};

function start(signal = new AbortController().signal) {
  let isDown = false;
  const cluster = createCluster();
  const written = () => cluster.objects<Written>(events).list();
  const create = ((...args: Parameters<typeof cluster.client.create>) =>
    isDown ? Promise.reject(new Error('down')) : cluster.client.create(...args)) as KubeClient['create']; // returns what it returns
  const warnings: unknown[] = [];
  let wall = Date.parse('2026-01-01T00:00:00Z');
  const recorder = createEventRecorder({
    client: { ...cluster.client, create },
    component: 'gatehouse',
    instance: 'pod-1',
    log: { warn: (fields) => warnings.push(fields) },
    clock: { ...systemClock, now: () => wall },
    signal,
  });
  return {
    recorder,
    written,
    warnings,
    setDown: (down: boolean) => (isDown = down),
    pass: (ms: number) => (wall += ms),
  };
}

test('an Event is written in the namespace of its object', async () => {
  const { recorder, written } = start();
  recorder.record(note);
  await recorder.flush();
  const [event] = written();
  expect(event).toMatchObject({
    metadata: { namespace: 'prod', name: expect.stringMatching(/^db\.[0-9a-f]{16}$/) as string },
    involvedObject: note.regarding,
    reason: 'Issued',
    type: 'Normal',
    count: 1,
    firstTimestamp: '2026-01-01T00:00:00Z',
    lastTimestamp: '2026-01-01T00:00:00Z',
    source: { component: 'gatehouse', host: 'pod-1' },
    reportingComponent: 'gatehouse',
    reportingInstance: 'pod-1',
  });
});

test('a repeated Event raises its count, now and later, and any other is a new Event', async () => {
  const { recorder, written, pass } = start();
  for (let i = 0; i < 3; i++) recorder.record(note);
  await recorder.flush();
  pass(60_000);
  recorder.record(note);
  recorder.record({ ...note, message: 'issued another' });
  await recorder.flush();
  expect(written()).toMatchObject([
    { count: 4, firstTimestamp: '2026-01-01T00:00:00Z', lastTimestamp: '2026-01-01T00:01:00Z' },
    { count: 1 },
  ]);
});

test('Events of cluster-scoped objects are in the namespace default; unusual names work', async () => {
  const { recorder, written } = start();
  recorder.record({
    ...note,
    regarding: { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole', name: 'system:Admin' },
  });
  await recorder.flush();
  const [event] = written();
  expect(event?.metadata).toMatchObject({
    namespace: 'default',
    name: expect.stringMatching(/^clusterrole\.[0-9a-f]{16}$/) as string,
  });
});

test('a failure is logged and not thrown', async () => {
  const { recorder, setDown, warnings, written } = start();
  setDown(true);
  recorder.record(note);
  await recorder.flush();
  setDown(false);
  recorder.record(note);
  await recorder.flush();
  expect([warnings.length, written().length]).toEqual([1, 1]);
});

test('a stop drops queued Events', async () => {
  const controller = new AbortController();
  const { recorder, written } = start(controller.signal);
  for (let i = 0; i < 100; i++) recorder.record({ ...note, message: String(i) });
  setTimeout(() => {
    controller.abort();
  }, 20);
  await recorder.flush();
  expect(written()).toHaveLength(50);
});

test('user input cannot exceed the message limit, break the line or control a terminal', async () => {
  const { recorder, written } = start();
  const messages = [
    `${'é'.repeat(511)}${'😀'.repeat(9)}`,
    'x'.repeat(3_000_000),
    'a\u001b[2J\r\nb\u009b\u2028\u202ec',
  ];
  for (const message of messages) recorder.record({ ...note, message });
  recorder.record({ ...note, message: `${'x'.repeat(3_000_000)} and another end` });
  await recorder.flush();
  const texts = written().map(({ message }) => message);
  expect(texts).toEqual([`${'é'.repeat(510)}…`, `${'x'.repeat(1_021)}…`, 'a [2J b c']);
  for (const message of texts) expect(Buffer.byteLength(message)).toBeLessThanOrEqual(1_024);
  expect(written().map(({ count }) => count)).toEqual([1, 2, 1]);
});

test.each(['a..b', 'a.-b', '-a', 'A', 'a\n', 'sys:admin'])(
  'an object %j, whose name is invalid in an Event name, still gets an Event',
  async (name) => {
    const { recorder, written } = start();
    recorder.record({ ...note, regarding: { ...note.regarding, name } });
    await recorder.flush();
    expect(written().map(({ metadata }) => metadata?.name)).toEqual([
      expect.stringMatching(/^service\.[0-9a-f]{16}$/) as string,
    ]);
  },
);

const noteIn = (type: EventNote['type'], namespace: string): EventNote => ({
  regarding: { apiVersion: 'v1', kind: 'ConfigMap', namespace, name: 'x' },
  type,
  reason: 'R',
  message: 'm',
});

function drained(queue: ReturnType<typeof createEventQueue>): readonly string[] {
  const names: string[] = [];
  for (let next = queue.next(); next !== undefined; next = queue.next()) names.push(next[0]);
  return names;
}

test('Warnings come before the Normal Events that waited longer', () => {
  const queue = createEventQueue();
  for (let i = 0; i < 3; i++) queue.add(`normal ${i}`, noteIn('Normal', 'prod'));
  queue.add('warning', noteIn('Warning', 'gatehouse-system'));
  expect(drained(queue)).toEqual(['warning', 'normal 0', 'normal 1', 'normal 2']);
});

test('a full queue drops Normal Events first, then the newest of the namespace with the most', () => {
  const queue = createEventQueue();
  for (let i = 0; i < 999; i++) queue.add(`noisy ${i}`, noteIn('Warning', 'noisy'));
  queue.add('normal', noteIn('Normal', 'prod'));
  expect(queue.add('first', noteIn('Warning', 'quiet'))).toEqual(noteIn('Normal', 'prod'));
  expect(queue.add('second', noteIn('Warning', 'quiet'))).toEqual(noteIn('Warning', 'noisy'));
  expect(queue.size()).toBe(1_000);
  const names = drained(queue);
  expect(names.slice(0, 4)).toEqual(['noisy 0', 'first', 'noisy 1', 'second']);
  expect(names.at(-1)).toBe('noisy 997');
});
