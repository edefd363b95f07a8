import { getEventListeners } from 'node:events';
import { afterEach, beforeEach, expect, test } from 'vitest';

import { compilePolicy, type CompiledPolicy } from '../../admission/policy/compile.ts';
import type { AdmissionPolicySpec } from '../../api/admission-policy.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import type { Rest } from '../../kube/rest.ts';
import { createGoverned, type Governed } from './governed.ts';

const GROUP = 'infra.example.com';
const target = { group: GROUP, resource: 'datacenters', namespace: undefined, name: 'fra1' };

/** The lists of the API server, by path. A list in `heldBack` is answered when its promise resolves. */
let lists: Map<string, readonly KubeObject[]>;
let heldBack: Map<string, PromiseWithResolvers<undefined>>;
let listed: string[];
let served: boolean | 'unknown';
let stop: AbortController;
let governed: Governed;

const SERVERS = `/apis/${GROUP}/v1/servers`;
const SERVERS_V2 = `/apis/${GROUP}/v2/servers`;

const rest: Rest = {
  request: async <T>({ path }: { readonly path: string }) => {
    listed.push(path);
    await heldBack.get(path)?.promise;
    // the type that the caller expects
    return { metadata: { resourceVersion: '1' }, items: lists.get(path) ?? [] } as T;
  },
  stream: async function* ({ signal }) {
    await new Promise((resolve) => {
      signal?.addEventListener('abort', resolve);
    });
    yield* [];
  },
  impersonate: () => rest,
};

beforeEach(() => {
  lists = new Map();
  heldBack = new Map();
  listed = [];
  served = true;
  stop = new AbortController();
  const log = { debug: ignore, info: ignore, warn: ignore, error: ignore };
  governed = createGoverned(
    { rest, rollbacks: { add: ignore }, namespaces: undefined, log },
    {
      resolve: ({ group, resource }) => {
        if (served === 'unknown') return Promise.reject(new Error('connection refused'));
        const kind = { group, resource, version: 'v1', kind: 'Server', namespaced: true };
        return Promise.resolve(served ? kind : undefined);
      },
    },
    'gatehouse-system',
    stop.signal,
  );
});
afterEach(() => {
  stop.abort(new Error('the test is over'));
});

function ignore(): void {
  // The tests do not read the log.
}

const restrict = {
  name: 'dc',
  path: 'spec.dc',
  target: { apiGroup: GROUP, resource: 'datacenters' },
  onTargetDelete: 'Restrict',
} as const;
const unique = { name: 'serial', paths: ['spec.serial'] };

function policy(spec: Partial<AdmissionPolicySpec> = {}, name = 'servers'): CompiledPolicy {
  const result = compilePolicy(
    {
      metadata: { name },
      spec: {
        match: { apiGroups: [GROUP], resources: ['servers'] },
        validate: { references: [restrict], unique: [unique] },
        ...spec,
      },
    },
    {
      ownNamespace: 'gatehouse-system',
      resolve: () => ({ kind: 'Datacenter', namespaced: false }),
    },
  );
  if (result.kind === 'rejected') throw new Error(JSON.stringify(result.problems));
  return result.policy;
}

const server = (name: string, dc: string, namespace = 'shop'): KubeObject =>
  ({
    metadata: { name, namespace, uid: name, resourceVersion: '1' },
    spec: { dc, serial: name },
  }) as KubeObject;

