import { setImmediate } from 'node:timers/promises';
import { describe, expect, test } from 'vitest';

import type { LiveOwner } from '../../admission/policy/world.ts';
import { applyPatch, type JsonPatchOperation, type PatchOperation } from '../../json/json-patch.ts';
import type { JsonObject } from '../../json/json.ts';
import { type KubeObject, type OwnerReference, groupResourceName } from '../../json/kube-object.ts';
import { encodeOwnerRecord, OWNER_RECORD_ANNOTATION, parseOwnerRecord } from '../../api/owner-record.ts';
import { type PatchOutcome, createRelinker, type RelinkOptions, type Relink } from './relink-owners.ts';
import { relinkStored, createUidRelinker } from './relink.ts';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { policyOf } from '../../../test/support/admission/policy.ts';
import type { RelinkMode } from '../../restore/window.ts';

const SERVERS = { group: 'infra.example.com', resource: 'servers' };
const CREATED = '2026-11-21T12:00:00Z';
const rack: OwnerReference = { apiVersion: 'infra.example.com/v1', kind: 'Rack', name: 'r1', uid: 'old' };
const { signal } = new AbortController();
const LINK: RelinkOptions = { mode: 'Link', isRestored: () => true };

const owner = (uid: string, rest: Partial<LiveOwner> = {}): LiveOwner => ({
  uid,
  apiVersion: 'infra.example.com/v1',
  creationTimestamp: CREATED,
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
    creationTimestamp: CREATED,
    annotations: { [OWNER_RECORD_ANNOTATION]: encodeOwnerRecord({ self: 'a', refs }) ?? '' },
  },
});

/** An API server that stores one object. */
function cluster(stored: KubeObject = child(), owners = new Map([['r1', owner('new')]])) {
  let now: KubeObject | undefined = stored;
  const patches: (readonly JsonPatchOperation[])[] = [];
  const state = {
    patches,
    change: (metadata: KubeObject['metadata']) => {
      const version = String(Number(now?.metadata?.resourceVersion ?? '0') + 1);
      now = { ...now, metadata: { ...now?.metadata, ...metadata, resourceVersion: version } };
      return undefined;
    },
    remove: () => (now = undefined),
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
  const apply = (operations: readonly JsonPatchOperation[]): PatchOutcome => {
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
    run: (options = LINK, listed = stored) => relinker(SERVERS, listed, options, signal),
    uids: () => (now?.metadata?.ownerReferences ?? []).map(({ uid }) => uid),
    recorded: () => parseOwnerRecord(now?.metadata?.annotations?.[OWNER_RECORD_ANNOTATION])?.refs,
  });
}

const results = (items: readonly { readonly result: string }[]) => items.map(({ result }) => result);

test.each<[string, KubeObject, Partial<RelinkOptions>]>([
  ['that no restore created', child(), { isRestored: () => false }],
  ['that has all owners', { metadata: { name: 'a' } }, {}],
  ['that is being deleted', { metadata: { ...child().metadata, deletionTimestamp: CREATED } }, {}],
])('an object %s is skipped', async (_which, object, options) => {
  const world = cluster(object);
  expect(await world.run({ ...LINK, ...options })).toEqual([]);
  expect(world.patches).toEqual([]);
});

test('an owner younger than the object is linked if a restore created it', async () => {
  const late = owner('new', { creationTimestamp: '2026-11-21T13:00:00Z', labels: { restored: 'yes' } });
  const isRestored: RelinkOptions['isRestored'] = ({ creationTimestamp, labels }) =>
    creationTimestamp === '2026-11-21T12:00:00Z' || labels?.restored === 'yes';
  const linking = async (found: LiveOwner) =>
    results(await cluster(child(), new Map([['r1', found]])).run({ ...LINK, isRestored }));
  expect(await linking({ ...late, labels: undefined })).toEqual(['OwnerAmbiguous']);
  expect(await linking(late)).toEqual(['Linked']);
});

test.each([
  ['was recreated', { uid: 'another' }],
  ['was linked', { ownerReferences: [{ ...rack, uid: 'new' }] }],
  ['is being deleted', { deletionTimestamp: '2026-11-21T12:00:00Z' }],
  ['is gone', undefined],
])('an object that %s by another client before the write is skipped', async (_what, metadata) => {
  const world = cluster();
  world.beforePatch = () => {
    if (metadata === undefined) world.remove();
    else world.change(metadata);
    return undefined;
  };
  expect(await world.run()).toEqual([]);
  expect(world.patches).toHaveLength(1);
});

