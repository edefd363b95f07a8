import { expect, test, vi } from 'vitest';

import type { UniqueClaim } from '../../api/unique-claim.ts';
import { createClaims, createNamespaceCheck, createIntents, createPace, finishIntent } from './claims.ts';
import { createClaimsInMemory, SETTLE_MS } from '../../../test/support/admission/claims.ts';
import { GROUP, policyOf } from '../../../test/support/admission/policy.ts';
import { resourceOf } from '../../../test/support/definitions.ts';
import { ApiError, NEVER } from '../../../test/support/runtime/fixtures.ts';
import { newIntent } from '../../admission/policy/references/check-references.ts';
import type { KubeObject, ObjectRef } from '../../json/kube-object.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Resource } from '../../kube/object.ts';
import { createStore } from '../../kube/store.ts';
import type { Governed } from '../policies/governed.ts';
import { createUnsettledClaims } from './unsettled-claims.ts';

const holder = { group: '', resource: 'servers', name: 'a' };
const claim: UniqueClaim = {
  metadata: { name: 'serial-1', uid: 'u', resourceVersion: '7' },
  spec: { policy: 'servers', rule: 'serial', values: [], holder, claimedAt: '2026-11-21T12:00:00Z' },
};
const failing = (code: number, reason?: string) => () => Promise.reject(new ApiError(code, 'no', reason));

const claimsOf = (change: Partial<Parameters<typeof createClaims>[0]>) => {
  const unasked = () => Promise.reject(new Error('unexpected call'));
  const none = { get: unasked, create: unasked, replace: unasked, delete: unasked };
  return createClaims({ ...none, ...change }, 70_000);
};

test('a taken name, an old version and a missing claim are results rather than errors', async () => {
  expect(await claimsOf({ create: failing(409, 'AlreadyExists') }).create(claim, NEVER)).toBe('taken');
  expect(await claimsOf({ replace: failing(409) }).replace(claim, NEVER)).toBe('changed');
  expect(await claimsOf({ replace: failing(404) }).replace(claim, NEVER)).toBe('changed');
  expect(await claimsOf({ delete: failing(409) }).remove(claim, NEVER)).toBe('changed');
  expect(await claimsOf({ delete: () => Promise.resolve('absent') }).remove(claim, NEVER)).toBe('changed');
  expect(await claimsOf({ get: () => Promise.resolve(undefined) }).read('serial-1', NEVER)).toBeUndefined();
});

test('any other failure is an error', async () => {
  const failed = claimsOf({ create: failing(404), replace: failing(500), delete: failing(500) });
  for (const attempt of [failed.create, failed.replace, failed.remove])
    await expect(attempt(claim, NEVER)).rejects.toThrow(ApiError);
});

test('a namespace is read once a minute; a missing namespace is read each time', async () => {
  const asked: string[] = [];
  const hasNamespace = createNamespaceCheck({
    getMetadata: (_resource, { name }) => {
      asked.push(name);
      return Promise.resolve(name === 'shop' ? { metadata: { name } } : undefined);
    },
  });
  const found: boolean[] = [];
  for (const name of ['shop', 'shop', 'gone', 'gone']) found.push(await hasNamespace(name, NEVER));
  expect(found).toEqual([true, true, false, false]);
  expect(asked).toEqual(['shop', 'gone', 'gone']);
});

test('writes wait for their turn, however long the process has run', async () => {
  const clock = vi.spyOn(performance, 'now').mockReturnValue(3_600_000);
  const pace = createPace(50);
  const began = Date.now();
  await Promise.all([pace(NEVER), pace(NEVER), pace(NEVER)]);
  clock.mockRestore();
  expect(Date.now() - began).toBeGreaterThanOrEqual(35); // timers round
}, 5_000);

const NOW = Date.parse('2026-11-27');
const POLICY = policyOf({ validate: {} });
const SERVERS = resourceOf(GROUP, 'servers', 'Server');
const server = (name: string, resourceVersion: string): KubeObject => ({
  metadata: { namespace: 'store', name, uid: `uid-${name}`, resourceVersion },
});
const refOf = (name: string): ObjectRef => ({ group: GROUP, resource: 'servers', namespace: 'store', name });