/** Follows the policies, and waits until all kinds have been listed. */
async function follow(...policies: CompiledPolicy[]): Promise<void> {
  governed.follow(policies);
  await until(() => governed.isComplete());
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
  lists.set(SERVERS, [server('a', 'fra1'), server('b', 'fra2'), server('own', 'fra1', 'gatehouse-system')]);
  heldBack.set(SERVERS, Promise.withResolvers());
  governed.follow([servers]);
  expect(governed.unsynced()).not.toEqual([]);
  await until(() => listed.length > 0);
  expect(governed.referrers(target, [servers])).toBeUndefined();
  expect(governed.holders('any', servers)).toBeUndefined();
  expect(governed.unsynced()).toEqual([`servers.${GROUP}`]);

  heldBack.get(SERVERS)?.resolve(undefined);
  await until(() => governed.isComplete());
  expect(namesOf(governed.referrers(target, [servers]))).toEqual(['a']);
  expect(namesOf(governed.holders(claimOf('b'), servers))).toEqual(['b']);
  expect(namesOf(governed.holdersOf(claimOf('b')))).toEqual(['b']);
  expect(governed.unsynced()).toEqual([]);
});

test('a new policy waits for its list, and earlier ones do not', async () => {
  const servers = policy();
  lists.set(SERVERS, [server('a', 'fra1')]);
  await follow(servers);
  heldBack.set(SERVERS, Promise.withResolvers());
  const others = policy({ validate: { unique: [unique] } }, 'others');
  governed.follow([servers, others]);
  expect(namesOf(governed.referrers(target, [servers]))).toEqual(['a']);
  await until(() => listed.length > 1);
  expect(namesOf(governed.referrers(target, [servers]))).toEqual(['a']);
  expect(governed.holders('any', others)).toBeUndefined();
  heldBack.get(SERVERS)?.resolve(undefined);
  await until(() => governed.isComplete());
  expect(governed.holders('any', others)).toEqual([]);
  expect(namesOf(governed.referrers(target, [servers]))).toEqual(['a']);
});

test('policies that arrive in succession share a list', async () => {
  const all = [policy(), policy({}, 'two'), policy({}, 'three')];
  for (let n = 1; n <= all.length; n++) governed.follow(all.slice(0, n));
  await until(() => governed.isComplete());
  expect(listed).toEqual([SERVERS]);
  governed.follow(all.map((one) => ({ ...one, generation: 2 })));
  expect(governed.isComplete()).toBe(true);
});

test('a kind that is no longer needed is dropped', async () => {
  const servers = policy();
  lists.set(SERVERS, [server('a', 'fra1')]);
  await follow(servers);
  await follow(policy({ validate: { immutable: ['spec.dc'] } }));
  await until(() => [...governed.objects()].length === 0);
  expect(governed.referrers(target, [servers])).toBeUndefined();
});

test('a policy for another version of the API sees objects in that version', async () => {
  lists.set(SERVERS, [server('a', 'fra1')]);
  lists.set(SERVERS_V2, [server('b', 'fra1')]);
  const v2 = policy({ match: { apiGroups: [GROUP], apiVersions: ['v2'], resources: ['servers'] } }, 'v2');
  await follow(policy(), v2);
  expect(namesOf(governed.referrers(target, [v2]))).toEqual(['b']);
  expect(namesOf(governed.referrers(target, [policy(), v2]))).toEqual(['a', 'b']);
});

test('a kind that the API server does not serve yet has no objects', async () => {
  served = false;
  const servers = policy();
  await follow(servers);
  expect(governed.referrers(target, [servers])).toEqual([]);
  expect(listed).toEqual([]);
});

test('while discovery fails, the answer is unknown', async () => {
  served = 'unknown';
  const servers = policy();
  governed.follow([servers]);
  await new Promise((resolve) => setTimeout(resolve, 100));
  expect(governed.referrers(target, [servers])).toBeUndefined();
  expect(governed.isComplete()).toBe(false);
});

test('nothing keeps a watch that is replaced before its first list', async () => {
  heldBack.set(SERVERS, Promise.withResolvers());
  const waiting = () => getEventListeners(stop.signal, 'abort').length;
  governed.follow([policy()]);
  await until(() => listed.length === 1);
  const before = waiting();
  for (let n = 2; n <= 6; n++) {
    governed.follow([policy({ validate: { unique: [{ ...unique, name: `u${n}` }] } })]);
    await until(() => listed.length === n);
  }
  expect(waiting()).toBe(before);
});
