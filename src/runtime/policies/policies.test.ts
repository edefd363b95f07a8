import { beforeEach, describe, expect, test } from 'vitest';

import type { AdmissionPolicy, AdmissionPolicySpec } from '../../api/admission-policy.ts';
import { groupResourceName } from '../../json/kube-object.ts';
import {
  compiled,
  datacenterReference,
  GROUP,
  NEVER,
  OWN_NAMESPACE,
  silent,
} from '../../../test/support/runtime/fixtures.ts';
import type { Resource } from '../../kube/object.ts';
import { rulesOf } from '../../admission/webhooks/installed-rules.ts';
import { NO_DRY_RUN } from '../webhooks/dry-run.ts';
import { createPoliciesReconciler, type PoliciesOptions } from './policies.ts';
import { READS_REVIEWED, type ReadsVerdict } from './read-records.ts';
import type { JsonObject } from '../../json/json.ts';
import { createPolicyRegistry, type PolicyRegistry } from './policy-registry.ts';

const now = new Date('2026-11-21T12:00:00Z');
const inMs = (ms: number) => ({ kind: 'requeue', at: new Date(now.getTime() + ms) });

let policies: Map<string, AdmissionPolicy>;
let served: Map<string, Resource>;
let forbidden: Set<string>;
let watched: string[];
let schemas: Map<string, readonly JsonObject[]>;
let registry: PolicyRegistry;
let changes: number;
let dryRuns: number[];
let objection: string | undefined;
let verdict: (spec: AdmissionPolicySpec, record: string | undefined) => ReadsVerdict;

beforeEach(() => {
  schemas = new Map();
  policies = new Map([['servers', policy(1)]]);
  served = new Map([serve('datacenters', 'Datacenter', false), serve('servers', 'Server', true)]);
  forbidden = new Set();
  watched = [];
  dryRuns = [];
  objection = undefined;
  verdict = () => 'reviewed';
  restart();
});

/** A replica with an empty registry. */
function restart() {
  registry = createPolicyRegistry(() => 0);
  changes = 0;
  registry.subscribe(() => changes++);
}

