import { expect, test } from 'vitest';

import { policyOf } from '../../../test/support/admission/policy.ts';
import { encodeOwnerRecord, OWNER_RECORD_ANNOTATION } from '../../api/owner-record.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import { openedForCluster } from '../../restore/window.ts';
import { createTries, earlyTask, isLinking, ownersFirst, toWaiting, type Candidate } from './early-links.ts';

const KIND = {
  resource: { group: 'infra.example.com', resource: 'servers' },
  governing: [policyOf({ owners: { preserve: true }, restore: { uids: ['spec.refs[*].uid'] } })],
};
const apiVersion = 'infra.example.com/v1';

function restored(name: string, owners: readonly string[], metadata: object = {}): KubeObject {
  const refs = owners.map((owner) => ({ apiVersion, kind: 'Server', name: owner, uid: `old-${owner}` }));
  const record = encodeOwnerRecord({ self: name, refs }) ?? '';
  const annotations = owners.length === 0 ? {} : { [OWNER_RECORD_ANNOTATION]: record };
  const base = { namespace: 'shop', name, uid: `uid-${name}`, resourceVersion: '1', annotations };
  return { apiVersion, kind: 'Server', metadata: { ...base, ...metadata } };
}

const candidate = (...made: Parameters<typeof restored>): Candidate => ({
  ...KIND,
  object: toWaiting(KIND, restored(...made), 0),
});
const namesOf = (some: readonly Candidate[]) => some.map(({ object }) => object.metadata?.name);

test('a watch keeps what an object waits for, and no annotations', () => {
  const { metadata, awaits } = toWaiting(KIND, restored('a', ['b']), 7);
  expect(metadata).toEqual({ namespace: 'shop', name: 'a', uid: 'uid-a', resourceVersion: '1' });
  expect(awaits).toHaveLength(2); // in its namespace or cluster-scoped
  const ref = { apiVersion: 'v1', kind: 'Node', name: 'n', uid: 'old' };
  expect(
    toWaiting(KIND, { ...restored('a', []), spec: { refs: [ref] } } as KubeObject, 7).awaits,
  ).toHaveLength(2);
});

test.each([
  ['without a record', restored('a', [])],
  ['in deletion', restored('a', ['b'], { deletionTimestamp: '2026-11-21T12:00:00Z' })],
  [
    'with more owners than a pass reads',
    restored(
      'a',
      Array.from({ length: 65 }, (_, n) => `b${n}`),
    ),
  ],
  ['with the record of another object', restored('a', ['b'], { name: 'copy' })],
])('an object %s waits for nothing', (_which, object) => {
  expect(toWaiting(KIND, object, 7).awaits).toEqual([]);
});

test('owners are linked before their dependents, and a circle ends', () => {
  const [a, b, c, x, y] = [
    candidate('a', []),
    candidate('b', ['a']),
    candidate('c', ['b', 'unknown']),
    candidate('x', ['y']),
    candidate('y', ['x']),
  ];
  expect(ownersFirst([c, b, a]).map(namesOf)).toEqual([['a'], ['b'], ['c']]);
  expect(ownersFirst([x, y]).flat()).toHaveLength(2);
  const often = {
    ...b,
    object: { ...b.object, awaits: Array.from({ length: 150_000 }, () => b.object.awaits).flat() },
  };
  expect(ownersFirst([often, a]).map(namesOf)).toEqual([['a'], ['b']]);
});

test('a pass tries the objects that were left alone, those first that were tried least recently', () => {
  let time = 0;
  const tries = createTries(() => time);
  const all = ['a', 'b', 'c'].map((name) => candidate(name, ['owner']));
  const [a, b, c] = all as [Candidate, Candidate, Candidate];
  expect(tries.next(all)).toEqual([]); // just written
  time = 5_000;
  tries.tried(a);
  tries.tried(b);
  tries.ended(b);
  expect(tries.next(all)).toEqual([]); // a pass has just ended
  time = 7_000;
  expect(namesOf(tries.next(all))).toEqual(['c', 'a']);
  const changed = candidate('b', ['owner'], { resourceVersion: '2' });
  expect(namesOf(tries.next([a, changed, c]))).toEqual(['b', 'c', 'a']);
  const many = Array.from({ length: 300 }, (_, n) => candidate(`m${n}`, ['owner']));
  expect(tries.next(many)).toHaveLength(256);
});

test('of an object that changes for hours, only the current version is remembered', () => {
  let time = 5_000;
  const tries = createTries(() => time);
  for (let version = 1; version <= 100; version += 1) {
    const [chosen] = tries.next([candidate('a', ['owner'], { resourceVersion: `${version}` })]);
    expect(chosen?.object.metadata?.resourceVersion).toBe(`${version}`);
    if (chosen !== undefined) tries.tried(chosen);
    time += 10_000;
  }
  expect(tries.size()).toBe(1);
  tries.next([]);
  expect(tries.size()).toBe(0);
});

type Status = NonNullable<RestoreWindow['status']>;
const OPEN: Status = { phase: 'Open', openedAt: '2026-11-21T12:00:00Z' };
const windowOf = (
  name: string,
  status: Status = OPEN,
  sweep: RestoreWindow['spec']['sweep'] = {},
): RestoreWindow => ({
  apiVersion: 'gatehouse.dev/v1alpha1',
  kind: 'RestoreWindow',
  metadata: { name },
  spec: { principals: [{ user: 'velero' }], expiresAt: '2026-11-21T13:00:00Z', sweep },
  status,
});
const SWEEP = { startedAt: '', finishedAt: '', objectsScanned: 0 };

test.each<[boolean, string, RestoreWindow]>([
  [true, 'is open', windowOf('w')],
  [true, 'settles', windowOf('w', { ...OPEN, phase: 'Settling', lastSweep: { ...SWEEP, interim: true } })],
  [
    false,
    'had its final sweep',
    windowOf('w', { ...OPEN, phase: 'Settling', lastSweep: { ...SWEEP, interim: false } }),
  ],
  [false, 'was never open', windowOf('w', { phase: 'Settling' })],
  [false, 'is refused', windowOf('w', { ...OPEN, phase: 'Refused' })],
  [false, 'reports only', windowOf('w', OPEN, { relinkOwners: 'Report' })],
  [false, 'waits for an approval', windowOf('w', OPEN, { requireApprovalToLink: true })],
])('%s: links early if the window %s', (expected, _which, window) => {
  expect(isLinking(window)).toBe(expected);
});

test('an object is linked early only if all its windows link', () => {
  const modeIn = (...windows: readonly RestoreWindow[]) =>
    earlyTask(() => windows).modeOf(KIND.resource, restored('a', ['b'])).mode;
  const strict = windowOf('strict', OPEN, { requireApprovalToLink: true });
  expect([modeIn(windowOf('w')), modeIn(), modeIn(strict), modeIn(windowOf('w'), strict)]).toEqual([
    'Link',
    'Off',
    'Off',
    'Off',
  ]);
});

test('the leader blocks the deletion of no owner for a restorer who may restore only in namespaces', () => {
  const blockingIn = (...windows: readonly RestoreWindow[]) =>
    earlyTask(() => windows).modeOf(KIND.resource, restored('a', ['b']));
  const all = openedForCluster(windowOf('all'));
  expect(blockingIn(all)).toEqual({ mode: 'Link', mayBlock: true });
  expect(blockingIn(windowOf('tenant'))).toEqual({ mode: 'Link', mayBlock: false });
  expect(blockingIn(all, windowOf('tenant'))).toEqual({ mode: 'Link', mayBlock: false });
});
