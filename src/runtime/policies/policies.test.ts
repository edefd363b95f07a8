import { beforeEach, describe, expect, test } from 'vitest';

import type { AdmissionPolicy, AdmissionPolicySpec } from '../../api/admission-policy.ts';
import { groupResourceName } from '../../json/kube-object.ts';
import {
  compiled,
  containing,
  NEVER,
  OWN_NAMESPACE,
  silent,
} from '../../../test/support/runtime/fixtures.ts';
import { DATACENTER, GROUP } from '../../../test/support/admission/policy.ts';
import type { Resource } from '../../kube/object.ts';
import { rulesOf } from '../../admission/webhooks/webhook-configurations.ts';
import { NO_DRY_RUN } from '../webhooks/dry-run.ts';
import { createPoliciesReconciler, type PoliciesOptions } from './policies.ts';
import type { ReadsVerdict } from './read-records.ts';
import { createPolicyRegistry, type PolicyRegistry } from './policy-registry.ts';

const now = new Date('2026-11-21T12:00:00Z');
const inMs = (ms: number) => ({ kind: 'requeue', at: new Date(now.getTime() + ms) });

let policies: Map<string, AdmissionPolicy>;
let served: Map<string, Resource>;
let forbidden: Set<string>;
let watched: string[];
let registry: PolicyRegistry;
let changes: number;
let dryRuns: number[];
let objection: string | undefined;
let verdict: (spec: AdmissionPolicySpec, record: string | undefined) => ReadsVerdict;

beforeEach(() => {
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
  const match = { apiGroups: [GROUP], resources: ['servers'] };
  const validate = { references: [DATACENTER] };
  return { metadata: { name: 'servers', generation }, spec: { match, validate, ...spec } };
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
    schemas: () => Promise.resolve([]),
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
const rules = () => rulesOf(registry.inForce());
/** Rules of the version that most tests install: its webhooks. */
const INSTALLED = rulesOf([compiled()]);
const put = (next: AdmissionPolicy, status: AdmissionPolicy['status'] = {}) =>
  policies.set('servers', { ...next, status });
/** The status after version 1 was in force. */
const inForce = (spec = policy(1).spec, record?: string) => ({
  inForce: { generation: 1, spec, ...(record === undefined ? {} : { record }) },
});
/** What decides a CREATE of a Server at the webhook of version 1. */
const decides = () => {
  const resource = { group: GROUP, version: 'v1', resource: 'servers' };
  return registry
    .policySet()
    .select(compiled().entryId, { resource, subResource: '', operation: 'CREATE' as const });
};
const [SOON, LATER] = [inMs(5_000), inMs(5 * 60_000)];
const HEALTHY = { generation: 1, problem: undefined, inForce: { generation: 1 } };
const isDecidable = () => state()?.inForce?.undecidable === undefined;

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
  expect(await done).toEqual(LATER);
  expect(state()).toMatchObject(HEALTHY);
});

test('a policy is compiled again after a change of its targets or its spec, although its generation is the same', async () => {
  await reconcile();
  served.set(...serve('datacenters', 'Datacenter', true));
  put(policy(1, { enforcement: 'Warn' }));
  await reconcile();
  expect(state()?.inForce).toMatchObject({ enforcement: 'Warn', references: [{ namespaced: true }] });
});

describe('a version that cannot be enforced', () => {
  test('keeps the webhooks of the previous version when that is invalid too, and refuses their requests', async () => {
    const { spec } = policy(1, {
      defaults: [{ path: 'spec..tier', value: 1 }],
      validate: { references: [{ ...DATACENTER, onTargetDelete: 'Restrict' }] },
    });
    put(broken(2), inForce(spec));
    await reconcile();
    const undecidable = { isTemporary: false, message: containing('spec.defaults[0].path') };
    expect(registry.inForce()).toMatchObject([{ generation: 1, undecidable }]);
    expect(state()?.problem?.message).toContain('requests in its scope are refused');
    const [rule = ''] = rules();
    expect(rule).toContain('mutate');
    expect(rules().size).toBe(3);
    put(policy(3));
    await reconcile();
    expect(state()?.inForce).toMatchObject({ generation: 3 });
    expect(isDecidable()).toBe(true);
  });

  test('is not in force after a restart if it could lock out the cluster', async () => {
    put(broken(2), inForce({ ...policy(1).spec, match: { apiGroups: ['*'], resources: ['*'] } }));
    await reconcile();
    expect(registry.inForce()).toEqual([]);
  });
});

const moved = policy(2, { timeoutSeconds: 10 });
const previous = { kind: 'governed', policies: [{ generation: 1 }] };

describe('webhooks that the API server refuses', () => {
  test('leave the previous version in force, and its message is in the problem', async () => {
    await reconcile();
    put(moved);
    objection = 'webhooks[0].matchConditions[0]: Invalid value';
    expect(await reconcile()).toEqual(SOON);
    const problem = { reason: 'WebhooksRefused', message: containing(objection) };
    expect(state()).toMatchObject({ inForce: { generation: 1 }, problem });
    objection = undefined;
    await reconcile();
    expect(state()).toMatchObject({ inForce: { generation: 2 }, problem: undefined });
    expect(dryRuns).toEqual([1, 2, 2]);
    put(policy(3, { timeoutSeconds: 10, enforcement: 'Warn' }));
    await reconcile();
    expect(dryRuns).toEqual([1, 2, 2]); // its webhooks are the same
  });

  test.each([
    ['', false],
    [' and has restarted', true],
  ])('leave the previous version deciding in a process without dry runs%s', async (_what, isRestarted) => {
    if (!isRestarted) await reconcile({ dryRun: NO_DRY_RUN });
    put(moved, inForce());
    await reconcile({ dryRun: NO_DRY_RUN });
    registry.observe(INSTALLED); // the leader leaves the entry of the previous version
    expect(decides()).toMatchObject(previous);
  });
});

