import { beforeEach, expect, test } from 'vitest';

import { ApiError } from '../../kube/api-error.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import { createConfirmer, PENDING, type Subject } from './confirm.ts';

const PAIR = { name: 'a.policies.gatehouse.dev', digest: 'd1', policy: 'p/1', binding: 'b/1' };
const checked = { observedGeneration: 1, typeChecking: {} };
const SUBJECT: Subject = {
  pair: PAIR,
  policy: { metadata: { generation: 1 }, ...{ status: checked } },
  objectSelector: {},
  answers: true,
  hasTypeCheck: true,
};
const { signal } = new AbortController();

let time: number;
let answer: 'refused' | 'changed' | 'admitted' | 'down' | 'forbidden';
let probes: { readonly dryRun: boolean | undefined; readonly object: KubeObject }[];

beforeEach(() => {
  time = 0;
  answer = 'refused';
  probes = [];
});

const failure = (code: number, message: string) =>
  new ApiError({ method: 'POST', path: '/' }, { code, status: { message } });

const start = () =>
  createConfirmer({
    client: {
      create: async <T extends KubeObject>(
        _kind: unknown,
        object: T,
        options?: { dryRun?: boolean | undefined },
      ) => {
        probes.push({ dryRun: options?.dryRun, object });
        if (answer === 'down') throw failure(503, 'away');
        if (answer === 'forbidden') throw failure(403, 'another policy refuses it');
        if (answer === 'refused') throw failure(403, 'refused as a probe of the compiled policy d1');
        const values = answer === 'changed' ? ['changed by the compiled policy d1'] : [];
        return await Promise.resolve({ ...object, spec: { values } });
      },
    },
    now: () => new Date(time),
    monotonic: () => time,
  });

async function ask(confirmer: ReturnType<typeof start>, subject = SUBJECT, known?: Subject['pair']) {
  const obstacle = await confirmer.obstacle(subject, known, signal);
  time += 1_500;
  return obstacle;
}
async function askThreeTimes(confirmer: ReturnType<typeof start>, subject = SUBJECT) {
  return [await ask(confirmer, subject), await ask(confirmer, subject), await ask(confirmer, subject)];
}
const CONFIRMED = [PENDING, PENDING, undefined];

test('three refused dry runs over three seconds confirm a policy; it is probed again after a minute', async () => {
  const confirmer = start();
  expect(await askThreeTimes(confirmer)).toEqual(CONFIRMED);
  expect(await ask(confirmer)).toBeUndefined();
  expect(probes.map(({ dryRun }) => dryRun)).toEqual([true, true, true]);
  time += 60_000;
  answer = 'down';
  expect(await ask(confirmer)).toBeUndefined(); // nothing new is known
  answer = 'admitted';
  expect(await ask(confirmer)).toContain('admits a probe');
});

test('an admitted probe starts again: another API server may not have read the policy yet', async () => {
  const confirmer = start();
  await ask(confirmer);
  await ask(confirmer);
  answer = 'admitted';
  expect(await ask(confirmer)).toBe(PENDING);
  answer = 'refused';
  expect(await askThreeTimes(confirmer)).toEqual(CONFIRMED);
});

test('the refusal of another policy, or of another text, confirms nothing', async () => {
  const confirmer = start();
  answer = 'forbidden';
  expect(await ask(confirmer)).toContain('another policy refuses it');
  answer = 'refused';
  const other = { ...SUBJECT, pair: { ...PAIR, digest: 'd2' } };
  expect(await ask(confirmer, other)).toContain('failed otherwise');
});

test('a new leader keeps a confirmation that its first probe agrees with', async () => {
  expect(await ask(start(), SUBJECT, PAIR)).toBeUndefined();
  answer = 'admitted';
  expect(await ask(start(), SUBJECT, PAIR)).toBe(PENDING);
});

test('types come first, and an objectSelector that no labels satisfy leaves the check in the webhook', async () => {
  const unchecked = {
    ...SUBJECT,
    policy: { metadata: { generation: 2 }, ...{ status: checked } } as KubeObject,
  };
  expect(await ask(start(), unchecked)).toContain('has not checked its types');
  const matchExpressions = [
    { key: 'a', operator: 'Exists' as const },
    { key: 'a', operator: 'DoesNotExist' as const },
  ];
  expect(await ask(start(), { ...SUBJECT, objectSelector: { matchExpressions } })).toContain(
    'no probe can satisfy',
  );
  expect(probes).toEqual([]);
});

test('a probe that the policy changes confirms it, without a check of types', async () => {
  const confirmer = start();
  const changing = { ...SUBJECT, policy: { metadata: { generation: 1 } }, hasTypeCheck: false };
  answer = 'changed';
  expect(await askThreeTimes(confirmer, changing)).toEqual(CONFIRMED);
  const other = { ...changing, pair: { ...PAIR, digest: 'd2' } };
  expect(await ask(confirmer, other)).toBe(PENDING);
});