describe('G5: an owner that is replaced during the link', () => {
  test('is linked with its new uid by the next write', async () => {
    const owners = new Map([['r1', owner('new')]]);
    const world = cluster(child(), owners);
    world.afterPatch = () => owners.set('r1', owner('newer'));
    expect(results(await world.run())).toEqual(['Linked']);
    expect(world.uids()).toEqual(['newer']);
    expect(world.recorded()).toMatchObject([{ uid: 'newer' }]);
  });

  test('is not linked if every attempt fails', async () => {
    const owners = new Map([['r1', owner('new-0')]]);
    const world = cluster(child(), owners);
    world.afterPatch = (n) => owners.set('r1', owner(`new-${n}`));
    const message = 'it was replaced while it was linked';
    expect(await world.run()).toMatchObject([{ result: 'Failed', message }]);
    expect(world.uids()).toEqual([]);
    expect(world.recorded()).toHaveLength(1);
  });
});

describe('owners that the object lost go from its managedFields', () => {
  const managedFields = [
    { manager: 'velero', fieldsV1: { 'f:metadata': { 'f:ownerReferences': { 'k:{"uid":"old"}': {} } } } },
    { manager: 'controller', fieldsV1: { 'f:spec': {} } },
  ];
  const metadata = { ...child([]).metadata, ownerReferences: [{ ...rack, uid: 'new' }], managedFields };
  const linked: KubeObject = { ...child([]), metadata };
  const refused: PatchOutcome = { kind: 'changed', message: 'no' };

  test.each<[string, (world: ReturnType<typeof cluster>) => PatchOutcome | undefined, number]>([
    ['with one write', () => undefined, 1],
    ['with several attempts if it changes', () => refused, 5],
    ['unless it is gone', (world) => world.remove(), 1],
    ['unless it was recreated', (world) => world.change({ uid: 'another' }), 1],
  ])('%s', async (_when, beforePatch, writes) => {
    const world = cluster(linked);
    world.beforePatch = () => beforePatch(world);
    expect(await world.run({ ...LINK, mode: 'Report' })).toEqual([]);
    expect(world.patches).toEqual([]);
    expect(await world.run()).toEqual([]);
    expect(world.patches).toHaveLength(writes);
    expect(world.patches[0]?.at(-1)).toMatchObject({ value: managedFields.slice(1) });
  });

  test('and a refusal is reported', async () => {
    const world = cluster(linked);
    world.beforePatch = () => ({ kind: 'forbidden', message: 'no' });
    const message =
      'metadata.managedFields still contains an old uid: no; grant Gatehouse get and patch on servers.infra.example.com';
    expect(await world.run()).toMatchObject([{ result: 'Failed', owner: { name: 'r1' }, message }]);
  });
});

test.each([
  [
    'admission webhook "a.example.com" denied the request: no',
    "exclude Gatehouse's controllers from a.example.com",
  ],
  [
    "ValidatingAdmissionPolicy 'b' with binding 'b' denied request: no",
    "exclude Gatehouse's controllers from b",
  ],
  [
    "ValidatingAdmissionPolicy 'gatehouse-backstop-workloads' with binding 'x' denied request: no",
    'write the field yourself, because the backstop limits what Gatehouse changes',
  ],
])('the advice for a link depends on who refused it: %s', async (message, advice) => {
  const world = cluster();
  world.beforePatch = () => ({ kind: 'forbidden', message });
  expect(await world.run()).toMatchObject([{ message: `${message}; ${advice}` }]);
});

test('a long message of a webhook is shortened, so that many fit into a report', async () => {
  const world = cluster();
  world.beforePatch = () => ({ kind: 'changed', message: 'x'.repeat(5_000) });
  const [item] = await world.run();
  expect(item?.message).toHaveLength(512);
});

const blocking = [{ ...rack, blockOwnerDeletion: true }];

test('G8: a write that the API server forbids is repeated without blockOwnerDeletion, and then reported', async () => {
  const hopeless = cluster(child(blocking));
  hopeless.beforePatch = () => ({ kind: 'forbidden', message: 'no' });
  const message = 'no; grant Gatehouse get, patch and delete on servers.infra.example.com';
  expect(await hopeless.run()).toMatchObject([{ result: 'Failed', message }]);
  expect(hopeless.patches).toHaveLength(2);
});

test('an owner is linked without blockOwnerDeletion from the first write if the restorer may restore only in namespaces', async () => {
  const world = cluster(child(blocking));
  const reason =
    'without blockOwnerDeletion, because a RestoreWindow that covers the object is not for the whole cluster';
  expect(await world.run({ ...LINK, mayBlock: false })).toMatchObject([
    { result: 'Linked', message: reason },
  ]);
  expect(JSON.stringify(world.patches)).not.toContain('"blockOwnerDeletion":true');
  expect(world.recorded()).toMatchObject([{ uid: 'new', blockOwnerDeletion: false }]);
});

