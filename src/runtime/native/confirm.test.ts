import { beforeEach, expect, test } from 'vitest';

import { ApiError } from '../../kube/api-error.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import { createConfirmer, PENDING, type Subject } from './confirm.ts';
import type { Confirmation } from '../../admission/native/release.ts';
import { compiled } from '../../../test/support/runtime/fixtures.ts';
import { createTakeover } from './native-policies.ts';

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
let answer: 'refused' | 'admitted' | 'down';
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
        if (answer === 'refused') throw failure(403, 'refused as a probe of the compiled policy d1');
        return await Promise.resolve(object);
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

test('an admitted probe starts again, because another API server has possibly not read the policy yet', async () => {
  const confirmer = start();
  await ask(confirmer);
  await ask(confirmer);
  answer = 'admitted';
  expect(await ask(confirmer)).toBe(PENDING);
  answer = 'refused';
  expect(await askThreeTimes(confirmer)).toEqual(CONFIRMED);
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

const CONFIRMATION: Confirmation = { generation: 1, pairs: [PAIR] };
const object = (uid: string, generation = 1) => ({ metadata: { uid, generation } });
const STORED = { policy: object('p'), binding: object('b') };

let confirmed: Confirmation | undefined;
let isInstalled: boolean;
const policy = compiled({}, { name: 'a', generation: 1 });

beforeEach(() => {
  confirmed = CONFIRMATION;
  isInstalled = true;
});

const takeOver = () =>
  createTakeover({
    confirmed: () => confirmed,
    releaseOf: () => undefined,
    isInstalled: () => isInstalled,
    monotonic: () => time,
  });
type Takeover = ReturnType<typeof takeOver>;

function after(takeover: Takeover, ms: number): Takeover {
  takeover.observe([policy]);
  time += ms;
  takeover.observe([policy]);
  return takeover;
}

test('a confirmed pair changes only after the confirmation is withdrawn and replicas had time to read that', () => {
  const takeover = after(takeOver(), 60_000);
  expect(takeover.mayChange(policy, PAIR.name, STORED)).toBe(false);
  confirmed = undefined;
  expect(after(takeover, 4_000).mayChange(policy, PAIR.name, STORED)).toBe(false);
  expect(after(takeover, 1_000).mayChange(policy, PAIR.name, STORED)).toBe(true);
});

test('a new leader waits for the webhook entry that another one narrowed, however long that takes', () => {
  confirmed = undefined;
  isInstalled = false;
  const takeover = after(takeOver(), 60_000);
  expect(takeover.mayChange(policy, PAIR.name, STORED)).toBe(false);
  isInstalled = true;
  expect(after(takeover, 4_000).mayChange(policy, PAIR.name, STORED)).toBe(false);
  expect(after(takeover, 1_000).mayChange(policy, PAIR.name, STORED)).toBe(true);
});

test.each([
  ['deleted', { ...STORED, policy: undefined }],
  ['without its binding', { ...STORED, binding: undefined }],
  ['edited', { ...STORED, policy: object('p', 2) }],
  ['replaced', { ...STORED, binding: object('other') }],
])('a confirmed pair that others have changed is repaired immediately: %s', (_how, stored) => {
  expect(after(takeOver(), 0).mayChange(policy, PAIR.name, stored)).toBe(true);
});
