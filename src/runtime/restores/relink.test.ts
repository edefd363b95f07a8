import { describe, expect, test } from 'vitest';

import type { LiveOwner } from '../../admission/policy/world.ts';
import { applyPatch, type PatchOperation } from '../../json/json-patch.ts';
import type { JsonObject } from '../../json/json.ts';
import type { KubeObject, OwnerReference } from '../../json/kube-object.ts';
import { encodeOwnerRecord, OWNER_RECORD_ANNOTATION, parseOwnerRecord } from '../../api/owner-record.ts';
import type { LinkOperation } from '../../restore/owner-links.ts';
import { containing } from '../../../test/support/runtime/fixtures.ts';
import { createRelinker, type PatchOutcome, type RelinkOptions } from './relink.ts';

const SERVERS = { group: 'infra.example.com', resource: 'servers' };
const rack: OwnerReference = { apiVersion: 'infra.example.com/v1', kind: 'Rack', name: 'r1', uid: 'old' };
const LINK: RelinkOptions = { mode: 'Link', isRestored: () => true };

const owner = (uid: string, rest: Partial<LiveOwner> = {}): LiveOwner => ({
  uid,
  apiVersion: 'infra.example.com/v1',
  creationTimestamp: '2026-11-21T12:00:00Z',
  deletionTimestamp: undefined,
  labels: undefined,
  ...rest,
});

const child = (refs: readonly OwnerReference[] = [rack]): KubeObject => ({
  apiVersion: 'infra.example.com/v1',
  kind: 'Server',
  metadata: {
    name: 'a',
    namespace: 'shop',
    uid: 'child',
    resourceVersion: '1',
    creationTimestamp: '2026-11-21T12:00:00Z',
    annotations: { [OWNER_RECORD_ANNOTATION]: encodeOwnerRecord({ self: 'a', refs }) ?? '' },
  },
});

/** An API server that stores one object. */
function cluster(stored: KubeObject = child(), owners = new Map([['r1', owner('new')]])) {
  let now: KubeObject | undefined = stored;
  const patches: (readonly LinkOperation[])[] = [];
  const state = {
    patches,
    stored: () => now,
    change: (metadata: KubeObject['metadata']) => {
      const version = String(Number(now?.metadata?.resourceVersion ?? '0') + 1);
      now = { ...now, metadata: { ...now?.metadata, ...metadata, resourceVersion: version } };
    },
    remove: () => {
      now = undefined;
    },
    beforePatch: (() => undefined) as (n: number) => PatchOutcome | undefined,
    afterPatch: (() => undefined) as (n: number) => void,
  };
  const relinker = createRelinker(
    { read: ({ name }) => Promise.resolve(owners.get(name)) },
    { read: () => Promise.resolve(now) },
    (_ref, operations) => {
      patches.push(operations);
      const refused = state.beforePatch(patches.length);
      if (refused !== undefined) return Promise.resolve(refused);
      const outcome = apply(operations);
      state.afterPatch(patches.length);
      return Promise.resolve(outcome);
    },
  );
  const apply = (operations: readonly LinkOperation[]): PatchOutcome => {
    const { uid, resourceVersion } = now?.metadata ?? {};
    const tested = operations.flatMap((one) => (one.op === 'test' ? [one.value] : []));
    if (now === undefined || tested[0] !== uid || tested[1] !== resourceVersion)
      return { kind: 'changed', message: 'the test failed' };
    const edits = operations.filter(({ op }) => op !== 'test');
    now = applyPatch(now as JsonObject, edits as readonly PatchOperation[]); // their values are JSON
    state.change({});
    return { kind: 'patched', object: now };
  };
  return Object.assign(state, {
    run: (options = LINK, listed = stored) =>
      relinker(SERVERS, listed, options, new AbortController().signal),
    uids: () => (now?.metadata?.ownerReferences ?? []).map(({ uid }) => uid),
    recorded: () => parseOwnerRecord(now?.metadata?.annotations?.[OWNER_RECORD_ANNOTATION])?.refs,
  });
}

const results = (items: readonly { readonly result: string }[]) => items.map(({ result }) => result);

