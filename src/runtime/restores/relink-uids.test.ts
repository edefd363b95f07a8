import { expect, test } from 'vitest';

import type { KubeObject } from '../../json/kube-object.ts';
import { policyOf } from '../../../test/support/admission/policy.ts';
import type { LinkOperation } from '../../restore/owner-links.ts';
import type { PatchOutcome, RelinkOptions } from './relink.ts';
import { createUidRelinker } from './relink-owners.ts';

const SERVERS = { group: 'infra.example.com', resource: 'servers' };
const CREATED = '2026-11-21T12:00:00Z';
const policy = policyOf({
  validate: {
    references: [
      {
        name: 'rack',
        path: 'spec.rack.name',
        uidPath: 'spec.rack.uid',
        target: { apiGroup: 'infra.example.com', resource: 'classes' },
      },
    ],
  },
});

const server = (uid: string): KubeObject & { readonly spec: object } => ({
  metadata: { name: 'a', namespace: 'shop', uid: 'child', resourceVersion: '1', creationTimestamp: CREATED },
  spec: { rack: { name: 'r1', uid } },
});
const rack = (uid: string, rest: object = {}): KubeObject => ({
  apiVersion: 'infra.example.com/v1',
  metadata: { name: 'r1', namespace: 'shop', uid, creationTimestamp: CREATED, ...rest },
});

interface Scene {
  /** The target at each read; the last one stays. */
  readonly targets: readonly (KubeObject | string | undefined)[];
  readonly outcomes?: readonly PatchOutcome['kind'][];
  readonly options?: Partial<RelinkOptions>;
}

async function run({ targets, outcomes = [], options = {} }: Scene) {
  let reads = 0;
  let stored = server('old');
  const patches: (readonly LinkOperation[])[] = [];
  const relink = createUidRelinker(
    {
      read: ({ resource }) => {
        if (resource === 'servers') return Promise.resolve(stored);
        const target = targets[Math.min(reads++, targets.length - 1)];
        return typeof target === 'string' ? Promise.reject(new Error(target)) : Promise.resolve(target);
      },
    },
    (_ref, operations) => {
      const kind = outcomes[patches.length] ?? 'patched';
      patches.push(operations);
      if (kind !== 'patched') return Promise.resolve({ kind, message: 'no' });
      const written = operations.find(({ op }) => op === 'replace');
      stored = server(String(written !== undefined && 'value' in written ? written.value : ''));
      return Promise.resolve({ kind, object: stored });
    },
  );
  const mode: RelinkOptions = {
    mode: 'Link',
    isRestored: (made) => made.labels?.foreign === undefined,
    ...options,
  };
  const items = await relink(SERVERS, server('old'), [policy], mode, new AbortController().signal);
  return {
    results: items.map(({ result }) => result),
    items,
    patches,
    uid: Reflect.get(stored.spec, 'rack') as unknown,
  };
}

test('the stale uid is replaced with one guarded write', async () => {
  const { items, patches } = await run({ targets: [rack('new')] });
  expect(items).toEqual([
    {
      object: { apiVersion: '', kind: '', name: 'a', namespace: 'shop', uid: 'child' },
      field: 'spec.rack.uid',
      owner: { apiVersion: 'infra.example.com/v1', kind: 'Class', name: 'r1' },
      result: 'Linked',
    },
  ]);
  expect(patches).toEqual([
    [
      { op: 'test', path: '/metadata/uid', value: 'child' },
      { op: 'test', path: '/metadata/resourceVersion', value: '1' },
      { op: 'replace', path: '/spec/rack/uid', value: 'new' },
    ],
  ]);
});

test('a target that was recreated during the write is corrected at once', async () => {
  const { results, uid } = await run({ targets: [rack('new'), rack('newer')] });
  expect([results, uid]).toEqual([['Linked'], { name: 'r1', uid: 'newer' }]);
});

test.each<[result: string, scene: Scene]>([
  ['OwnerMissing', { targets: [undefined] }],
  ['OwnerTerminating', { targets: [rack('new', { deletionTimestamp: CREATED })] }],
  [
    'OwnerAmbiguous',
    { targets: [rack('new', { creationTimestamp: '2026-11-21T13:00:00Z', labels: { foreign: 'x' } })] },
  ],
  ['Failed', { targets: ['timeout'] }],
  ['WouldLink', { targets: [rack('new')], options: { mode: 'Report' } }],
])('%s writes nothing', async (result, scene) => {
  const { results, patches } = await run(scene);
  expect([results, patches]).toEqual([[result], []]);
});

test('a missing permission is reported, and conflicts are retried a few times', async () => {
  expect(await run({ targets: [rack('new')], outcomes: ['forbidden'] })).toMatchObject({
    items: [{ result: 'Failed', message: 'no; grant Gatehouse get and patch on servers.infra.example.com' }],
  });
  expect((await run({ targets: [rack('new')], outcomes: ['changed', 'changed'] })).results).toEqual([
    'Linked',
  ]);
  const stubborn = await run({ targets: [rack('new')], outcomes: Array(9).fill('changed') as 'changed'[] });
  expect([stubborn.results, stubborn.patches.length]).toEqual([['Failed'], 5]);
});

test('an object that no restore has created, and a current uid, are left alone', async () => {
  expect((await run({ targets: [rack('new')], options: { isRestored: () => false } })).patches).toEqual([]);
  expect((await run({ targets: [rack('old')] })).results).toEqual([]);
});