test('an unreadable owner and a write with an unknown outcome are reported as failures', async () => {
  const gone = { read: () => Promise.resolve(undefined) };
  const broken = () => Promise.reject(new Error('broken pipe'));
  for (const [read, message] of [
    [() => Promise.reject(new Error('forbidden')), 'could not read Rack "r1": forbidden'],
    [() => Promise.resolve(owner('new')), 'broken pipe'],
  ] as const) {
    const items = await createRelinker({ read }, gone, broken)(SERVERS, child(), LINK, signal);
    expect(items).toMatchObject([{ result: 'Failed', message }]);
    const over = AbortSignal.abort(new Error('over'));
    const aborted = createRelinker({ read }, gone, broken)(SERVERS, child(), LINK, over);
    await expect(aborted).rejects.toThrow('over');
  }
});

const preserve = { owners: { preserve: true } };
const match = (resource: string, rest: object = {}) => ({
  match: { apiGroups: ['infra.example.com'], resources: [resource], ...rest },
});

async function relinked(
  policies: readonly CompiledPolicy[],
  stored: Readonly<Record<string, readonly KubeObject[] | string>>,
  modeOf: (object: KubeObject) => RelinkMode = () => 'Link',
) {
  const seen: string[] = [];
  const NO_ONE = { apiVersion: '', kind: '', name: '' };
  const relink: Relink = (resource, { metadata = {} }, { mode }) => {
    seen.push(`${mode} ${groupResourceName(resource)}/${metadata.name ?? ''}`);
    return Promise.resolve([{ object: NO_ONE, owner: NO_ONE, result: 'Linked' }]);
  };
  const result = await relinkStored(
    {
      pages: async function* ({ resource }) {
        const page = stored[resource] ?? [];
        if (typeof page === 'string') throw new Error(page);
        for (const object of page) yield await Promise.resolve([object]);
      },
      namespaceLabels: () => Promise.resolve(new Map([['shop', { tier: 'gold' }]])),
    },
    policies,
    { owners: relink, uids: () => Promise.resolve([]) },
    { modeOf: (_resource, one) => ({ mode: modeOf(one) }), isRestored: () => true },
    signal,
  );
  return { seen, items: result.items.length, unreadable: result.unreadable };
}

const object = (name: string, namespace = 'shop') => ({ metadata: { name, namespace } });

test('each object of a kind with preserved owners is relinked once, however many policies govern it', async () => {
  const gold = { namespaceSelector: { matchLabels: { tier: 'gold' } } };
  const policies = [
    policyOf({ ...match('servers'), ...preserve }, 'one'),
    policyOf({ ...match('servers', gold), ...preserve }, 'two'),
    policyOf({ ...match('disks') }, 'three'),
    policyOf({ ...match('racks'), ...preserve }, 'four'),
  ];
  const stored = { servers: [object('a'), object('b', 'dev')], disks: [object('c')], racks: 'forbidden' };
  const seen = ['Link servers.infra.example.com/a', 'Link servers.infra.example.com/b'];
  const unreadable = ['racks.infra.example.com: forbidden'];
  expect(await relinked(policies, stored)).toEqual({ seen, items: 2, unreadable });
  expect((await relinked(policies.slice(1), stored)).seen).toEqual(seen.slice(0, 1)); // selected objects only
});

test('an object whose mode is Off is left alone, and each object has its own mode', async () => {
  const stored = { servers: [object('a'), object('b', 'dev'), object('c')] };
  const { seen } = await relinked([policyOf({ ...match('servers'), ...preserve })], stored, ({ metadata }) =>
    metadata?.namespace === 'dev' ? 'Off' : metadata?.name === 'c' ? 'Report' : 'Link',
  );
  expect(seen).toEqual(['Link servers.infra.example.com/a', 'Report servers.infra.example.com/c']);
});

const reference = {
  name: 'rack',
  path: 'spec.rack.name',
  uidPath: 'spec.rack.uid',
  target: { apiGroup: 'infra.example.com', resource: 'classes' },
};
const policy = policyOf({ validate: { references: [reference] } });

