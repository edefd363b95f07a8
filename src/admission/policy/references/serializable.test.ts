import { beforeEach, describe, expect, test } from 'vitest';

import {
  emptyWorld,
  compileSpec,
  createRequest,
  deleteRequest,
  GROUP,
  NIGHTLY,
  policyOf,
  updateRequest,
} from '../../../../test/support/admission/policy.ts';
import { createClaimsInMemory, type ClaimsInMemory } from '../../../../test/support/admission/claims.ts';
import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import type { KubeObject, ObjectRef } from '../../../json/kube-object.ts';
import type { Decision } from '../../review/decision.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import type { CompiledPolicy } from '../compiled-policy.ts';
import { validate } from '../validate.ts';
import type { RequestWorld } from '../world.ts';
import { checkTargetDeletion } from './check-target-deletion.ts';
import { deletionIntentName } from './check-references.ts';
import { createHeldIntents, type HeldIntents } from '../../../runtime/claims/held-intents.ts';

const reference = (change: object = {}) => ({
  name: 'datacenter',
  path: 'spec.datacenter',
  onTargetDelete: 'Restrict',
  guarantee: 'Serializable',
  target: { apiGroup: GROUP, resource: 'datacenters' },
  ...change,
});
const specOf = (change: object = {}, spec: Partial<AdmissionPolicySpec> = {}) =>
  ({ validate: { references: [reference(change)] }, ...spec }) as Partial<AdmissionPolicySpec>;
const POLICY = policyOf(specOf());

const NOW = Date.parse('2026-11-27');
const target = (name: string): ObjectRef => ({
  group: GROUP,
  resource: 'datacenters',
  namespace: undefined,
  name,
});

/** Objects in the API server, by resource and name. */
let live: Map<string, KubeObject>;
let claims: ClaimsInMemory;
let restoring: 'no' | 'yes' | 'known';
let failure: Error | undefined;
/** Whether this replica holds intents. */
let held: HeldIntents | undefined;
/** Runs while a deletion waits. */
let onPause: () => void;
let uid: number;

beforeEach(() => {
  live = new Map([['datacenters/fra1', { metadata: { name: 'fra1', uid: 'd1', resourceVersion: '1' } }]]);
  claims = createClaimsInMemory();
  restoring = 'no';
  failure = undefined;
  held = undefined;
  onPause = () => undefined;
  uid = 0;
});

const evidence = () => (restoring === 'no' ? undefined : NIGHTLY);

const worldOf = (): RequestWorld => {
  const read = ({ resource, name }: ObjectRef) => Promise.resolve(live.get(`${resource}/${name}`));
  return {
    ...emptyWorld(),
    find: () => ({}),
    confirm: read,
    read,
    claims,
    restoreEvidence: () => Promise.resolve(evidence()),
    knownRestore: () => (restoring === 'known' ? NIGHTLY : undefined),
    intents: {
      list: (label) =>
        failure === undefined
          ? Promise.resolve(
              [...claims.stored.values()].filter(({ metadata }) => metadata.labels?.[label] !== undefined),
            )
          : Promise.reject(failure),
      unseen: () =>
        Promise.resolve(
          [...live.values()].flatMap(({ metadata: { namespace, name = '' } = {} }) =>
            namespace === undefined ? [] : [{ group: GROUP, resource: 'servers', namespace, name }],
          ),
        ),
      pause: async () => {
        onPause();
        await new Promise(setImmediate);
      },
      ...(held === undefined ? {} : { hold: held.hold }),
    },
  };
};

const judge = async (request: AdmissionRequest, policies: readonly CompiledPolicy[] = [POLICY]) => {
  const context = { world: worldOf(), signal: new AbortController().signal, now: NOW };
  const called = { ...request, uid: `call-${++uid}` };
  return request.operation === 'DELETE'
    ? await checkTargetDeletion(called, policies, context)
    : await validate(called, policies, context);
};

const deletion = (): AdmissionRequest => ({
  ...deleteRequest({}),
  name: 'fra1',
  namespace: undefined,
  resource: { group: GROUP, version: 'v1', resource: 'datacenters' },
  oldObject: { metadata: { name: 'fra1', uid: 'd1', resourceVersion: '1' } },
});
const create = (name = 'a') => ({
  ...createRequest({ datacenter: 'fra1' }, { name, uid: `uid-${name}` }),
  name,
});
const messageOf = (decision: Decision): string => (decision.kind === 'allow' ? '' : decision.message);
const names = () => [...claims.stored.keys()];

