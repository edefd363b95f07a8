import { beforeEach, describe, expect, test } from 'vitest';

import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import type { KubeObject, ObjectMeta, ObjectRef } from '../../../json/kube-object.ts';
import type { CompiledPolicy } from '../compiled-policy.ts';
import type { Decision } from '../../review/decision.ts';
import type { JsonObject } from '../../../json/json.ts';
import {
  deleteRequest,
  emptyWorld,
  GROUP,
  restoringIn,
  policyOf,
} from '../../../../test/support/admission/policy.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import { checkTargetDeletion } from './check-target-deletion.ts';
import type { RestoringWindow, RequestWorld } from '../world.ts';

/** Servers and namespaces in the API server, by name. */
let servers: Map<string, KubeObject | 'broken'>;
let namespaces: Map<string, ObjectMeta>;
/** The objects that name the target according to the stores; undefined until the stores are synced. */
let known: readonly ObjectRef[] | undefined;
let reads: string[];
let operations: RestoringWindow['operations'];
let restoring: 'no' | 'yes' | 'in namespaces' | 'unknown';

beforeEach(() => {
  servers = new Map();
  namespaces = new Map([['store', {}]]);
  known = [];
  reads = [];
  restoring = 'no';
});

const ref = (name: string, namespace = 'store'): ObjectRef => ({
  group: GROUP,
  resource: 'servers',
  namespace,
  name,
});

/** Adds a Server that names a datacenter, to the API server and to the stores. */
function put(name: string, datacenter: string, metadata: ObjectMeta = {}): void {
  const { namespace = 'store' } = metadata;
  known = [...(known ?? []), ref(name, namespace)];
  servers.set(name, { metadata: { name, namespace, ...metadata }, spec: { datacenter } } as KubeObject);
}

const worldOf = (): RequestWorld => ({
  ...emptyWorld(),
  confirm: () => Promise.reject(new Error('unexpected call')),
  read: ({ resource, name }) => {
    reads.push(`${resource}/${name}`);
    const found = servers.get(name);
    if (found === 'broken') return Promise.reject(new Error('connection refused'));
    const metadata = namespaces.get(name);
    return Promise.resolve(resource === 'namespaces' ? metadata && { metadata } : found);
  },
  restoreEvidence: () =>
    restoring === 'unknown'
      ? Promise.reject(new Error('connection refused'))
      : Promise.resolve(
          restoring === 'no' ? undefined : restoringIn({ operations, clusterWide: restoring === 'yes' }),
        ),
  governed: { referrers: () => known, holders: () => [] },
});

const reference = {
  name: 'datacenter',
  path: 'spec.datacenter',
  target: { apiGroup: GROUP, resource: 'datacenters' },
  onTargetDelete: 'Restrict',
} as const;
const policy = (spec: Partial<AdmissionPolicySpec> = {}) =>
  policyOf({ validate: { references: [reference] }, ...spec });

/** An owner reference to the target. */
const owner = { apiVersion: `${GROUP}/v1`, kind: 'Datacenter', name: 'fra1', uid: 'uid-of-fra1' };

function deletion(change: Partial<AdmissionRequest> = {}, metadata: JsonObject = {}): AdmissionRequest {
  const resource = { group: GROUP, version: 'v1', resource: 'datacenters' };
  return {
    ...deleteRequest({}),
    kind: { group: GROUP, version: 'v1', kind: 'Datacenter' },
    resource,
    name: 'fra1',
    namespace: undefined,
    oldObject: { metadata: { name: 'fra1', uid: 'uid-of-fra1', ...metadata } },
    ...change,
  };
}

const judge = (request = deletion(), policies: readonly CompiledPolicy[] = [policy()]): Promise<Decision> =>
  checkTargetDeletion(request, policies, {
    world: worldOf(),
    signal: new AbortController().signal,
    now: Date.parse('2026-11-21T12:00:00Z'),
  });
const kindOf = async (decision: Promise<Decision>) => (await decision).kind;
const messageOf = async (decision: Promise<Decision>) => {
  const decided = await decision;
  return decided.kind === 'allow' ? '' : decided.message;
};

test('the message names five objects, with no more live reads than needed', async () => {
  for (let n = 0; n < 100; n++) put(`s${n}`, 'fra1');
  const message = await messageOf(judge());
  expect(message.match(/servers\.infra\.example\.com/g)).toHaveLength(5);
  expect(message).toContain('and perhaps 95 more');
  expect(reads.length).toBeLessThan(20);
});

