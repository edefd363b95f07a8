import { getEventListeners } from 'node:events';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import type { AdmissionPolicySpec } from '../../api/admission-policy.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import { compiled, DATACENTER, GROUP, silent } from '../../../test/support/runtime/fixtures.ts';
import { createListedRest } from '../../../test/support/runtime/listed-rest.ts';
import { createGoverned, type Governed } from './governed.ts';

const target = { group: GROUP, resource: 'datacenters', namespace: undefined, name: 'fra1' };

let api: ReturnType<typeof createListedRest>;
let served: boolean | 'unknown';
let failing: string | undefined;
let stop: AbortController;
let governed: Governed;

const SERVERS = `/apis/${GROUP}/v1/servers`;
const SERVERS_V2 = `/apis/${GROUP}/v2/servers`;

beforeEach(() => {
  api = createListedRest();
  served = true;
  failing = undefined;
  stop = new AbortController();
  governed = createGoverned(
    { rest: api.rest, rollbacks: { add: () => undefined }, namespaces: undefined, log: silent },
    {
      resolve: ({ group, resource }) => {
        if (served === 'unknown' || resource === failing)
          return Promise.reject(new Error('connection refused'));
        const kind = { group, resource, version: 'v1', kind: 'Server', namespaced: true };
        return Promise.resolve(served ? kind : undefined);
      },
    },
    'gatehouse-system',
    stop.signal,
  );
});
afterEach(() => stop.abort(new Error('the test is over')));

/** The API server does not answer this list until the test does. */
const heldBack = (path: string) => {
  const list = Promise.withResolvers<readonly KubeObject[]>();
  api.lists.set(path, list.promise);
  return list;
};

const restrict = { ...DATACENTER, path: 'spec.dc', onTargetDelete: 'Restrict' } as const;
const unique = { name: 'serial', paths: ['spec.serial'] };

const policy = (spec: Partial<AdmissionPolicySpec> = {}, name = 'servers'): CompiledPolicy =>
  compiled({ validate: { references: [restrict], unique: [unique] }, ...spec }, { name, generation: 1 });

const server = (name: string, dc: string, namespace = 'shop') => {
  const metadata = { name, namespace, uid: name, resourceVersion: '1' };
  return { metadata, spec: { dc, serial: name } } as KubeObject;
};

const isComplete = () => governed.unlisted()?.size === 0;

/** Follows the policies, and waits until all kinds have been listed. */
async function follow(...policies: CompiledPolicy[]): Promise<void> {
  governed.follow(policies);
  await until(isComplete);
}

async function until(holds: () => boolean): Promise<void> {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 5));
}

const namesOf = (refs: readonly { readonly name: string }[] | undefined) => refs?.map(({ name }) => name);
const claimOf = (name: string) => {
  for (const { ref, object } of governed.objects()) if (ref.name === name) return object.claims?.[0] ?? '';
  return '';
};

test('referring objects and holders of values are known once the kind is listed', async () => {
  const servers = policy();
  const list = heldBack(SERVERS);
  governed.follow([servers]);
  expect(governed.unsynced()).not.toEqual([]);
  await until(() => api.listed.length > 0);
  expect(governed.referrers(target, [servers])).toBeUndefined();
  expect(governed.holders('any', servers)).toBeUndefined();
  expect(governed.unsynced()).toEqual([`servers.${GROUP}`]);

  list.resolve([server('a', 'fra1'), server('b', 'fra2'), server('own', 'fra1', 'gatehouse-system')]);
  await until(isComplete);
  expect(namesOf(governed.referrers(target, [servers]))).toEqual(['a']);
  expect(namesOf(governed.holders(claimOf('b'), servers))).toEqual(['b']);
  expect(namesOf(governed.holdersOf(claimOf('b')))).toEqual(['b']);
  expect(governed.unsynced()).toEqual([]);
});

test('a new policy waits for its list, and earlier ones do not', async () => {
  const servers = policy();
  api.lists.set(SERVERS, [server('a', 'fra1')]);
  await follow(servers);
  let listings = 0;
  governed.onListed(() => (listings += 1));
  const list = heldBack(SERVERS);
  const others = policy({ validate: { unique: [unique] } }, 'others');
  governed.follow([servers, others]);
  expect(namesOf(governed.referrers(target, [servers]))).toEqual(['a']);
  await until(() => api.listed.length > 1);
  expect(namesOf(governed.referrers(target, [servers]))).toEqual(['a']);
  expect(governed.holders('any', others)).toBeUndefined();
  expect(listings).toBe(0);
  list.resolve([server('a', 'fra1')]);
  await until(isComplete);
  expect(listings).toBe(1);
  expect(governed.holders('any', others)).toEqual([]);
  expect(namesOf(governed.referrers(target, [servers]))).toEqual(['a']);
});

