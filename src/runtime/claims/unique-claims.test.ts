import type { KubeClient } from '../../kube/client.ts';
import { beforeEach, describe, expect, test } from 'vitest';

import { newClaim } from '../../admission/policy/unique/claim-state.ts';
import { createClaimsInMemory, SETTLE_MS } from '../../../test/support/admission/claims.ts';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { summarise } from '../../admission/policy/governed-summary.ts';
import { heldKeys } from '../../admission/policy/unique/unique-key.ts';
import type { KubeObject, ObjectRef } from '../../json/kube-object.ts';
import type { AdmittedRequest, UniqueClaim } from '../../api/unique-claim.ts';
import { resourceOf } from '../../../test/support/definitions.ts';
import { compiled, createEvents, GROUP, NEVER, silent } from '../../../test/support/runtime/fixtures.ts';
import { createListedContext } from '../../../test/support/runtime/listed-rest.ts';
import { UNIQUE_CLAIMS } from '../resources.ts';
import { createMetrics } from '../../server/metrics/metrics.ts';
import {
  ALL_CLAIMS,
  createUniqueClaimsReconciler,
  startUniqueClaims,
  type UniqueClaimsOptions,
} from './unique-claims.ts';

const now = new Date('2026-11-21T12:00:00Z');
const after = (ms: number) => ({ kind: 'requeue', at: new Date(now.getTime() + ms) });
const AWAIT_CHANGE = { kind: 'await-change' };

let policies: CompiledPolicy[];
let claims: ReturnType<typeof createClaimsInMemory>;
let stored: Map<string, KubeObject>;
let gone: Set<string>;
let enqueued: string[];
let shared: Map<string, readonly string[]>;
let writes: number;
/** Whether the API server has the policy, for claims by a rule that is not in force. */
let hasRule: boolean;

const ONE_RULE = { validate: { unique: [{ name: 'serial', paths: ['spec.serial'] }] } };

beforeEach(() => {
  policies = [compiled(ONE_RULE)];
  claims = createClaimsInMemory();
  stored = new Map();
  gone = new Set();
  enqueued = [];
  shared = new Map();
  writes = 0;
  hasRule = true;
});

const refOf = (name: string): ObjectRef => ({ group: GROUP, resource: 'servers', namespace: 'shop', name });

function store(name: string, serial: string | undefined, metadata: object = {}): void {
  const version = { resourceVersion: '1', creationTimestamp: '2026-11-21T11:00:00Z' };
  stored.set(name, {
    metadata: { name, namespace: 'shop', uid: `uid-of-${name}`, ...version, ...metadata },
    spec: serial === undefined ? {} : { serial },
  } as KubeObject);
}

function keyOf(serial: string) {
  const [policy] = policies;
  const [key] = policy === undefined ? [] : heldKeys(policy, { spec: { serial } }, refOf('any'));
  if (key === undefined) throw new Error('expected a rule');
  return key;
}
const nameOf = (serial: string) => keyOf(serial).claim;

/** Stores a claim of `holder`. `request` is the admitted write that made it; without one, no write is pending. */
function claim(serial: string, holder: string, request?: Omit<AdmittedRequest, 'at'>, agoMs = 1_000): void {
  const at = now.getTime() - agoMs;
  const admitted = request === undefined ? undefined : { ...request, at: new Date(at).toISOString() };
  const made = newClaim('servers', keyOf(serial), refOf(holder), admitted, at);
  claims.stored.set(nameOf(serial), { ...made, metadata: { ...made.metadata, resourceVersion: 'first' } });
}
/** Another client changes the claim. */
function edit(name: string, change: (claim: UniqueClaim) => Partial<UniqueClaim>): void {
  const made = claims.stored.get(name);
  if (made === undefined) throw new Error('expected a claim');
  claims.stored.set(name, { ...made, ...change(made) });
}