test.each<[string, Partial<AdmissionPolicySpec>, string]>([
  ['without Restrict', specOf({ onTargetDelete: 'Allow' }), 'needs onTargetDelete: Restrict'],
  ['that a failure ends', specOf({}, { failurePolicy: 'Ignore' }), 'needs failurePolicy: Fail'],
  [
    'that updates escape',
    specOf({}, { match: { apiGroups: [GROUP], resources: ['servers'], operations: ['CREATE'] } }),
    'needs the operations CREATE and UPDATE',
  ],
])('compilation refuses a guarantee %s', (_name, spec, message) => {
  const result = compileSpec(spec);
  expect(result.kind === 'rejected' && result.problems).toEqual([
    expect.objectContaining({
      message: expect.stringContaining(message) as string,
      where: 'spec.validate.references[0].guarantee',
    }),
  ]);
});

const hold = (): HeldIntents =>
  createHeldIntents({
    claims,
    cleanup: claims,
    identity: 'one',
    signal: new AbortController().signal,
    now: () => NOW,
    monotonic: () => 0,
    seesDeletions: () => true,
    timeout: () => new AbortController().signal,
  });
const stored = (name: string) => {
  live.set(`servers/${name}`, {
    metadata: { name, namespace: 'store', uid: `uid-${name}`, resourceVersion: '5' },
    ...{ spec: { datacenter: 'fra1' } },
  });
};
/** The writes under held intents that are not over. */
const pending = () => ['a', 'b'].flatMap((name) => claims.unsettled.intentsOf(serverRef(name)));
const serverRef = (name: string) => ({ group: GROUP, resource: 'servers', namespace: 'store', name });

describe.each([
  ['with its own intent', () => undefined, 8],
  ['with a held intent', hold, 1],
])('a write that adds a reference %s', (_whose, holding, intents) => {
  beforeEach(() => {
    held = holding();
  });

  test('withdraws it if the target is gone or is being deleted', async () => {
    live.set('datacenters/fra1', { metadata: { name: 'fra1', deletionTimestamp: '2026-11-27T00:00:00Z' } });
    expect(messageOf(await judge(create()))).toContain('is being deleted: reference another object');
    live.clear();
    expect(messageOf(await judge(create()))).toContain('not found; create it or fix the name');
    await new Promise(setImmediate);
    expect([names(), pending(), claims.unsettled.count()]).toEqual([[], [], 0]);
  });

  test('has to retry while an admitted deletion may be stored', async () => {
    expect(await judge(deletion())).toMatchObject({ kind: 'allow' });
    expect(await judge(create())).toMatchObject({ kind: 'deny', code: 429, retryAfterSeconds: 1 });
    await new Promise(setImmediate);
    expect(names()).toEqual([deletionIntentName(target('fra1'))]);
    live.set('datacenters/fra1', { metadata: { name: 'fra1', uid: 'd2', resourceVersion: '9' } });
    expect(await judge(create())).toMatchObject({ kind: 'allow' });
  });

  test('has to retry if the user has too many writes that are not stored', async () => {
    for (let n = 1; n <= 8; n++) expect(await judge(create(`s${n}`))).toMatchObject({ kind: 'allow' });
    const decision = await judge(create('s9'));
    expect(decision).toMatchObject({ kind: 'deny', code: 429 });
    expect(messageOf(decision)).toContain('too many writes of "ada" with new references are not stored');
    expect(names()).toHaveLength(intents);
    expect(claims.unsettled.count()).toBe(8);
  });
});

describe('a write that adds a reference', () => {
  test('stores one intent, and reads the intent of a deletion afterwards', async () => {
    expect(await judge(create())).toMatchObject({ kind: 'allow' });
    expect(claims.asked.map((call) => call.replace(/\.\w+$/, ''))).toEqual([
      'create reference',
      'read deletion',
    ]);
  });

  test('stores none if it changes no reference, if the policy only warns, or without the guarantee', async () => {
    const same = updateRequest({ datacenter: 'fra1' }, { datacenter: 'fra1', units: 2 });
    expect(await judge(same)).toMatchObject({ kind: 'allow' });
    const weak = [
      policyOf(specOf({}, { enforcement: 'Warn' })),
      policyOf(specOf({ guarantee: 'BestEffort' })),
    ];
    expect(await judge(create(), weak)).toMatchObject({ kind: 'allow' });
    expect(claims.asked).toEqual([]);
  });

  test('stores none if a unique value is taken', async () => {
    const unique = [{ name: 'datacenter', paths: ['spec.datacenter'] }];
    const both = [policyOf({ validate: { ...specOf().validate, unique } })];
    const first = create();
    expect(await judge(first, both)).toMatchObject({ kind: 'allow' });
    live.set('servers/a', first.object as KubeObject);
    claims.asked.splice(0);
    expect(await judge(create('b'), both)).toMatchObject({ kind: 'deny' });
    expect(claims.asked.filter((call) => call.includes('reference'))).toEqual([]);
  });

  test('is refused in a restore if one of the policies that name the missing target does not defer', async () => {
    restoring = 'yes';
    live.delete('datacenters/fra1');
    const strict = policyOf(specOf({}, { restore: { references: 'Enforce' } }));
    for (const policies of [
      [POLICY, strict],
      [strict, POLICY],
    ])
      expect(await judge(create(), policies)).toMatchObject({ kind: 'deny' });
  });

  test('stores nothing for a restorer, and a missing target is deferred', async () => {
    restoring = 'known';
    expect(await judge(create())).toMatchObject({ kind: 'allow' });
    expect(claims.asked).toEqual([]);
    restoring = 'yes';
    live.clear();
    expect(await judge(create())).toMatchObject({
      kind: 'allow',
      warnings: [expect.stringContaining('checked again after the restore') as string],
    });
    expect(
      await judge(create(), [policyOf(specOf({}, { restore: { references: 'Enforce' } }))]),
    ).toMatchObject({
      kind: 'deny',
    });
  });

  test('has to retry if the API server does not answer', async () => {
    claims.before('create', () => {
      throw new Error('connection refused');
    });
    expect(await judge(create())).toMatchObject({ kind: 'retry' });
    expect(claims.unsettled.count()).toBe(1); // the intent may be stored
  });
});