test('policies that arrive in succession share a list', async () => {
  const all = [policy(), policy({}, 'two'), policy({}, 'three')];
  for (let n = 1; n <= all.length; n++) governed.follow(all.slice(0, n));
  await until(isComplete);
  expect(api.listed).toEqual([SERVERS]);
  governed.follow(all.map((one) => ({ ...one, generation: 2 })));
  expect(isComplete()).toBe(true);
});

test('a policy for another version of the API sees objects in that version', async () => {
  api.lists.set(SERVERS, [server('a', 'fra1')]);
  api.lists.set(SERVERS_V2, [server('b', 'fra1')]);
  const v2 = policy({ match: { apiGroups: [GROUP], apiVersions: ['v2'], resources: ['servers'] } }, 'v2');
  await follow(policy(), v2);
  expect(namesOf(governed.referrers(target, [v2]))).toEqual(['b']);
  expect(namesOf(governed.referrers(target, [policy(), v2]))).toEqual(['a', 'b']);
  // A kind that is not needed any more is dropped.
  await follow(v2);
  await until(() => [...governed.objects()].length === 1);
  expect(governed.referrers(target, [policy()])).toBeUndefined();
});

test('an unserved kind counts as empty, and while discovery fails, the answer is unknown', async () => {
  served = false;
  await follow(policy());
  expect(governed.referrers(target, [policy()])).toEqual([]);
  expect(api.listed).toEqual([]);
  served = 'unknown';
  const others = policy({ validate: { unique: [unique] } }, 'others');
  governed.follow([others]);
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(governed.holders('any', others)).toBeUndefined();
  expect(governed.unlisted()).toEqual(new Set([`servers.${GROUP}`]));
});

test('a kind whose discovery fails, like one of an aggregated API that is down, delays no other kind', async () => {
  failing = 'racks';
  const match = { apiGroups: [GROUP], apiVersions: ['v1'], resources: ['servers', 'racks'] };
  const both = policy({ match }, 'both');
  api.lists.set(SERVERS, [server('a', 'fra1')]);
  governed.follow([policy(), both]);
  await until(() => governed.unsynced().length === 0);
  expect(namesOf(governed.referrers(target, [policy()]))).toEqual(['a']);
  expect(governed.referrers(target, [both])).toBeUndefined();
  expect(governed.holders('any', both)).toBeUndefined();
  expect(governed.unlisted()).toEqual(new Set([`racks.${GROUP}`]));
});

test('a kind whose discovery fails only for seconds is watched, although that of another kind still fails', async () => {
  const match = (resource: string) => ({
    match: { apiGroups: [GROUP], apiVersions: ['v1'], resources: [resource] },
  });
  const racks = policy(match('racks'), 'racks');
  served = 'unknown';
  governed.follow([policy(match('servers')), racks]);
  await until(() => governed.unlisted()?.size === 2);
  api.lists.set(SERVERS, [server('a', 'fra1')]);
  [served, failing] = [true, 'racks'];
  await expect.poll(() => [...governed.objects()].length, { timeout: 10_000 }).toBe(1);
  expect(governed.unlisted()).toEqual(new Set([`racks.${GROUP}`]));
  expect(governed.holders('any', racks)).toBeUndefined();
});

test('nothing keeps a watch that is replaced before its first list', async () => {
  heldBack(SERVERS);
  const waiting = () => getEventListeners(stop.signal, 'abort').length;
  governed.follow([policy()]);
  await until(() => api.listed.length === 1);
  const before = waiting();
  for (let n = 2; n <= 6; n++) {
    governed.follow([policy({ validate: { unique: [{ ...unique, name: `u${n}` }] } })]);
    await until(() => api.listed.length === n);
  }
  expect(waiting()).toBe(before);
});

test('the list of a kind that no policy needs any more is cancelled', async () => {
  heldBack(SERVERS);
  const request = vi.spyOn(api.rest, 'request');
  governed.follow([policy()]);
  await until(() => api.listed.length === 1);
  const [list] = request.mock.calls[0] ?? [];
  await follow();
  expect(list?.signal?.aborted).toBe(true);
});