const known = () => [...stored.values()];
const claimsOf = (object: KubeObject) => summarise(policies, refOf(''), object).claims;
const governedWith = (change: Partial<UniqueClaimsOptions['governed']>): UniqueClaimsOptions['governed'] => ({
  holdersOf: (name) =>
    known()
      .filter((object) => claimsOf(object).includes(name))
      .map(({ metadata }) => refOf(metadata?.name ?? '')),
  objects: () => known().map((object) => ({ ref: refOf(''), object: { claims: claimsOf(object) } })),
  unsynced: () => [],
  unlisted: () => new Set(),
  ...change,
});
const options = (change: Partial<UniqueClaimsOptions> = {}): UniqueClaimsOptions => ({
  policies: () => policies,
  client: {
    get: (() =>
      Promise.resolve(hasRule ? { spec: policies[0]?.spec ?? ONE_RULE } : undefined)) as KubeClient['get'], // a policy
    pages: async function* () {
      yield await Promise.resolve({ metadata: {}, items: [...claims.stored.values()] });
    } as KubeClient['pages'], // only UniqueClaims are listed
  },
  claims,
  governed: governedWith({}),
  world: { read: ({ name }) => Promise.resolve(stored.get(name)) },
  wasStored: (uid) => gone.has(uid),
  enqueue: (name) => enqueued.push(name),
  pace: () => {
    writes += 1;
    return Promise.resolve();
  },
  onHolders: (name, holders) =>
    shared.set(
      name,
      Array.from(holders, ({ ref }) => ref.name),
    ),
  now: () => now,
  random: () => 0,
  log: silent,
  ...change,
});

const reconcile = (serial: string, change: Partial<UniqueClaimsOptions> = {}) =>
  createUniqueClaimsReconciler(options(change))(nameOf(serial), NEVER);
const compareAll = (change: Partial<UniqueClaimsOptions> = {}) =>
  createUniqueClaimsReconciler(options(change))(ALL_CLAIMS, NEVER);
const holders = () => [...claims.stored.values()].map(({ spec }) => spec.holder.name);

test('a stored object that claims its value first is checked again', async () => {
  store('a', 'X');
  claims.before('create', () => claim('X', 'b'));
  await expect(reconcile('X')).rejects.toThrow('in the meantime');
});

