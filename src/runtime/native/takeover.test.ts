import { beforeEach, expect, test } from 'vitest';

import type { Confirmation } from '../../admission/native/release.ts';
import { compiled } from '../../../test/support/runtime/fixtures.ts';
import { createTakeover } from './native-policies.ts';

const PAIR = { name: 'a.policies.gatehouse.dev', digest: 'd', policy: 'p/1', binding: 'b/1' };
const CONFIRMED: Confirmation = { generation: 1, pairs: [PAIR] };
const object = (uid: string, generation = 1) => ({ metadata: { uid, generation } });
const STORED = { policy: object('p'), binding: object('b') };

let time: number;
let confirmed: Confirmation | undefined;
let isInstalled: boolean;
const policy = compiled({}, { name: 'a', generation: 1 });

beforeEach(() => {
  time = 100_000;
  confirmed = CONFIRMED;
  isInstalled = true;
});

const start = () =>
  createTakeover({
    confirmed: () => confirmed,
    releaseOf: () => undefined,
    isInstalled: () => isInstalled,
    monotonic: () => time,
  });
type Takeover = ReturnType<typeof start>;

function after(takeover: Takeover, ms: number): Takeover {
  takeover.observe([policy]);
  time += ms;
  takeover.observe([policy]);
  return takeover;
}

test('a confirmed pair changes only after the confirmation is withdrawn and replicas had time to read that', () => {
  const takeover = after(start(), 60_000);
  expect(takeover.mayChange(policy, PAIR.name, STORED)).toBe(false);
  confirmed = undefined;
  expect(after(takeover, 4_000).mayChange(policy, PAIR.name, STORED)).toBe(false);
  expect(after(takeover, 1_000).mayChange(policy, PAIR.name, STORED)).toBe(true);
});

test('it waits for the webhook entry', () => {
  const takeover = after(start(), 0);
  confirmed = undefined;
  isInstalled = false;
  expect(after(takeover, 60_000).mayChange(policy, PAIR.name, STORED)).toBe(false);
  isInstalled = true;
  expect(after(takeover, 4_000).mayChange(policy, PAIR.name, STORED)).toBe(false);
});

test('a new leader waits, because another one may have withdrawn a confirmation just now', () => {
  confirmed = undefined;
  const takeover = start();
  expect(takeover.mayChange(policy, PAIR.name, STORED)).toBe(false);
  expect(after(takeover, 5_000).mayChange(policy, PAIR.name, STORED)).toBe(true);
});

test('a new leader waits for the webhook entry that another one narrowed, however long that takes', () => {
  confirmed = undefined;
  isInstalled = false;
  const takeover = after(start(), 60_000);
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
])('a confirmed pair that others have changed is repaired at once: %s', (_how, stored) => {
  expect(after(start(), 0).mayChange(policy, PAIR.name, stored)).toBe(true);
});