test('an existing owner is linked with one write, and a second run finds nothing to do', async () => {
  const world = cluster();
  expect(await world.run()).toEqual([
    {
      object: {
        apiVersion: 'infra.example.com/v1',
        kind: 'Server',
        namespace: 'shop',
        name: 'a',
        uid: 'child',
      },
      owner: { apiVersion: 'infra.example.com/v1', kind: 'Rack', name: 'r1' },
      result: 'Linked',
    },
  ]);
  expect(world.uids()).toEqual(['new']);
  expect(await world.run(LINK, world.stored())).toEqual([]);
  expect(world.patches).toHaveLength(1);
});

test.each<[string, KubeObject, Partial<RelinkOptions>]>([
  ['that no restore created', child(), { isRestored: () => false }],
  ['that has all owners', { metadata: { name: 'a' } }, {}],
  [
    'that is being deleted',
    { ...child(), metadata: { ...child().metadata, deletionTimestamp: '2026-11-21T12:00:00Z' } },
    {},
  ],
])('an object %s is skipped', async (_which, object, options) => {
  const world = cluster(object);
  expect(await world.run({ ...LINK, ...options })).toEqual([]);
  expect(world.patches).toEqual([]);
});

test('mode Report writes nothing', async () => {
  const world = cluster(child([rack, { ...rack, name: 'r2' }]));
  expect(results(await world.run({ ...LINK, mode: 'Report' }))).toEqual(['WouldLink', 'OwnerMissing']);
  const [held, missing] = await world.run({ ...LINK, mode: 'Report', heldBy: 'careful' });
  expect(held?.message).toContain('RestoreWindow "careful" restored the object too');
  expect(missing?.message).not.toContain('careful');
  expect(world.patches).toEqual([]);
});

test('an owner younger than the object is linked if a restore created it', async () => {
  const late = owner('new', { creationTimestamp: '2026-11-21T13:00:00Z', labels: { restored: 'yes' } });
  const isRestored: RelinkOptions['isRestored'] = ({ creationTimestamp, labels }) =>
    creationTimestamp === '2026-11-21T12:00:00Z' || labels?.restored === 'yes';
  const world = cluster(child(), new Map([['r1', { ...late, labels: undefined }]]));
  expect(results(await world.run({ ...LINK, isRestored }))).toEqual(['OwnerAmbiguous']);
  expect(results(await cluster(child(), new Map([['r1', late]])).run({ ...LINK, isRestored }))).toEqual([
    'Linked',
  ]);
});

describe('while other clients write', () => {
  /** A world in which another client changes the object before the first write. */
  const changing = (metadata: KubeObject['metadata'], object = child()) => {
    const world = cluster(object);
    world.beforePatch = (n) => {
      if (n === 1) world.change(metadata);
      return undefined;
    };
    return world;
  };

  test('the object is read and evaluated again', async () => {
    const world = changing({ labels: { a: 'b' } });
    expect(results(await world.run())).toEqual(['Linked']);
    expect(world.stored()?.metadata?.labels).toEqual({ a: 'b' });
    expect(world.patches).toHaveLength(2);
  });

  test('an owner that another client has linked is left alone', async () => {
    const world = changing({ ownerReferences: [{ ...rack, uid: 'new' }] });
    expect(await world.run()).toEqual([]);
    expect(world.uids()).toEqual(['new']);
  });

  test('G4: a controller that adopts the object meanwhile keeps it, without a loop', async () => {
    const adopted = { ownerReferences: [{ ...rack, name: 'x', uid: 'x', controller: true }] };
    const world = changing(adopted, child([{ ...rack, controller: true }]));
    expect(results(await world.run())).toEqual(['AlreadyControlled']);
    expect(world.uids()).toEqual(['x']);
    expect(world.patches).toHaveLength(2);
  });

  test.each([
    ['was recreated', { uid: 'another' }],
    ['is being deleted', { deletionTimestamp: '2026-11-21T12:00:00Z' }],
    ['is gone', undefined],
  ])('an object that %s is skipped', async (_what, metadata) => {
    const world = changing(metadata);
    if (metadata === undefined)
      world.beforePatch = () => {
        world.remove();
        return undefined;
      };
    expect(await world.run()).toEqual([]);
    expect(world.patches).toHaveLength(1);
  });

  test('an object that keeps changing is skipped after five attempts, until the next sweep', async () => {
    const world = cluster();
    world.beforePatch = () => {
      world.change({});
      return undefined;
    };
    expect(await world.run()).toMatchObject([{ result: 'Failed', message: 'the test failed' }]);
    expect(world.patches).toHaveLength(5);
    expect(world.uids()).toEqual([]);
  });
});