test.each([
  ['when the permission is revoked', false],
  ['after a restart, without a watch that would be refused', true],
])('a policy whose kinds are not readable remains in force %s, and reports it', async (_when, restarts) => {
  if (restarts) put(policy(1), inForce());
  else await reconcile();
  watched = [];
  forbidden = new Set([`datacenters.${GROUP}`]);
  expect(await reconcile()).toEqual(SOON);
  const message = containing('aggregate-to-references: "true"');
  expect(state()).toMatchObject({ inForce: { generation: 1 }, problem: { reason: 'Forbidden', message } });
  expect(watched).toEqual([]);
});

describe('after a restart', () => {
  const undecided = (...message: readonly string[]) => {
    expect(rules()).toEqual(INSTALLED);
    expect(state()?.inForce?.undecidable?.isTemporary).toBe(true);
    for (const part of message) expect(state()?.inForce?.undecidable?.message).toContain(part);
  };

  test('a policy whose kinds cannot be read keeps its webhooks, and does not hold up the others', async () => {
    put(policy(1), inForce());
    await expect(reconcile({ discovery: discovering(away) })).rejects.toThrow('away');
    expect(state()?.problem?.reason).toBe('DiscoveryFailed');
    undecided();
    await reconcile();
    expect(state()).toMatchObject(HEALTHY);
  });

  test('a reconcile that takes too long leaves the policy uncompiled, so that its webhooks stay', async () => {
    put(policy(1), inForce());
    const aborted = AbortSignal.abort(new Error('too long'));
    await expect(reconcile({ discovery: discovering(away) }, aborted)).rejects.toThrow('too long');
    expect(state()).toBeUndefined();
  });
});

describe('a policy for a kind that is not served', () => {
  const racks = (
    match: Partial<AdmissionPolicySpec['match']> = {},
    validate: object = { immutable: ['spec.a'] },
  ) => policy(1, { match: { apiGroups: [GROUP], resources: ['rack'], ...match }, validate });

  test('recommends no permission to read that kind', async () => {
    served = new Map();
    forbidden.add(`rack.${GROUP}`);
    put(racks({}, { unique: [{ name: 'a', paths: ['spec.a'] }] }));
    await reconcile();
    expect(state()?.problem?.reason).toBe('UnknownKind');
    expect(state()?.problem?.message).not.toContain('ClusterRole');
  });

  test('is enforced without a word if discovery fails', async () => {
    put(racks());
    await reconcile({ discovery: { ...discovering(away), servedIn: away } });
    expect(state()).toMatchObject(HEALTHY);
  });
});

test.each<[string, Partial<PoliciesOptions>]>([
  ['discovery', { discovery: discovering(away) }],
  ['the access review', { canRead: away }],
  ['the first list', { targets: { ensure: away } }],
])('a failure of %s changes nothing', async (_what, failing) => {
  await reconcile();
  put(policy(2));
  await expect(reconcile(failing)).rejects.toThrow('away');
  expect(state()).toMatchObject(HEALTHY);
});

describe('a version whose reads were not reviewed', () => {
  const needsRecord: typeof verdict = (_spec, record) => (record === 'valid' ? 'reviewed' : 'unreviewed');

  test('does not come into force after a restart because status.inForce holds it', async () => {
    verdict = needsRecord;
    put(broken(2), inForce(undefined, 'forged'));
    await reconcile();
    expect(state()?.inForce?.undecidable).toBeDefined();
    put(broken(2), inForce(undefined, 'valid'));
    restart();
    verdict = (spec, record) => (spec.defaults === undefined ? needsRecord(spec, record) : 'reviewed');
    await reconcile();
    expect(state()?.inForce).toMatchObject({ generation: 1 });
    expect(isDecidable()).toBe(true);
  });

  const validate = { immutable: ['spec.rack'] };
  test.each([
    ['the newest', policy(1)],
    ['followed by one with another scope', policy(2, { validate, timeoutSeconds: 10 })],
  ])(
    'keeps its webhooks after a restart if it is %s: it reads nothing, and its requests are refused',
    async (_what, newest) => {
      verdict = ({ validate }) => (validate?.references === undefined ? 'reviewed' : 'unreviewed');
      put(newest, inForce(undefined, 'lost'));
      await reconcile();
      expect(decides()).toMatchObject({ policies: [{ targets: [], undecidable: { isTemporary: false } }] });
      expect(watched).toEqual([]);
    },
  );

  test('is never in force if params reference a Secret of Gatehouse, regardless of the record', async () => {
    put(policy(1, { params: { apiGroup: '', resource: 'secrets', name: 'a', namespace: OWN_NAMESPACE } }));
    await reconcile();
    expect(state()).toMatchObject({ inForce: undefined, problem: { reason: 'Forbidden' } });
  });
});
