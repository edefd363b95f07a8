import { beforeEach, describe, expect, test } from 'vitest';

import type { AdmissionPolicy, AdmissionPolicySpec } from '../../api/admission-policy.ts';
import { groupResourceName } from '../../json/kube-object.ts';
import {
  datacenterReference,
  GROUP,
  NEVER,
  OWN_NAMESPACE,
  silent,
} from '../../../test/support/runtime/fixtures.ts';
import { createPoliciesReconciler, type PoliciesDeps, type ResolvedResource } from './policies.ts';
import type { JsonObject } from '../../json/json.ts';
import { createPolicyRegistry, type PolicyRegistry } from './policy-registry.ts';

const now = new Date('2026-11-21T12:00:00Z');
const inMs = (ms: number) => ({ kind: 'requeue', at: new Date(now.getTime() + ms) });

let policies: Map<string, AdmissionPolicy>;
let served: Map<string, ResolvedResource>;
let forbidden: Set<string>;
let watched: string[];
let schemas: Map<string, readonly JsonObject[]>;
let registry: PolicyRegistry;
let changes: number;

beforeEach(() => {
  schemas = new Map();
  policies = new Map([['servers', policy(1)]]);
  served = new Map([serve('datacenters', 'Datacenter', false), serve('servers', 'Server', true)]);
  forbidden = new Set();
  watched = [];
  restart();
});

/** A replica that knows nothing but what the API server tells it. */
function restart() {
  registry = createPolicyRegistry(() => 0);
  changes = 0;
  registry.subscribe(() => changes++);
}

function serve(resource: string, kind: string, namespaced: boolean): [string, ResolvedResource] {
  return [`${resource}.${GROUP}`, { group: GROUP, resource, kind, namespaced }];
}

function policy(generation: number, spec: Partial<AdmissionPolicySpec> = {}): AdmissionPolicy {
  return {
    metadata: { name: 'servers', generation },
    spec: {
      match: { apiGroups: [GROUP], resources: ['servers'] },
      validate: { references: [datacenterReference] },
      ...spec,
    },
  };
}
const broken = (generation: number) => policy(generation, { defaults: [{ path: 'spec..tier', value: 1 }] });

const reconcile = async (change: Partial<PoliciesDeps> = {}) =>
  createPoliciesReconciler({
    policy: (name) => policies.get(name),
    resolve: (target) => Promise.resolve(served.get(groupResourceName(target))),
    schemas: (resource) => Promise.resolve(schemas.get(groupResourceName(resource))),
    canRead: (resource) => Promise.resolve(!forbidden.has(groupResourceName(resource))),
    watchTarget: (target) => {
      watched.push(groupResourceName(target));
      return Promise.resolve();
    },
    environment: { ownNamespace: OWN_NAMESPACE, matchConditions: true },
    registry,
    now: () => now,
    log: silent,
    ...change,
  })('servers', NEVER);

const state = () => registry.get('servers');
const generationInForce = () => state()?.inForce?.generation;

test('a usable policy is in force once its targets are watched, and only they', async () => {
  const listed = Promise.withResolvers<undefined>();
  const done = reconcile({
    watchTarget: async (target) => {
      watched.push(groupResourceName(target));
      await listed.promise;
    },
  });
  await new Promise(setImmediate);
  expect(watched).toEqual([`datacenters.${GROUP}`]);
  expect(state()).toBeUndefined();

  listed.resolve(undefined);
  expect(await done).toEqual(inMs(5 * 60_000));
  expect(state()).toMatchObject({ generation: 1, problem: undefined, inForce: { generation: 1 } });
});

test('running twice changes nothing the second time', async () => {
  await reconcile();
  await reconcile();
  expect(changes).toBe(1);

  policies.set('servers', broken(2));
  await reconcile();
  await reconcile();
  expect(changes).toBe(2);
});

test('a policy that is gone is enforced no more', async () => {
  await reconcile();
  policies.clear();
  expect(await reconcile()).toEqual({ kind: 'gone' });
  expect(registry.inForce()).toEqual([]);
  expect(state()).toBeUndefined();
});

test('a policy that was deleted and made anew is enforced as it is now, although its generation is the same', async () => {
  await reconcile();
  policies.set('servers', policy(1, { enforcement: 'Warn' }));
  await reconcile();
  expect(state()?.inForce?.enforcement).toBe('Warn');
});

test('a policy whose target has become namespaced looks there for it, although its generation is the same', async () => {
  await reconcile();
  served = new Map([serve('datacenters', 'Datacenter', true), serve('servers', 'Server', true)]);
  await reconcile();
  expect(state()?.inForce?.references).toMatchObject([{ namespaced: true }]);
});

describe('a version that cannot be enforced', () => {
  test('leaves the one before in force, and says what is wrong', async () => {
    await reconcile();
    policies.set('servers', broken(2));
    expect(await reconcile()).toEqual(inMs(5_000));
    expect(generationInForce()).toBe(1);
    expect(state()).toMatchObject({
      generation: 2,
      problem: { reason: 'InvalidPath', message: expect.stringContaining('spec.defaults[0].path') as string },
    });
  });

  test('leaves it in force after a restart too', async () => {
    policies.set('servers', { ...broken(2), status: { inForce: { generation: 1, spec: policy(1).spec } } });
    await reconcile();
    expect(generationInForce()).toBe(1);
    expect(state()).toMatchObject({ generation: 2, problem: { reason: 'InvalidPath' } });
    expect(watched).toEqual([`datacenters.${GROUP}`]);
  });

  test('has nothing in force when none ever was', async () => {
    policies.set('servers', broken(1));
    await reconcile();
    expect(registry.inForce()).toEqual([]);
    expect(state()?.problem).toBeDefined();
  });

  test('and one before that cannot be either have nothing in force', async () => {
    policies.set('servers', { ...broken(2), status: { inForce: { generation: 1, spec: broken(1).spec } } });
    await reconcile();
    expect(registry.inForce()).toEqual([]);
  });

  test('gives way to the next that can', async () => {
    await reconcile();
    policies.set('servers', broken(2));
    await reconcile();
    policies.set('servers', policy(3));
    await reconcile();
    expect(state()).toMatchObject({ generation: 3, problem: undefined, inForce: { generation: 3 } });
  });
});