describe('a claim', () => {
  test('with a correct holder stays, without a write', async () => {
    store('a', 'X');
    claim('X', 'a', { uid: 'uid-of-a' });
    expect(await reconcile('X')).toEqual(AWAIT_CHANGE);
    expect(claims.asked).toEqual([`read ${nameOf('X')}`]);
    expect(writes).toBe(0);
  });

  test('with a missing holder stays while a write may be pending, and is deleted then', async () => {
    claim('X', 'a', { uid: 'uid-of-a' }, 10_000);
    expect(await reconcile('X')).toEqual(after(SETTLE_MS - 10_000));
    expect(claims.stored.size).toBe(1);
    gone.add('uid-of-a'); // it was stored
    expect(await reconcile('X')).toEqual(AWAIT_CHANGE);
    expect(claims.stored.size).toBe(0);
    claim('X', 'a', { uid: 'uid-of-b' }, SETTLE_MS);
    store('b', 'X');
    await reconcile('X');
    expect(holders()).toEqual(['b']);
  });

  test('is judged by its own policy, although another one has a rule of the same name', async () => {
    store('a', 'X');
    claim('X', 'a', undefined, SETTLE_MS);
    const name = nameOf('X');
    const unique = [{ name: 'serial', paths: ['spec.asset'] }];
    policies = [compiled({ validate: { unique } }, { name: 'others', generation: 1 }), ...policies];
    expect(await createUniqueClaimsReconciler(options())(name, NEVER)).toEqual(AWAIT_CHANGE);
    expect(holders()).toEqual(['a']);
    expect(writes).toBe(0);
  });

  test.each<[string, (forged: UniqueClaim['spec']) => Partial<UniqueClaim['spec']>]>([
    ['of another kind', ({ holder }) => ({ holder: { ...holder, group: '', resource: 'secrets' } })],
    ['with a name that no object can have', ({ holder }) => ({ holder: { ...holder, name: '../a' } })],
    ['with a write in the future', () => ({ requests: [{ at: '2999-01-01T00:00:00Z' }] })],
    ['and a policy with a name that no object can have', () => ({ policy: '..' })],
  ])('that an attacker forged for a holder %s is deleted, and nothing else is read', async (_what, forge) => {
    claim('X', 'a', undefined, SETTLE_MS);
    edit(nameOf('X'), ({ spec }) => ({ spec: { ...spec, ...forge(spec) } }));
    const read = (ref: ObjectRef) =>
      ref.resource === 'servers' && ref.name === 'a'
        ? Promise.resolve(undefined)
        : Promise.reject(new Error(`read ${ref.resource} ${ref.name}`));
    const get = (() => Promise.reject(new Error('read a policy'))) as KubeClient['get'];
    const client = { ...options().client, get };
    expect(await reconcile('X', { world: { read }, client })).toEqual(AWAIT_CHANGE);
    expect(holders()).toEqual([]);
  });

  test('that another request renews is kept', async () => {
    claim('X', 'a', { uid: 'uid-of-a' }, SETTLE_MS);
    claims.before('remove', (name) =>
      edit(name, ({ metadata }) => ({ metadata: { ...metadata, resourceVersion: 'second' } })),
    );
    await expect(reconcile('X')).rejects.toThrow('in the meantime');
    expect(claims.stored.size).toBe(1);
  });

  test('is checked with one read of its holder: with two, a write could complete in between unnoticed', async () => {
    claim('X', 'a', { uid: 'uid-of-a', resourceVersion: '1' });
    store('a', 'Y');
    let n = 0;
    const read: UniqueClaimsOptions['world']['read'] = ({ name }) => {
      const found = stored.get(name);
      n += 1;
      store('a', 'X', { resourceVersion: '2' }); // the pending write completes
      return Promise.resolve(found);
    };
    const governed = governedWith({ holdersOf: () => [] });
    expect(await reconcile('X', { world: { read }, governed })).toEqual(after(SETTLE_MS - 1_000));
    expect(n).toBe(1);
    expect(holders()).toEqual(['a']);
  });

  test('of a removed rule is deleted, but only when its pending requests have settled', async () => {
    store('a', 'X');
    claim('X', 'a', undefined, 10_000);
    const name = nameOf('X');
    policies = [];
    const mend = () => createUniqueClaimsReconciler(options())(name, NEVER);
    expect(await mend()).toEqual(AWAIT_CHANGE); // the policy exists, but does not compile
    expect(claims.stored.size).toBe(1);
    hasRule = false;
    expect(await mend()).toEqual(after(SETTLE_MS - 10_000));
    const claimedAt = new Date(now.getTime() - SETTLE_MS).toISOString();
    edit(name, ({ spec }) => ({ spec: { ...spec, claimedAt } }));
    expect(await mend()).toEqual(AWAIT_CHANGE);
    expect(claims.stored.size).toBe(0);
  });
});

test('objects with the same value are reported, the holder of the claim first', async () => {
  store('a', 'X', { creationTimestamp: '2026-11-21T10:00:00Z' });
  store('b', 'X');
  claim('X', 'b');
  await reconcile('X');
  expect(shared.get(nameOf('X'))).toEqual(['b', 'a']);
  expect(holders()).toEqual(['b']);
});