describe('a deletion of a target', () => {
  test('has to retry while an admitted write may be stored, and is refused once it is', async () => {
    await judge(create());
    const decision = await judge(deletion());
    expect(decision).toMatchObject({ kind: 'deny', code: 429, retryAfterSeconds: 1 });
    expect(messageOf(decision)).toContain('was referenced a moment ago by servers.infra.example.com "a"');
    expect(names().filter((name) => name.startsWith('deletion'))).toEqual([]);
    expect(claims.unsettled.count()).toBe(1); // the intent of the write
    stored('a');
    expect(messageOf(await judge(deletion()))).toContain('is still referenced by');
  });

  test('that is refused leaves the intent of another one', async () => {
    await judge(deletion());
    const [before] = claims.stored.values();
    failure = new Error('connection refused');
    expect(await judge(deletion())).toMatchObject({ kind: 'retry', cause: failure });
    expect([...claims.stored.values()].map(({ spec }) => spec)).toEqual([before?.spec]);
  });

  test('stores an intent of another user, and of a restorer if the policy enforces onTargetDelete', async () => {
    await judge(deletion(), [policyOf(specOf({}, { restore: { onTargetDelete: 'Defer' } }))]);
    expect(names()).toHaveLength(1);
    claims.stored.clear();
    restoring = 'known';
    await judge(deletion(), [policyOf(specOf({}, { restore: { onTargetDelete: 'Enforce' } }))]);
    expect(names()).toHaveLength(1);
  });

  test('ignores forged intents of objects that the policy does not govern', async () => {
    await judge(create());
    const [name = '', intent] = [...claims.stored][0] ?? [];
    if (intent === undefined) throw new Error('there is no intent');
    const holder = { group: '', resource: 'pods', name: '../..' };
    claims.stored.set(name, { ...intent, spec: { ...intent.spec, holder } });
    expect(await judge(deletion())).toMatchObject({ kind: 'allow' });
  });
});

describe('with held intents', () => {
  beforeEach(() => {
    held = hold();
  });

  test('only the first write that names a target makes calls', async () => {
    expect(await judge(create())).toMatchObject({ kind: 'allow' });
    expect(claims.asked.map((call) => call.replace(/\.\w+$/, ''))).toEqual(['create held', 'read deletion']);
    live.clear(); // a read would refuse
    expect(await judge(create('b'))).toMatchObject({ kind: 'allow' });
    expect(claims.asked).toHaveLength(2);
    expect(pending()).toHaveLength(2);
  });

  test('a deletion has to retry while the intent is held, and a dry run does not wait', async () => {
    await judge(create());
    expect(messageOf(await judge(deletion()))).toContain('was referenced a moment ago by an object');
    expect(names().filter((name) => name.startsWith('deletion'))).toEqual([]);
    expect(await judge({ ...deletion(), dryRun: true })).toMatchObject({ kind: 'allow' });
  });

  test('a deletion passes once the intent is removed, and lists the objects again', async () => {
    const finish = () => {
      held?.release(target('fra1'));
      for (const name of pending()) held?.finish(name);
    };
    await judge(create());
    onPause = finish; // another webhook has refused the write
    expect(await judge(deletion())).toMatchObject({ kind: 'allow' });

    live.set('datacenters/fra1', { metadata: { name: 'fra1', uid: 'd2', resourceVersion: '9' } });
    expect(await judge(create('b'))).toMatchObject({ kind: 'allow' });
    onPause = () => {
      stored('b');
      finish();
    };
    expect(messageOf(await judge(deletion()))).toContain('is still referenced by');
  });

  test('a deletion does not wait for an intent that has expired', async () => {
    await judge(create());
    for (const [name, intent] of claims.stored) {
      const at = new Date(NOW - claims.settleMs).toISOString();
      claims.stored.set(name, { ...intent, spec: { ...intent.spec, requests: [{ at }] } });
    }
    expect(await judge(deletion())).toMatchObject({ kind: 'allow' });
  });
});