test('objects that the stores do not hold in the live version are unseen', async () => {
  const store = createStore<KubeObject>();
  const known = { same: '1', changed: '2', deleted: '3' };
  for (const [name, version] of Object.entries(known)) store.set(`store/${name}`, server(name, version));
  const asked: unknown[] = [];
  const pages = async function* (_kind: Resource, options: object) {
    asked.push({ ...options, signal: undefined });
    yield await Promise.resolve({ metadata: {}, items: [server('same', '1'), server('changed', '4')] });
    yield { metadata: {}, items: [server('new', '5')] };
  };
  const client = { pages: pages as KubeClient['pages'], listAll: failing(500) };
  const stores = () => [{ resource: SERVERS, store }];
  const intents = (governed: Pick<Governed, 'stores'>, namespaces?: readonly string[]) =>
    createIntents(client, governed, namespaces);
  expect(await intents({ stores }).unseen(POLICY, NEVER)).toEqual([refOf('changed'), refOf('new')]);
  await intents({ stores }, ['shop']).unseen(POLICY, NEVER);
  expect(asked).toEqual([undefined, 'shop'].map((namespace) => ({ namespace, metadataOnly: true })));
  const unlisted = intents({ stores: () => undefined }).unseen(POLICY, NEVER);
  await expect(unlisted).rejects.toThrow('not been listed yet');
});

/** Stores intents of the object `a`, whose write was admitted now. */
async function intentsOf(admitted: object, ...names: readonly string[]) {
  const claims = createClaimsInMemory();
  const spec = { policy: 'servers', rule: 'references/datacenter' };
  const request = { uid: 'uid-a', at: new Date(NOW).toISOString(), ...admitted };
  for (const name of names) await claims.create(newIntent(name, spec, refOf('a'), [], request, NOW), NEVER);
  return claims;
}
const leaving: KubeObject = { metadata: { uid: 'older', deletionTimestamp: '2026-11-27T00:00:00Z' } };

test.each<[string, KubeObject | undefined, boolean, string?]>([
  ['while its write may be stored', undefined, false],
  ['once the object is stored', server('a', '7'), true],
  ['while an object of this name is being deleted', leaving, false],
  ['once its target is being deleted', leaving, true, 'deletion.1'],
])('an intent is gone: %s', async (_when, live, isGone, name = 'reference.1') => {
  const claims = await intentsOf({}, name);
  const world = { confirm: () => Promise.resolve(live) };
  expect(await finishIntent(name, claims, world, NOW, NEVER)).toBe(isGone);
  expect(claims.stored.size).toBe(isGone ? 0 : 1);
});

test.each([
  ['a create that is known to be stored is not read', {}, true, 0],
  ['an update does', { resourceVersion: '7' }, false, 1],
])('the intent of %s', async (_what, admitted, isGone, expected) => {
  const claims = await intentsOf(admitted, 'reference.1');
  let reads = 0;
  // The update is not stored yet.
  const confirm = () => {
    reads += 1;
    return Promise.resolve({ metadata: { uid: 'uid-a', resourceVersion: '7' } });
  };
  expect(await finishIntent('reference.1', claims, { confirm }, NOW, NEVER, () => true)).toBe(isGone);
  expect(reads).toBe(expected);
});

test.each(['reference.1', 'deletion.1'])(
  'the intent %s is over after the settle time, even if its object cannot be read any more',
  async (name) => {
    const claims = await intentsOf({ resourceVersion: '7' }, name);
    const confirm = () => Promise.reject(new Error('the API server does not serve servers'));
    const finish = (later: number) => finishIntent(name, claims, { confirm }, NOW + later, NEVER);
    await expect(finish(SETTLE_MS - 1)).rejects.toThrow('does not serve');
    expect(await finish(SETTLE_MS)).toBe(true);
    expect(claims.stored.size).toBe(0);
  },
);

test('the ledger knows the intents of an object until they are cleaned up', () => {
  const ignore = () => undefined;
  const ledger = createUnsettledClaims(SETTLE_MS, () => 0, ignore);
  for (const claim of ['reference.1', 'reference.2', 'serial-1'])
    ledger.reserve([{ policy: { name: 'servers' }, claim, self: refOf('a') }], 'ada').written([claim]);
  expect(ledger.intentsOf(refOf('a'))).toEqual(['reference.1', 'reference.2']);
  expect(ledger.intentsOf(refOf('b'))).toEqual([]);
  const entry = ledger.get('reference.1');
  if (entry !== undefined) ledger.cleaned('reference.1', entry);
  expect(ledger.intentsOf(refOf('a'))).toEqual(['reference.2']);
});