describe('G5: an owner that is replaced during the link', () => {
  test('is linked with its new uid by the next write', async () => {
    const owners = new Map([['r1', owner('new')]]);
    const world = cluster(child(), owners);
    world.afterPatch = (n) => {
      if (n === 1) owners.set('r1', owner('newer'));
    };
    expect(results(await world.run())).toEqual(['Linked']);
    expect(world.uids()).toEqual(['newer']);
    expect(world.recorded()).toMatchObject([{ uid: 'newer' }]);
  });

  test('is unlinked when it is gone, and stays recorded', async () => {
    const owners = new Map([['r1', owner('new')]]);
    const world = cluster(child(), owners);
    world.afterPatch = () => {
      owners.delete('r1');
    };
    expect(results(await world.run())).toEqual(['OwnerMissing']);
    expect(world.uids()).toEqual([]);
    expect(world.recorded()).toMatchObject([{ name: 'r1' }]);
  });

  test('leaves no reference if every attempt fails', async () => {
    const owners = new Map([['r1', owner('new-0')]]);
    const world = cluster(child(), owners);
    world.afterPatch = (n) => {
      owners.set('r1', owner(`new-${n}`));
    };
    expect(await world.run()).toMatchObject([
      { result: 'Failed', message: 'it was replaced while it was linked' },
    ]);
    expect(world.uids()).toEqual([]);
    expect(world.recorded()).toHaveLength(1);
  });
});

describe('G8: a write that the API server forbids', () => {
  const blocking = [{ ...rack, blockOwnerDeletion: true }];

  test('is repeated without blockOwnerDeletion, and reported', async () => {
    const world = cluster(child(blocking));
    world.beforePatch = (n) => (n === 1 ? { kind: 'forbidden', message: 'not the finalizers' } : undefined);
    expect(await world.run()).toMatchObject([
      { result: 'Linked', message: containing('without blockOwnerDeletion') },
    ]);
    expect(world.stored()?.metadata?.ownerReferences).toMatchObject([
      { uid: 'new', blockOwnerDeletion: false },
    ]);
  });

  test('twice is reported with the permission to grant', async () => {
    const world = cluster(child(blocking));
    world.beforePatch = () => ({ kind: 'forbidden', message: 'no' });
    expect(await world.run()).toMatchObject([
      { result: 'Failed', message: 'no; grant Gatehouse get, patch and delete on servers.infra.example.com' },
    ]);
    expect(world.patches).toHaveLength(2);
  });
});

test('an unreadable owner and a write with an unknown outcome are reported as failures', async () => {
  const gone = { read: () => Promise.resolve(undefined) };
  const broken = () => Promise.reject(new Error('broken pipe'));
  const signal = new AbortController().signal;
  const blind = createRelinker({ read: () => Promise.reject(new Error('forbidden')) }, gone, broken);
  expect(await blind(SERVERS, child(), LINK, signal)).toMatchObject([
    { result: 'Failed', message: 'could not read Rack "r1": forbidden' },
  ]);
  const cut = createRelinker({ read: () => Promise.resolve(owner('new')) }, gone, broken);
  expect(await cut(SERVERS, child(), LINK, signal)).toMatchObject([
    { result: 'Failed', message: 'broken pipe' },
  ]);
});

test('an abort is an error, not a result', async () => {
  const stopped = new AbortController();
  const relinker = createRelinker(
    {
      read: () => {
        stopped.abort(new Error('no longer leading'));
        return Promise.reject(new Error('aborted'));
      },
    },
    { read: () => Promise.resolve(undefined) },
    () => Promise.reject(new Error('never')),
  );
  await expect(relinker(SERVERS, child(), LINK, stopped.signal)).rejects.toThrow('no longer leading');
});