describe('an object does not protect the target', () => {
  test.each<[string, () => void]>([
    ['has gone', () => void (known = [ref('gone')])],
    ['now names another target', () => put('a', 'fra2')],
    ['is being deleted', () => put('a', 'fra1', { deletionTimestamp: '2026-11-21T12:00:00Z' })],
    [
      'is owned only by the target, through another version',
      () => put('a', 'fra1', { ownerReferences: [{ ...owner, apiVersion: `${GROUP}/v1beta1` }] }),
    ],
    [
      'is of a kind that the policy does not govern',
      () => void (known = [{ ...ref('a'), resource: 'racks' }]),
    ],
  ])('if it %s', async (_who, arrange) => {
    arrange();
    expect(await kindOf(judge())).toBe('allow');
  });

  test('if it does not match the selectors of the policy', async () => {
    const match = { apiGroups: [GROUP], resources: ['servers'] };
    put('a', 'fra1', { labels: { tier: 'lead' } });
    const gold = policy({ match: { ...match, objectSelector: { matchLabels: { tier: 'gold' } } } });
    expect(await kindOf(judge(deletion(), [gold]))).toBe('allow');
    const prod = policy({ match: { ...match, namespaceSelector: { matchLabels: { env: 'prod' } } } });
    expect(await kindOf(judge(deletion(), [prod]))).toBe('allow');
    namespaces.set('store', { labels: { env: 'prod' } });
    expect(await kindOf(judge(deletion(), [prod]))).toBe('deny');
  });

  test('if an exception covers it, for the user or for the object that refers', async () => {
    put('legacy-a', 'fra1');
    const spared = (exception: object) =>
      judge(deletion(), [
        policy({
          exceptions: [{ name: 'legacy', reason: 'old', ...exception }],
        }),
      ]);
    expect(await spared({ names: ['legacy-*'] })).toMatchObject({
      kind: 'allow',
      auditAnnotations: { exceptions: 'servers/legacy' },
    });
    expect(await kindOf(spared({ users: ['ada'], checks: ['datacenter'] }))).toBe('allow');
    expect(await kindOf(spared({ users: ['bob'] }))).toBe('deny');
    expect(await kindOf(spared({ names: ['fra1'] }))).toBe('deny');
    expect(await kindOf(spared({ users: ['ada'], checks: ['immutable'] }))).toBe('deny');
  });

  test('if it is the target itself', async () => {
    const itself = policy({
      validate: { references: [{ ...reference, target: { apiGroup: GROUP, resource: 'servers' } }] },
    });
    put('a', 'a');
    const resource = { group: GROUP, version: 'v1', resource: 'servers' };
    const request = deletion({ resource, name: 'a', namespace: 'store' });
    expect(await kindOf(judge(request, [itself]))).toBe('allow');
    put('b', 'a');
    expect(await kindOf(judge(request, [itself]))).toBe('deny');
  });
});

describe('an object that the target owns protects it', () => {
  const orphaning: [string, AdmissionRequest][] = [
    ['the deletion orphans dependents', deletion({ options: { propagationPolicy: 'Orphan' } })],
    ['it has the orphan finalizer', deletion({}, { finalizers: ['orphan'] })],
  ];
  test.each(orphaning)('if %s', async (_why, request) => {
    put('a', 'fra1', { ownerReferences: [owner] });
    expect(await kindOf(judge(request))).toBe('deny');
  });

  test('if it has another owner', async () => {
    put('a', 'fra1', { ownerReferences: [owner, { ...owner, uid: 'another' }] });
    expect(await kindOf(judge())).toBe('deny');
  });

  test.each([
    ['kind', { kind: 'Nothing' }],
    ['group', { apiVersion: 'nothing.example.com/v1' }],
    ['name', { name: 'fra2' }],
  ])('if the owner reference has another %s than the target', async (_what, change) => {
    put('a', 'fra1', { ownerReferences: [{ ...owner, ...change }] });
    expect(await kindOf(judge())).toBe('deny');
  });
});

const deletionIn = (namespace: string) =>
  deletion({ resource: { group: GROUP, version: 'v1', resource: 'classes' }, namespace });

