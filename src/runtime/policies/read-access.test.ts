import { expect, test } from 'vitest';

import type { KubeClient } from '../../kube/client.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import { createReadAccess } from './read-access.ts';

const servers = { group: 'infra.example.com', resource: 'servers' };
const signal = new AbortController().signal;

/** An API server that gives these answers in turn, and then repeats the last one. */
function start(...answers: readonly (boolean | Error)[]) {
  let asked = 0;
  let now = 0;
  const create = <T extends KubeObject>(_resource: unknown, object: T): Promise<T> => {
    const answer = answers[Math.min(Math.floor(asked / 3), answers.length - 1)];
    asked += 1;
    return answer instanceof Error
      ? Promise.reject(answer)
      : Promise.resolve({ ...object, status: { allowed: answer } });
  };
  const client: Pick<KubeClient, 'create'> = { create };
  return {
    mayRead: createReadAccess(client, () => now),
    asked: () => asked,
    pass: (ms: number) => {
      now += ms;
    },
  };
}

test('a hundred policies for one kind cost three reviews, and the permission is reviewed again later', async () => {
  const { mayRead, asked, pass } = start(true, false);
  const answers = await Promise.all(Array.from({ length: 100 }, () => mayRead(servers, signal)));
  expect(answers.every(Boolean)).toBe(true);
  expect(asked()).toBe(3);
  pass(10_000);
  expect(await mayRead(servers, signal)).toBe(false);
});

test('a denial is not cached: the ClusterRole may exist by now', async () => {
  const { mayRead } = start(false, true);
  expect(await mayRead(servers, signal)).toBe(false);
  expect(await mayRead(servers, signal)).toBe(true);
});

test('a failed review is repeated', async () => {
  const { mayRead } = start(new Error('the API server is away'), true);
  await expect(mayRead(servers, signal)).rejects.toThrow('away');
  expect(await mayRead(servers, signal)).toBe(true);
});

test('an aborted caller stops waiting, and the others still get the result', async () => {
  const { mayRead } = start(true);
  const leaving = new AbortController();
  const [left, stayed] = [mayRead(servers, leaving.signal), mayRead(servers, signal)];
  leaving.abort(new Error('no longer wanted'));
  await expect(left).rejects.toThrow('no longer wanted');
  expect(await stayed).toBe(true);
});