function serve(resource: string, kind: string, namespaced: boolean): [string, Resource] {
  return [`${resource}.${GROUP}`, { group: GROUP, version: 'v1', resource, kind, namespaced }];
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

const discovering = (resolve: PoliciesOptions['discovery']['resolve']): PoliciesOptions['discovery'] => ({
  resolve,
  servedIn: (group) => Promise.resolve([...served.values()].filter((one) => one.group === group)),
  groups: () => Promise.resolve([GROUP]),
  serverVersion: () => Promise.resolve({ major: 1, minor: 37, gitVersion: 'v1.37.2' }),
});

const reconcile = async (change: Partial<PoliciesOptions> = {}, signal = NEVER) =>
  createPoliciesReconciler({
    policies,
    discovery: discovering((target) => Promise.resolve(served.get(groupResourceName(target)))),
    schemas: (resource) => Promise.resolve(schemas.get(groupResourceName(resource))),
    canRead: (resource) => Promise.resolve(!forbidden.has(groupResourceName(resource))),
    targets: {
      ensure: (target) => {
        watched.push(groupResourceName(target));
        return Promise.resolve();
      },
    },
    environment: { ownNamespace: OWN_NAMESPACE },
    dryRun: (tried) => {
      dryRuns.push(tried.generation);
      return Promise.resolve(objection);
    },
    registry,
    records: { verdict: (_name, spec, record) => verdict(spec, record), whenSynced: () => Promise.resolve() },
    now: () => now,
    log: silent,
    ...change,
  })('servers', signal);

const away = () => Promise.reject(new Error('the API server is away'));
const state = () => registry.get('servers');
const generationInForce = () => state()?.inForce?.generation;

test('a valid policy is in force once its targets are watched, and only its targets are', async () => {
  const listed = Promise.withResolvers<undefined>();
  const done = reconcile({
    targets: {
      ensure: async (target) => {
        watched.push(groupResourceName(target));
        await listed.promise;
      },
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

test('a deleted policy is not enforced', async () => {
  await reconcile();
  policies.clear();
  expect(await reconcile()).toEqual({ kind: 'gone' });
  expect(registry.inForce()).toEqual([]);
  expect(state()).toBeUndefined();
});

test('a recreated policy is enforced in its new version, although its generation is the same', async () => {
  await reconcile();
  policies.set('servers', policy(1, { enforcement: 'Warn' }));
  await reconcile();
  expect(state()?.inForce?.enforcement).toBe('Warn');
});

test('when a target becomes namespaced, the policy uses the new scope, although its generation is the same', async () => {
  await reconcile();
  served = new Map([serve('datacenters', 'Datacenter', true), serve('servers', 'Server', true)]);
  await reconcile();
  expect(state()?.inForce?.references).toMatchObject([{ namespaced: true }]);
});

describe('a version that cannot be enforced', () => {
  test('leaves the previous one in force, and reports the problem', async () => {
    await reconcile();
    policies.set('servers', broken(2));
    expect(await reconcile()).toEqual(inMs(5_000));
    expect(generationInForce()).toBe(1);
    expect(state()).toMatchObject({
      generation: 2,
      problem: { reason: 'InvalidPath', message: expect.stringContaining('spec.defaults[0].path') as string },
    });
  });

  test('leaves the previous one in force after a restart too', async () => {
    policies.set('servers', { ...broken(2), status: { inForce: { generation: 1, spec: policy(1).spec } } });
    await reconcile();
    expect(generationInForce()).toBe(1);
    expect(state()).toMatchObject({ generation: 2, problem: { reason: 'InvalidPath' } });
    expect(watched).toEqual([`datacenters.${GROUP}`]);
  });

  test('enforces nothing if no version was ever in force', async () => {
    policies.set('servers', broken(1));
    await reconcile();
    expect(registry.inForce()).toEqual([]);
    expect(state()?.problem).toBeDefined();
  });

  test('keeps the webhooks of the previous version when that is invalid too, and refuses their requests', async () => {
    const { spec } = policy(1, {
      defaults: [{ path: 'spec..tier', value: 1 }],
      validate: { references: [{ ...datacenterReference, onTargetDelete: 'Restrict' }] },
    });
    policies.set('servers', { ...broken(2), status: { inForce: { generation: 1, spec } } });
    await reconcile();
    expect(registry.inForce()).toMatchObject([
      {
        generation: 1,
        undecidable: {
          isTemporary: false,
          message: expect.stringContaining('spec.defaults[0].path') as string,
        },
      },
    ]);
    expect(state()?.problem?.message).toContain('requests in its scope are refused');
    const [rule = ''] = rulesOf(registry.inForce());
    expect(rule).toContain('mutate');
    expect(rulesOf(registry.inForce()).size).toBe(3);
    policies.set('servers', policy(3));
    await reconcile();
    expect(state()?.inForce).toMatchObject({ generation: 3 });
    expect(state()?.inForce?.undecidable).toBeUndefined();
  });

  test('is not in force after a restart if it could lock out the cluster', async () => {
    const spec = { ...policy(1).spec, match: { apiGroups: ['*'], resources: ['*'] } };
    policies.set('servers', { ...broken(2), status: { inForce: { generation: 1, spec } } });
    await reconcile();
    expect(registry.inForce()).toEqual([]);
  });

  test('is replaced by the next valid version', async () => {
    await reconcile();
    policies.set('servers', broken(2));
    await reconcile();
    policies.set('servers', policy(3));
    await reconcile();
    expect(state()).toMatchObject({ generation: 3, problem: undefined, inForce: { generation: 3 } });
  });
});

test('after a restart, the version in force before this one decides until the API server follows the new scope', async () => {
  const moved = policy(2, { timeoutSeconds: 10 });
  policies.set('servers', { ...moved, status: { inForce: { generation: 1, spec: policy(1).spec } } });
  await reconcile();
  expect(state()).toMatchObject({ inForce: { generation: 2 }, problem: undefined });
  const resource = { group: GROUP, version: 'v1', resource: 'servers' };
  const request = { resource, subResource: '', operation: 'CREATE' as const };
  expect(registry.policySet().select(compiled().entryId, request)).toMatchObject({
    kind: 'governed',
    policies: [{ generation: 1 }],
  });
});

describe('webhooks that the API server refuses', () => {
  test('leave the previous version in force, and its message is in the problem', async () => {
    await reconcile();
    policies.set('servers', policy(2, { timeoutSeconds: 10 }));
    objection = 'webhooks[0].matchConditions[0]: Invalid value';
    expect(await reconcile()).toEqual(inMs(5_000));
    expect(state()).toMatchObject({
      inForce: { generation: 1 },
      problem: { reason: 'WebhooksRefused', message: expect.stringContaining(objection) as string },
    });
    objection = undefined;
    await reconcile();
    expect(state()).toMatchObject({ inForce: { generation: 2 }, problem: undefined });
    expect(dryRuns).toEqual([1, 2, 2]);
  });

  test.each([
    ['', false],
    [' and has restarted', true],
  ])(
    'leave the previous version deciding in a process that makes no dry runs%s',
    async (_what, isRestarted) => {
      const inForce = { generation: 1, spec: policy(1).spec };
      if (!isRestarted) await reconcile({ dryRun: NO_DRY_RUN });
      policies.set('servers', { ...policy(2, { timeoutSeconds: 10 }), status: { inForce } });
      await reconcile({ dryRun: NO_DRY_RUN });
      // The leader leaves the entry of the previous version in the configurations.
      registry.observe(rulesOf([compiled()]));
      const resource = { group: GROUP, version: 'v1', resource: 'servers' };
      const decides = () =>
        registry
          .policySet()
          .select(compiled().entryId, { resource, subResource: '', operation: 'CREATE' as const });
      const previous = { kind: 'governed', policies: [{ generation: 1 }] };
      expect(decides()).toMatchObject(previous);
      await reconcile({ dryRun: NO_DRY_RUN });
      registry.observe(rulesOf([compiled()]));
      expect(decides()).toMatchObject(previous);
    },
  );

  test('are tried again only when they change', async () => {
    await reconcile();
    policies.set('servers', policy(2, { enforcement: 'Warn' }));
    await reconcile();
    expect(dryRuns).toEqual([1]);
  });

  test('are not tried after a restart if they were installed', async () => {
    const { spec } = policy(1);
    policies.set('servers', { ...policy(1), status: { inForce: { generation: 1, spec } } });
    await reconcile();
    expect(generationInForce()).toBe(1);
    expect(dryRuns).toEqual([]);
  });
});

describe('a policy whose kinds may not be read', () => {
  test('reports the missing ClusterRole', async () => {
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

  test('reports only the missing kinds', async () => {
    forbidden = new Set([`servers.${GROUP}`]);
    await reconcile();
    expect(state()?.problem?.message).toContain('resources: [servers]');
  });

  test('is in force as soon as the ClusterRole exists', async () => {
    forbidden = new Set([`datacenters.${GROUP}`]);
    await reconcile();
    forbidden.clear();
    expect(await reconcile()).toEqual(inMs(5 * 60_000));
    expect(generationInForce()).toBe(1);
  });

  test('stays in force when the permission is revoked, and reports it', async () => {
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

test('a target that is not served yet is retried, and found', async () => {
  served.delete(`datacenters.${GROUP}`);
  expect(await reconcile()).toEqual(inMs(5_000));
  expect(state()?.problem?.reason).toBe('UnknownTarget');
  served.set(...serve('datacenters', 'Datacenter', false));
  expect(await reconcile()).toEqual(inMs(5 * 60_000));
  expect(generationInForce()).toBe(1);
});

describe('after a restart', () => {
  const installed = () => ({ ...policy(1), status: { inForce: { generation: 1, spec: policy(1).spec } } });

  test('a policy whose target is not served keeps its webhooks, and asks for a retry until the target is served', async () => {
    policies.set('servers', installed());
    served.delete(`datacenters.${GROUP}`);
    expect(await reconcile()).toEqual(inMs(5_000));
    expect(rulesOf(registry.inForce())).toEqual(rulesOf([compiled()]));
    expect(state()?.inForce?.undecidable).toMatchObject({
      isTemporary: true,
      message: expect.stringContaining('datacenters') as string,
    });
    await reconcile();
    expect(changes).toBe(1);
    served.set(...serve('datacenters', 'Datacenter', false));
    await reconcile();
    expect(state()).toMatchObject({ problem: undefined, inForce: { generation: 1 } });
    expect(state()?.inForce?.undecidable).toBeUndefined();
  });

  test('a policy whose kinds cannot be read keeps its webhooks, and does not hold up the others', async () => {
    policies.set('servers', installed());
    await expect(reconcile({ discovery: discovering(away) })).rejects.toThrow('away');
    expect(state()?.problem?.reason).toBe('DiscoveryFailed');
    expect(rulesOf(registry.inForce())).toEqual(rulesOf([compiled()]));
    expect(state()?.inForce?.undecidable?.isTemporary).toBe(true);
    await reconcile();
    expect(state()).toMatchObject({ problem: undefined, inForce: { generation: 1 } });
  });

  test.each([
    ['is invalid', () => policy(2, { ...broken(2).spec, validate: {} })],
    ['needs no other kind', () => policy(2, { validate: { immutable: ['spec.rack'] } })],
  ])('the same applies to the version in force if its successor %s', async (_what, successor) => {
    policies.set('servers', { ...successor(), status: installed().status });
    const awayFor = (resource: string) =>
      discovering((target) =>
        target.resource === resource ? away() : Promise.resolve(served.get(groupResourceName(target))),
      );
    await expect(reconcile({ discovery: awayFor('datacenters') })).rejects.toThrow('away');
    expect(rulesOf(registry.inForce())).toEqual(rulesOf([compiled()]));
    expect(state()?.inForce?.undecidable?.isTemporary).toBe(true);
  });

  test('a reconcile that takes too long leaves the policy uncompiled, so that its webhooks stay', async () => {
    policies.set('servers', installed());
    const aborted = AbortSignal.abort(new Error('too long'));
    await expect(reconcile({ discovery: discovering(away) }, aborted)).rejects.toThrow('too long');
    expect(state()).toBeUndefined();
  });

  test('a policy that was never installed is not in force while its kinds cannot be read', async () => {
    await expect(reconcile({ discovery: discovering(away) })).rejects.toThrow('away');
    expect(registry.inForce()).toEqual([]);
    expect(state()?.problem?.reason).toBe('DiscoveryFailed');
  });
});

test('a cluster-scoped object cannot refer to a target in its own namespace', async () => {
  served = new Map([serve('datacenters', 'Datacenter', true), serve('servers', 'Server', false)]);
  await reconcile();
  expect(state()?.problem).toMatchObject({
    reason: 'InvalidPolicy',
    message: expect.stringContaining('namespacePath') as string,
  });
});

test('an expression that does not match the schema of the kind makes the policy invalid', async () => {
  const spec = { properties: { spec: { type: 'object', properties: { units: { type: 'integer' } } } } };
  schemas.set(`servers.${GROUP}`, [{ type: 'object', ...spec }]);
  policies.set('servers', policy(1, { validate: { rules: [{ expression: 'object.spec.unit < 5' }] } }));
  await reconcile();
  expect(state()?.problem).toMatchObject({
    reason: 'UnknownField',
    message: expect.stringContaining('spec has no field unit: did you mean units?') as string,
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
  expect(state()).toMatchObject({ problem: { reason: 'UnknownField' }, inForce: { generation: 1 } });
});

test('a path that does not exist makes the policy invalid, until the schema has the field', async () => {
  policies.set('servers', policy(1, { validate: { immutable: ['spec.tennant'] } }));
  const withField = (name: string) => {
    const spec = { type: 'object', properties: { [name]: { type: 'string' } } };
    schemas.set(`servers.${GROUP}`, [{ type: 'object', properties: { spec } }]);
  };
  withField('tenant');
  await reconcile();
  expect(state()).toMatchObject({
    inForce: undefined,
    problem: {
      reason: 'UnknownField',
      message: 'spec.validate.immutable[0]: spec has no field tennant: did you mean tenant?',
    },
  });
  withField('tennant');
  await reconcile();
  expect(state()).toMatchObject({ problem: undefined, inForce: { generation: 1 } });
});

test('a field that a new schema lacks does not end the enforcement, also after a restart', async () => {
  const immutable = policy(1, { validate: { immutable: ['spec.tenant'] } });
  schemas.set(`servers.${GROUP}`, [{ type: 'object', properties: { spec: { type: 'object' } } }]);
  const { generation = 0 } = immutable.metadata;
  policies.set('servers', { ...immutable, status: { inForce: { generation, spec: immutable.spec } } });
  restart();
  await reconcile();
  expect(state()).toMatchObject({ problem: { reason: 'UnknownField' }, inForce: { generation: 1 } });
  expect(state()?.inForce?.undecidable).toBeUndefined();
  expect(state()?.inForce?.immutable).toHaveLength(1);
});

describe('a policy for a kind that is not served', () => {
  const racks = (spec: Partial<AdmissionPolicySpec['match']> = {}) =>
    policy(1, {
      match: { apiGroups: [GROUP], resources: ['rack'], ...spec },
      validate: { immutable: ['spec.a'] },
    });

  test('is in force, so that no object escapes it once the kind is served, and says so', async () => {
    served = new Map([serve('racks', 'Rack', true)]);
    policies.set('servers', racks());
    await reconcile();
    expect(state()).toMatchObject({
      inForce: { generation: 1 },
      problem: {
        reason: 'UnknownKind',
        message: expect.stringContaining(`serves no rack.${GROUP}: did you mean racks.${GROUP}?`) as string,
      },
    });
    served = new Map([serve('rack', 'Rack', true)]);
    await reconcile();
    expect(state()?.problem).toBeUndefined();
  });

  test('is in force if another kind is served, and its state names the missing one', async () => {
    policies.set('servers', racks({ resources: ['servers', 'rack'] }));
    await reconcile();
    expect(state()).toMatchObject({
      problem: undefined,
      unserved: expect.stringContaining(`serves no rack.${GROUP}`) as string,
    });
  });

  test('recommends no permission to read that kind', async () => {
    served = new Map();
    forbidden.add(`rack.${GROUP}`);
    policies.set('servers', racks());
    policies.set('servers', {
      ...racks(),
      spec: { ...racks().spec, validate: { unique: [{ name: 'a', paths: ['spec.a'] }] } },
    });
    await reconcile();
    expect(state()?.problem?.reason).toBe('UnknownKind');
    expect(state()?.problem?.message).not.toContain('ClusterRole');
  });

  test('is enforced without a word if discovery fails', async () => {
    policies.set('servers', racks());
    await reconcile({ discovery: { ...discovering(away), servedIn: away } });
    expect(state()).toMatchObject({ problem: undefined, inForce: { generation: 1 } });
  });
});

test.each<[string, Partial<PoliciesOptions>]>([
  ['discovery', { discovery: discovering(away) }],
  ['the access review', { canRead: away }],
  ['the first list', { targets: { ensure: away } }],
])('a failure of %s changes nothing', async (_what, failing) => {
  await reconcile();
  policies.set('servers', policy(2));
  await expect(reconcile(failing)).rejects.toThrow('away');
  expect(state()).toMatchObject({ generation: 1, problem: undefined, inForce: { generation: 1 } });
});

describe('a version whose reads were not reviewed', () => {
  test('is not in force and watches nothing; the previous one stays in force', async () => {
    await reconcile();
    watched = [];
    policies.set('servers', policy(2, { audit: false }));
    verdict = ({ audit }) => (audit === false ? 'unreviewed' : 'reviewed');
    await reconcile();
    expect(generationInForce()).toBe(1);
    expect(watched).toEqual([]);
    expect(state()?.problem).toMatchObject({
      reason: 'ReadsNotReviewed',
      message: expect.stringContaining(`get datacenters.${GROUP} in all namespaces`) as string,
    });
  });

  test('is in force once the policy carries the record', async () => {
    verdict = (_spec, record) => (record === 'valid' ? 'reviewed' : 'unreviewed');
    await reconcile();
    expect(state()?.inForce).toBeUndefined();
    const { metadata, spec } = policy(1);
    policies.set('servers', { metadata: { ...metadata, annotations: { [READS_REVIEWED]: 'valid' } }, spec });
    await reconcile();
    expect(generationInForce()).toBe(1);
  });

  test('does not come into force after a restart because status.inForce holds it', async () => {
    const inForce = (record: string) => ({ generation: 1, spec: policy(1).spec, record });
    verdict = (_spec, record) => (record === 'valid' ? 'reviewed' : 'unreviewed');
    policies.set('servers', { ...broken(2), status: { inForce: inForce('forged') } });
    await reconcile();
    expect(state()?.inForce?.undecidable).toBeDefined();
    policies.set('servers', { ...broken(2), status: { inForce: inForce('valid') } });
    restart();
    verdict = ({ defaults }, record) =>
      defaults !== undefined || record === 'valid' ? 'reviewed' : 'unreviewed';
    await reconcile();
    expect(generationInForce()).toBe(1);
  });

  test.each([
    ['the newest', policy(1)],
    [
      'followed by one with another scope',
      policy(2, { validate: { immutable: ['spec.rack'] }, timeoutSeconds: 10 }),
    ],
  ])(
    'keeps its webhooks after a restart if it is %s: it reads nothing, and its requests are refused',
    async (_what, newest) => {
      const { spec } = policy(1);
      verdict = ({ validate }) => (validate?.references === undefined ? 'reviewed' : 'unreviewed');
      policies.set('servers', { ...newest, status: { inForce: { generation: 1, spec, record: 'lost' } } });
      await reconcile();
      const resource = { group: GROUP, version: 'v1', resource: 'servers' };
      const request = { resource, subResource: '', operation: 'CREATE' as const };
      expect(registry.policySet().select(compiled().entryId, request)).toMatchObject({
        policies: [{ targets: [], undecidable: { isTemporary: false } }],
      });
      expect(watched).toEqual([]);
    },
  );

  test('keeps its webhooks after a restart, and decides once its reads are reviewed', async () => {
    const status = { inForce: { generation: 1, spec: policy(1).spec, record: 'lost' } };
    verdict = (_spec, record) => (record === 'valid' ? 'reviewed' : 'unreviewed');
    policies.set('servers', { ...policy(1), status });
    await reconcile();
    expect(rulesOf(registry.inForce())).toEqual(rulesOf([compiled()]));
    expect(state()?.problem).toMatchObject({
      reason: 'ReadsNotReviewed',
      message: expect.stringContaining('requests in its scope are refused') as string,
    });
    const metadata = { ...policy(1).metadata, annotations: { [READS_REVIEWED]: 'valid' } };
    policies.set('servers', { ...policy(1), metadata, status });
    await reconcile();
    expect(state()).toMatchObject({ problem: undefined, inForce: { generation: 1 } });
    expect(state()?.inForce?.undecidable).toBeUndefined();
  });

  test('is never in force if params name a Secret of Gatehouse, whatever the record', async () => {
    policies.set(
      'servers',
      policy(1, { params: { apiGroup: '', resource: 'secrets', name: 'a', namespace: OWN_NAMESPACE } }),
    );
    await reconcile();
    expect(state()).toMatchObject({ inForce: undefined, problem: { reason: 'Forbidden' } });
  });
});