test('a reference from another namespace protects a target in a namespace that is being deleted', async () => {
  const across = policy({
    validate: {
      references: [
        {
          ...reference,
          namespacePath: 'metadata.labels.of',
          target: { apiGroup: GROUP, resource: 'classes' },
        },
      ],
    },
  });
  namespaces.set('store', { deletionTimestamp: '2026-11-21T12:00:00Z' });
  put('a', 'fra1', { namespace: 'lab', labels: { of: 'store' } });
  expect(await kindOf(judge(deletionIn('store'), [across]))).toBe('deny');
  // The garbage collector looks for the owner in the namespace of the object.
  put('a', 'fra1', { namespace: 'lab', labels: { of: 'store' }, ownerReferences: [owner] });
  expect(await kindOf(judge(deletionIn('store'), [across]))).toBe('deny');
});

test('a target with a deletionTimestamp is protected: the timestamp may be forged', async () => {
  put('a', 'fra1');
  expect(await kindOf(judge(deletion({}, { deletionTimestamp: '2026-11-21T12:00:00Z' })))).toBe('deny');
});

test('when the API server does not answer, the client retries', async () => {
  put('a', 'fra1');
  servers.set('a', 'broken');
  expect(await judge()).toMatchObject({ kind: 'retry', cause: { message: 'connection refused' } });
  expect(await messageOf(judge())).toContain(
    'could not find out whether datacenters.infra.example.com "fra1" is still referenced',
  );
});

test('until the stores are synced, the client retries', async () => {
  known = undefined;
  expect(await kindOf(judge())).toBe('retry');
  expect(await kindOf(judge(deletion(), [policy({ enforcement: 'Warn' })]))).toBe('allow');
});

describe('during a restore', () => {
  beforeEach(() => {
    put('a', 'fra1');
    operations = ['CREATE', 'UPDATE', 'DELETE'];
  });

  test('the restorer may delete a target with references, and the sweep checks it afterwards', async () => {
    restoring = 'yes';
    expect(await judge()).toMatchObject({
      kind: 'allow',
      warnings: [expect.stringContaining('checked again after the restore (RestoreWindow "nightly")')],
      auditAnnotations: {
        deferred: 'servers=datacenters.infra.example.com//fra1',
        'restore-window': 'nightly',
      },
    });
  });

  test.each<
    [string, RestoringWindow['operations'], NonNullable<AdmissionPolicySpec['restore']>, Decision['kind']]
  >([
    ['a window without DELETE defers nothing', ['CREATE', 'UPDATE'], {}, 'deny'],
    [
      'the policy can defer for a window without DELETE',
      ['CREATE', 'UPDATE'],
      { onTargetDelete: 'Defer' },
      'allow',
    ],
    ['a policy that enforces its references defers nothing', ['DELETE'], { references: 'Enforce' }, 'deny'],
    [
      'a policy that enforces onTargetDelete defers nothing',
      ['DELETE'],
      { onTargetDelete: 'Enforce' },
      'deny',
    ],
  ])('%s', async (_case, speaksOf, restore, kind) => {
    restoring = 'yes';
    operations = speaksOf;
    expect(await kindOf(judge(deletion(), [policy({ restore })]))).toBe(kind);
  });

  test.each([
    ['the same namespace', 'store', 'allow'],
    ['another namespace', 'shop', 'deny'],
  ])(
    'in a window for namespaces, a target that an object in %s names: %s %s',
    async (_where, namespace, kind) => {
      restoring = 'in namespaces';
      known = [ref('b', namespace)];
      servers.set('b', {
        metadata: { name: 'b', namespace },
        spec: { datacenter: 'fra1', in: 'store' },
      } as KubeObject);
      const target = { apiGroup: GROUP, resource: 'classes' };
      const across = { ...reference, target, namespacePath: 'spec.in' };
      const resource = { group: GROUP, version: 'v1', resource: 'classes' };
      const request = deletion({ resource, namespace: 'store' });
      expect(await kindOf(judge(request, [policy({ validate: { references: [across] } })]))).toBe(kind);
    },
  );

  test('if the restore evidence is unknown, the client retries', async () => {
    restoring = 'unknown';
    expect(await kindOf(judge())).toBe('retry');
    const enforcing = policy({ restore: { onTargetDelete: 'Enforce' } });
    expect(await kindOf(judge(deletion(), [enforcing]))).toBe('deny'); // whatever the evidence is
    expect(await kindOf(judge(deletion(), [policy({ enforcement: 'Warn' })]))).toBe('allow');
  });
});