describe('a policy whose kinds may not be read', () => {
  test('names the ClusterRole that is missing', async () => {
    forbidden = new Set([`datacenters.${GROUP}`, `servers.${GROUP}`]);
    expect(await reconcile()).toEqual(inMs(5_000));
    const { problem } = state() ?? {};
    expect(problem?.reason).toBe('Forbidden');
    expect(problem?.message).toContain('kind: ClusterRole');
    expect(problem?.message).toContain('gatehouse.dev/aggregate-to-references: "true"');
    expect(problem?.message).toContain(`apiGroups: ["${GROUP}"]`);
    expect(problem?.message).toContain('resources: [datacenters, servers]');
    expect(watched).toEqual([]);
  });

  test('names only what is missing', async () => {
    forbidden = new Set([`servers.${GROUP}`]);
    await reconcile();
    expect(state()?.problem?.message).toContain('resources: [servers]');
  });

  test('is in force as soon as the ClusterRole is there', async () => {
    forbidden = new Set([`datacenters.${GROUP}`]);
    await reconcile();
    forbidden.clear();
    expect(await reconcile()).toEqual(inMs(5 * 60_000));
    expect(generationInForce()).toBe(1);
  });

  test('stays in force when the permission is taken away, and says so', async () => {
    await reconcile();
    forbidden = new Set([`datacenters.${GROUP}`]);
    await reconcile();
    expect(state()).toMatchObject({ inForce: { generation: 1 }, problem: { reason: 'Forbidden' } });
  });

  test('stays in force after a restart too, without a watch that would be refused', async () => {
    const { spec } = policy(1);
    policies.set('servers', { ...policy(1), status: { inForce: { generation: 1, spec } } });
    forbidden = new Set([`datacenters.${GROUP}`]);
    await reconcile();
    expect(state()).toMatchObject({ inForce: { generation: 1 }, problem: { reason: 'Forbidden' } });
    expect(watched).toEqual([]);
  });

  test('needs no permission without references', async () => {
    forbidden = new Set([`servers.${GROUP}`]);
    policies.set('servers', policy(1, { validate: { immutable: ['spec.datacenter'] } }));
    await reconcile();
    expect(generationInForce()).toBe(1);
  });
});

test('a target that is not served yet is looked for again, and found', async () => {
  served.delete(`datacenters.${GROUP}`);
  expect(await reconcile()).toEqual(inMs(5_000));
  expect(state()?.problem?.reason).toBe('UnknownTarget');
  served.set(...serve('datacenters', 'Datacenter', false));
  expect(await reconcile()).toEqual(inMs(5 * 60_000));
  expect(generationInForce()).toBe(1);
});

test('objects without a namespace cannot name a target in their own', async () => {
  served = new Map([serve('datacenters', 'Datacenter', true), serve('servers', 'Server', false)]);
  await reconcile();
  expect(state()?.problem).toMatchObject({
    reason: 'InvalidPolicy',
    message: expect.stringContaining('namespacePath') as string,
  });
});

test('an expression that does not fit the schema of the kind is a mistake in the policy', async () => {
  const spec = { properties: { spec: { type: 'object', properties: { units: { type: 'integer' } } } } };
  schemas.set(`servers.${GROUP}`, [{ type: 'object', ...spec }]);
  policies.set('servers', policy(1, { validate: { rules: [{ expression: 'object.spec.unit < 5' }] } }));
  await reconcile();
  expect(state()?.problem).toMatchObject({
    reason: 'InvalidExpression',
    message: expect.stringContaining('unit') as string,
  });
  policies.set('servers', policy(2, { validate: { rules: [{ expression: 'object.spec.units < 5' }] } }));
  await reconcile();
  expect(state()).toMatchObject({ problem: undefined, inForce: { generation: 2 } });
});

test('a schema that changes under a policy does not end its enforcement', async () => {
  policies.set('servers', policy(1, { validate: { rules: [{ expression: 'object.spec.unit < 5' }] } }));
  await reconcile();
  schemas.set(`servers.${GROUP}`, [
    { type: 'object', properties: { spec: { type: 'object', properties: { units: { type: 'integer' } } } } },
  ]);
  await reconcile();
  expect(state()).toMatchObject({ problem: { reason: 'InvalidExpression' }, inForce: { generation: 1 } });
});

test.each<[string, Partial<PoliciesDeps>]>([
  ['discovery', { resolve: () => Promise.reject(new Error('the API server is away')) }],
  ['the access review', { canRead: () => Promise.reject(new Error('the API server is away')) }],
  ['the first list', { watchTarget: () => Promise.reject(new Error('the API server is away')) }],
])('a failure of %s judges nothing', async (_what, failing) => {
  await reconcile();
  policies.set('servers', policy(2));
  await expect(reconcile(failing)).rejects.toThrow('away');
  expect(state()).toMatchObject({ generation: 1, problem: undefined, inForce: { generation: 1 } });
});