test('the leader counts the values that several objects hold, and repairs claims when one changes or another kind is listed', async () => {
  for (const name of ['a', 'b']) store(name, 'X');
  const events = createEvents();
  const kind = resourceOf(GROUP, 'servers', 'Server');
  let counts = (): ReadonlyMap<string, number> => new Map();
  let notify: (kind: unknown, change: unknown) => void = () => undefined;
  let listed: () => void = () => undefined;
  const read = ({ path }: { readonly path: string }) => Promise.resolve(stored.get(path.slice(-1)));
  const { context, signal } = createListedContext({
    discovery: { resolve: () => Promise.resolve(kind), forget: () => undefined },
    exact: { rest: { request: read } },
    metrics: {
      ...createMetrics(),
      scrape: ({ sharedValues }: { sharedValues: typeof counts }) => (counts = sharedValues),
    },
    record: events.record,
  });
  const parts = {
    registry: { inForce: () => policies, subscribe: () => undefined },
    governed: {
      ...governedWith({}),
      onChange: (listener: typeof notify) => (notify = listener),
      onListed: (listener: typeof listed) => (listed = listener),
    },
    windows: { onChange: () => undefined },
  };
  startUniqueClaims(context, parts as never, signal);
  await expect.poll(() => counts()).toEqual(new Map([['servers', 1]]));
  expect(events.all).toMatchObject([{ reason: 'ValueNotUnique', regarding: { name: 'b' } }]);
  stored.delete('b');
  notify(kind, { kind: 'deleted', object: { claims: [nameOf('X')], metadata: { uid: 'uid-of-b' } } });
  await expect.poll(() => counts()).toEqual(new Map());

  const admitted = { uid: 'uid-of-c', at: new Date().toISOString() };
  const claimed = newClaim('servers', keyOf('Y'), refOf('c'), admitted, Date.now());
  await context.client.create(UNIQUE_CLAIMS, claimed);
  notify(kind, { kind: 'deleted', object: { claims: [nameOf('Y')], metadata: { uid: 'uid-of-c' } } });
  const left = () => context.client.get(UNIQUE_CLAIMS, { name: nameOf('Y') });
  await expect.poll(left, { timeout: 5_000 }).toBeUndefined();

  store('d', 'Z'); // of a kind that could not be listed before
  listed();
  const made = () => context.client.get<UniqueClaim>(UNIQUE_CLAIMS, { name: nameOf('Z') });
  await expect.poll(made, { timeout: 5_000 }).toMatchObject({ spec: { holder: { name: 'd' } } });
});

describe('a full comparison', () => {
  test('finds the mistakes and nothing else', async () => {
    store('right', 'R');
    claim('R', 'right');
    store('unclaimed', 'U');
    claim('A', 'abandoned');
    store('one', 'S');
    store('other', 'S');
    claim('S', 'one');
    store('moved', 'M');
    claim('M', 'before');
    const names = ['U', 'A', 'S', 'M'].map(nameOf);
    expect(await compareAll()).toEqual(after(60 * 60_000));
    expect(enqueued.splice(0).toSorted()).toEqual(names.toSorted());
    expect(writes).toBe(0);
    policies = [compiled({ validate: { unique: [{ name: 'other', paths: ['spec.serial'] }] } })];
    await compareAll({ governed: governedWith({ objects: () => [] }) });
    expect(enqueued).toHaveLength(4); // all claims of the removed rule
  });

  test.each([
    ['what policies govern is known', { unlisted: () => undefined }],
    ['every kind is listed', { unsynced: () => ['racks.example.com'] }],
  ])('waits until %s', async (_what, change) => {
    store('a', 'X');
    expect(await compareAll({ governed: governedWith(change) })).toEqual(after(1_000));
    expect(enqueued).toEqual([]);
  });

  test('goes on without a kind that cannot be listed, whose claims stay', async () => {
    const match = { apiGroups: [GROUP], apiVersions: ['v1'], resources: ['servers', 'racks'] };
    const unique = [{ name: 'serial', paths: ['spec.serial'] }];
    policies = [compiled({ match, validate: { unique } }, { name: 'servers', generation: 1 })];
    store('unclaimed', 'U');
    claim('A', 'abandoned');
    claim('K', 'kept');
    claim('F', 'forged');
    claim('R', 'without-rule');
    hold('K', { group: GROUP, resource: 'racks' });
    hold('F', { group: GROUP, resource: 'disks' });
    hold('R', { group: GROUP, resource: 'racks' });
    edit(nameOf('R'), ({ spec }) => ({ spec: { ...spec, rule: 'removed' } }));
    const governed = governedWith({ unlisted: () => new Set([`racks.${GROUP}`, `disks.${GROUP}`]) });
    expect(await compareAll({ governed })).toEqual(after(60 * 60_000));
    expect(enqueued.toSorted()).toEqual(['U', 'A', 'F', 'R'].map(nameOf).toSorted());
  });
});

function hold(serial: string, kind: Pick<ObjectRef, 'group' | 'resource'>): void {
  edit(nameOf(serial), ({ spec }) => ({ spec: { ...spec, holder: { ...spec.holder, ...kind } } }));
}