const server = (uid: string) => ({
  metadata: { name: 'a', namespace: 'shop', uid: 'child', resourceVersion: '1', creationTimestamp: CREATED },
  spec: { rack: { name: 'r1', uid } },
});
const target = (uid: string, rest: object = {}): KubeObject => ({
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
  const patches: (readonly JsonPatchOperation[])[] = [];
  const relink = createUidRelinker(
    {
      read: ({ resource }) => {
        if (resource === 'servers') return Promise.resolve(stored);
        const target = targets[Math.min(reads++, targets.length - 1)];
        return typeof target === 'string' ? Promise.reject(new Error(target)) : Promise.resolve(target);
      },
    },
    { read: () => Promise.resolve(undefined) },
    (_ref, operations) => {
      const kind = outcomes[patches.length] ?? 'patched';
      patches.push(operations);
      if (kind !== 'patched') return Promise.resolve({ kind, message: 'no' });
      const written = operations.find(({ op }) => op === 'replace');
      stored = server(String(written !== undefined && 'value' in written ? written.value : ''));
      return Promise.resolve({ kind, object: stored });
    },
  );
  const isRestored: RelinkOptions['isRestored'] = ({ labels }) => labels?.foreign === undefined;
  const mode: RelinkOptions = { mode: 'Link', isRestored, ...options };
  const items = await relink(SERVERS, server('old'), [policy], mode, signal);
  return { results: results(items), items, patches, rack: stored.spec.rack };
}

test('the stale uid is replaced with one guarded write, and again if the target was recreated during the write', async () => {
  const corrected = await run({ targets: [target('new'), target('newer')] });
  expect([corrected.results, corrected.rack]).toEqual([['Linked'], { name: 'r1', uid: 'newer' }]);
  const { items, patches } = await run({ targets: [target('new')] });
  const object = { apiVersion: '', kind: '', name: 'a', namespace: 'shop', uid: 'child' };
  const owner = { apiVersion: 'infra.example.com/v1', kind: 'Class', name: 'r1' };
  expect(items).toEqual([{ object, field: 'spec.rack.uid', owner, result: 'Linked' }]);
  expect(patches).toEqual([
    [
      { op: 'test', path: '/metadata/uid', value: 'child' },
      { op: 'test', path: '/metadata/resourceVersion', value: '1' },
      { op: 'replace', path: '/spec/rack/uid', value: 'new' },
    ],
  ]);
});

test('an object with many uids causes only a few reads at a time', async () => {
  let [reads, inFlight, most] = [0, 0, 0];
  const read = async () => {
    reads += 1;
    inFlight += 1;
    most = Math.max(most, inFlight);
    await setImmediate();
    inFlight -= 1;
    return undefined;
  };
  const refs = Array.from({ length: 100 }, (_, n) => ({
    apiVersion: 'v1',
    kind: 'Node',
    name: `n${n}`,
    uid: 'old',
  }));
  const object = { ...server('old'), spec: { refs } };
  const patch = () => Promise.reject(new Error('nothing to write'));
  const relink = createUidRelinker({ read }, { read }, patch);
  const governing = [policyOf({ restore: { uids: ['spec.refs[*].uid'] } })];
  expect(results(await relink(SERVERS, object, governing, LINK, signal))).toHaveLength(100);
  expect([reads, most]).toEqual([100, 4]);
});

const YOUNGER = { creationTimestamp: '2026-11-21T13:00:00Z', labels: { foreign: 'x' } };

test.each<[result: string, scene: Scene]>([
  ['OwnerMissing', { targets: [undefined] }],
  ['OwnerTerminating', { targets: [target('new', { deletionTimestamp: CREATED })] }],
  ['OwnerAmbiguous', { targets: [target('new', YOUNGER)] }],
  ['Failed', { targets: ['timeout'] }],
  ['WouldLink', { targets: [target('new')], options: { mode: 'Report' } }],
])('%s writes nothing', async (result, scene) => {
  const { results, patches } = await run(scene);
  expect([results, patches]).toEqual([[result], []]);
});

test('a missing permission is reported, and conflicts are retried a few times', async () => {
  expect(await run({ targets: [target('new')], outcomes: ['forbidden'] })).toMatchObject({
    items: [{ result: 'Failed', message: 'no; grant Gatehouse get and patch on servers.infra.example.com' }],
  });
  const patient = await run({ targets: [target('new')], outcomes: ['changed', 'changed'] });
  expect(patient.results).toEqual(['Linked']);
  const stubborn = await run({ targets: [target('new')], outcomes: Array(9).fill('changed') as 'changed'[] });
  expect([stubborn.results, stubborn.patches.length]).toEqual([['Failed'], 5]);
});

test('an object that no restore has created, and a current uid, are left alone', async () => {
  expect((await run({ targets: [target('new')], options: { isRestored: () => false } })).patches).toEqual([]);
  expect((await run({ targets: [target('old')] })).results).toEqual([]);
});
