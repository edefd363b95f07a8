import { beforeEach, describe, expect, test } from 'vitest';

import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import type { UniqueClaim } from '../../../api/unique-claim.ts';
import type { UniqueRule } from '../../../api/policy-validate.ts';
import type { KubeObject, ObjectRef } from '../../../json/kube-object.ts';
import {
  createClaimsInMemory,
  SETTLE_MS,
  type ClaimsInMemory,
} from '../../../../test/support/admission/claims.ts';
import type { CompiledPolicy } from '../compiled-policy.ts';
import type { Decision } from '../../review/decision.ts';
import type { JsonObject, JsonValue } from '../../../json/json.ts';
import {
  emptyWorld,
  createRequest,
  GROUP,
  restoringIn,
  policyOf,
  updateRequest,
} from '../../../../test/support/admission/policy.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import { MAX_KEYS } from './unique-key.ts';
import { validate } from '../validate.ts';
import type { RequestWorld } from '../world.ts';

const START = Date.parse('2026-11-21T12:00:00Z');
let now: number;
let claims: ClaimsInMemory;
/** The stored objects, by name. */
let stored: Map<string, KubeObject>;
/** Names that the stores return as holders of any key. */
let rumoured: string[] | undefined;
let reads: string[];
let restoring: 'no' | 'yes' | 'in namespaces' | 'unknown';

beforeEach(() => {
  now = START;
  claims = createClaimsInMemory(() => now);
  stored = new Map();
  rumoured = [];
  reads = [];
  restoring = 'no';
});

const read = (ref: ObjectRef): Promise<KubeObject | undefined> => {
  reads.push(ref.name);
  const object = stored.get(ref.name);
  return object?.kind === 'Broken'
    ? Promise.reject(new Error('connection refused'))
    : Promise.resolve(object);
};
const worldOf = (): RequestWorld => ({
  ...emptyWorld(),
  confirm: read,
  read,
  restoreEvidence: () =>
    restoring === 'unknown'
      ? Promise.reject(new Error('connection refused'))
      : Promise.resolve(restoring === 'no' ? undefined : restoringIn({ clusterWide: restoring === 'yes' })),
  claims,
  governed: {
    referrers: () => [],
    holders: () => rumoured?.map((name) => ({ group: GROUP, resource: 'servers', namespace: 'store', name })),
  },
});

const serial = (spec: Partial<AdmissionPolicySpec> = {}, rule: Partial<UniqueRule> = {}, name?: string) =>
  policyOf({ validate: { unique: [{ name: 'serial', paths: ['spec.serial'], ...rule }] }, ...spec }, name);

const ips = serial({}, { paths: ['spec.ips[*]'] });

const judge = (request: AdmissionRequest, policies: readonly CompiledPolicy[] = [serial()]) =>
  validate(request, policies, { world: worldOf(), signal: new AbortController().signal, now });

const named = (name: string, request: AdmissionRequest): AdmissionRequest => ({
  ...request,
  name,
  object: { ...request.object, metadata: { ...(request.object?.metadata as JsonObject), name } },
});
const create = (name: string, spec: JsonObject, uid = `uid-of-${name}`) =>
  named(name, createRequest(spec, { name, uid }));
const update = (name: string, before: JsonObject, after: JsonObject) => {
  const request = named(name, updateRequest(before, after));
  const metadata = { name, uid: `uid-of-${name}`, resourceVersion: '1' };
  return { ...request, oldObject: { ...request.oldObject, metadata } };
};
const store = (name: string, spec: JsonObject, metadata: object = {}): void => {
  stored.set(name, {
    metadata: { name, namespace: 'store', uid: `uid-of-${name}`, resourceVersion: '1', ...metadata },
    spec,
  } as KubeObject);
};
const TRY_AGAIN = { kind: 'deny', code: 429, reason: 'TooManyRequests', retryAfterSeconds: 1 };
const failAt = (verb: Parameters<ClaimsInMemory['before']>[0]) => {
  claims.before(verb, () => {
    throw new Error('connection refused');
  });
};
const messageOf = (decision: Decision) => (decision.kind === 'allow' ? '' : decision.message);
const holders = () => [...claims.stored.values()].map(({ spec }) => spec.holder.name);
const kindOf = async (decision: Decision | Promise<Decision>) => (await decision).kind;

test.each<[string, Partial<UniqueClaim['spec']>]>([
  ['of another kind', { holder: { group: '', resource: 'secrets', namespace: 'store', name: 'token' } }],
  [
    'with a name that no object can have',
    { holder: { group: GROUP, resource: 'servers', namespace: 'store', name: '..' } },
  ],
  ['with a write in the future', { requests: [{ at: '2999-01-01T00:00:00Z' }] }],
])('a claim that an attacker forged for a holder %s does not block a value', async (_what, forged) => {
  await judge(create('a', { serial: 'X' }));
  for (const [name, claim] of claims.stored)
    claims.stored.set(name, { ...claim, spec: { ...claim.spec, requests: [], ...forged } });
  for (const unreadable of ['token', '..']) stored.set(unreadable, { kind: 'Broken' });
  expect(await kindOf(judge(create('b', { serial: 'X' })))).toBe('allow');
  expect(holders()).toEqual(['b']);
});

test('no message contains the data of a Secret', async () => {
  const policy = policyOf({
    match: { apiGroups: [''], resources: ['secrets'] },
    validate: { unique: [{ name: 'token', paths: ['data.token'] }] },
  });
  const secret = (name: string): AdmissionRequest => {
    const request = create(name, {});
    const resource = { group: '', version: 'v1', resource: 'secrets' };
    return { ...request, resource, object: { ...request.object, data: { token: 'aHVudGVyMg==' } } };
  };
  await judge(secret('a'), [policy]);
  const decision = await judge(secret('b'), [policy]);
  expect(messageOf(decision)).toContain('the value was claimed');
  expect(JSON.stringify([decision, ...claims.stored.values()])).not.toContain('aHVudGVyMg');
});

describe('a claim whose holder is not stored yet', () => {
  beforeEach(async () => {
    await judge(create('a', { serial: 'X' }));
  });

  test('makes other clients retry, with a delay', async () => {
    now += 10_000;
    const decision = await judge(create('b', { serial: 'X' }));
    expect(decision).toMatchObject(TRY_AGAIN);
    expect(messageOf(decision)).toContain('try again, in 60 s at the latest');
    expect(holders()).toEqual(['a']);
  });

  test('is taken over when it expires', async () => {
    now += SETTLE_MS;
    expect(await kindOf(judge(create('b', { serial: 'X' })))).toBe('allow');
    expect(holders()).toEqual(['b']);
    expect([...claims.stored.values()][0]?.spec.requests).toMatchObject([{ uid: 'uid-of-b' }]);
  });

  test('is not taken over by a slower request', async () => {
    now += SETTLE_MS;
    claims.before('replace', () => {
      const [claim] = claims.stored.values();
      if (claim === undefined) return;
      const faster = { ...claim.spec, holder: { ...claim.spec.holder, name: 'c' } };
      claims.stored.set(claim.metadata.name ?? '', {
        metadata: { ...claim.metadata, resourceVersion: 'x' },
        spec: faster,
      });
      store('c', { serial: 'X' });
    });
    expect(messageOf(await judge(create('b', { serial: 'X' })))).toContain('"c"');
  });
});

describe('an update', () => {
  test('claims only its new values', async () => {
    expect(await kindOf(judge(update('a', { serial: 'X' }, { serial: 'X', units: 2 })))).toBe('allow');
    expect(claims.asked).toEqual([]);
    expect(await kindOf(judge(update('a', { serial: 'X' }, { serial: 'Y' })))).toBe('allow');
    expect([...claims.stored.values()]).toMatchObject([
      { spec: { values: ['"Y"'], requests: [{ uid: 'uid-of-a', resourceVersion: '1' }] } },
    ]);
    expect(await kindOf(judge(update('a', { serial: 'X' }, {})))).toBe('allow');
    expect(claims.stored.size).toBe(1);
  });

  test('that moves an object into the scope of the policy claims all its values', async () => {
    const gold = serial({
      match: {
        apiGroups: [GROUP],
        resources: ['servers'],
        objectSelector: { matchLabels: { tier: 'gold' } },
      },
    });
    const request = update('a', { serial: 'X' }, { serial: 'X' });
    const metadata = { name: 'a', labels: { tier: 'gold' } };
    await judge({ ...request, object: { ...request.object, metadata } }, [gold]);
    expect(holders()).toEqual(['a']);
  });

  test('that brings an object back into the scope of a match condition claims its values again', async () => {
    const matchConditions = [{ name: 'enabled', expression: 'object.spec.enabled == true' }];
    const enabled = serial({ match: { apiGroups: [GROUP], resources: ['servers'], matchConditions } });
    await judge(create('a', { serial: 'X', enabled: true }), [enabled]);
    store('a', { serial: 'X', enabled: false }); // the API server did not ask about this change
    expect(await kindOf(judge(create('b', { serial: 'X', enabled: true }), [enabled]))).toBe('allow');
    store('b', { serial: 'X', enabled: true });
    const back = update('a', { serial: 'X', enabled: false }, { serial: 'X', enabled: true });
    expect(await kindOf(judge(back, [enabled]))).toBe('deny');
    expect(holders()).toEqual(['b']);
  });

  test('of a subresource claims nothing', async () => {
    await judge({ ...update('a', {}, { serial: 'Y' }), subResource: 'status' });
    expect(claims.asked).toEqual([]);
  });
});

test('until the stores are synced, the client retries', async () => {
  rumoured = undefined;
  expect(await judge(create('b', { serial: 'X' }))).toMatchObject({ kind: 'retry' });
  expect(claims.stored.size).toBe(0);
});

test('a dry run gets the same decision as a real request and changes nothing', async () => {
  await judge(create('a', { serial: 'X' }));
  store('a', { serial: 'X' });
  expect(await kindOf(judge({ ...create('b', { serial: 'X' }), dryRun: true }))).toBe('deny');
  stored.clear();
  expect(await judge({ ...create('b', { serial: 'X' }), dryRun: true })).toMatchObject({ code: 429 });
  now += SETTLE_MS;
  expect(await kindOf(judge({ ...create('b', { serial: 'X' }), dryRun: true }))).toBe('allow');
  expect(holders()).toEqual(['a']);
});

describe('several values', () => {
  test('claim nothing if one of them is taken', async () => {
    await judge(create('a', { ips: ['2'] }), [ips]);
    store('a', { ips: ['2'] });
    const decision = await judge(create('b', { ips: ['1', '2', '3'] }), [ips]);
    expect(messageOf(decision)).toContain('spec.ips[1]: "2" is held by');
    expect(holders()).toEqual(['a']);
  });

  test('are released if a faster request takes one', async () => {
    await judge(create('c', { ips: ['2'] }), [ips]);
    const [theirs] = claims.stored.values();
    claims.stored.clear();
    claims.before('create', (name) => {
      if (theirs?.metadata.name === name) claims.stored.set(name, theirs); // after the first read
    });
    const decision = await judge(create('b', { ips: ['1', '2'] }), [ips]);
    expect(decision).toMatchObject({ kind: 'deny', code: 429 });
    expect(holders()).toEqual(['c']);
  });

  test('above the limit are refused before any is claimed', async () => {
    const many = Array.from({ length: 17 }, (_, n) => n);
    const decision = await judge(create('a', { ips: many }), [ips]);
    expect(decision).toMatchObject({
      kind: 'deny',
      causes: [{ field: 'spec.ips[*]', reason: 'FieldValueTooLong' }],
    });
    expect(messageOf(decision)).toContain('holds more than 16 values');
    expect(messageOf(decision)).toContain('or raise maxValues of the rule (at most 256)');
    expect(claims.asked).toEqual([]);
  });

  test('above the default need maxValues', async () => {
    const most = serial({}, { paths: ['spec.ips[*]'], maxValues: MAX_KEYS });
    const many = Array.from({ length: MAX_KEYS }, (_, n) => n);
    expect(await kindOf(judge(create('a', { ips: many }), [most]))).toBe('allow');
    expect(claims.stored.size).toBe(MAX_KEYS);
    const decision = await judge(create('b', { ips: [...many, 'x'] }), [most]);
    expect(messageOf(decision)).toContain('holds more than 256 values');
    expect(messageOf(decision)).not.toContain('raise maxValues');
  });

  test('of an object that is already above the limit may change, but not grow', async () => {
    const many = Array.from({ length: 20 }, (_, n) => n);
    expect(await kindOf(judge(update('a', { ips: many }, { ips: [...many.slice(1), 'x'] }), [ips]))).toBe(
      'allow',
    );
    expect(await kindOf(judge(update('a', { ips: many }, { ips: [...many, 'x'] }), [ips]))).toBe('deny');
  });

  describe('after the first 256, which are not claimed,', () => {
    const head = Array.from({ length: MAX_KEYS }, (_, n) => n);
    const change = (before: readonly JsonValue[], after: readonly JsonValue[]) =>
      judge(update('a', { ips: [...before] }, { ips: [...after] }), [ips]);

    test.each<[string, readonly JsonValue[]]>([
      ['stay', [...head, 'x', 'y']],
      ['change their order, and go', [...head, 'y']],
      ['repeat a value that is claimed', [...head, 'x', 0]],
    ])('may %s', async (_what, after) => {
      expect(await kindOf(change([...head, 'x', 'y'], after))).toBe('allow');
    });

    test.each<[string, readonly JsonValue[]]>([
      ['change', [...head, 'x', 'z']],
      ['come from the first ones, which would lose their claim', ['y', ...head.slice(1), 'x', 0]],
    ])('cannot %s', async (_what, after) => {
      const decision = await change([...head, 'x', 'y'], after);
      expect(decision).toMatchObject({ kind: 'deny', causes: [{ reason: 'FieldValueTooLong' }] });
      expect(messageOf(decision)).toContain('only the first 256 values are claimed');
      expect(claims.asked).toEqual([]);
    });
  });
});

describe('a user with too many unsettled claims', () => {
  const by = (username: string, request: AdmissionRequest): AdmissionRequest => ({
    ...request,
    userInfo: { ...request.userInfo, username },
  });
  const ask = (name: string, username = 'ada') =>
    judge(by(username, create(name, { ips: [1, 2, 3, 4].map((n) => `${name}-${n}`) })), [ips]);

  beforeEach(async () => {
    await ask('a');
    await ask('b');
    claims.asked.length = 0;
  });

  test('has to retry, without a call to the API server', async () => {
    const decision = await ask('c');
    expect(decision).toMatchObject(TRY_AGAIN);
    expect(messageOf(decision)).toBe(
      'too many unique values that "ada" claimed in namespace "store" belong to objects that are not stored: try again, and find out why those writes fail; the values are free 70 s after the last attempt (policy servers)',
    );
    expect(claims.asked).toEqual([]);
    expect(claims.stored.size).toBe(8);
  });

  test('may write again as soon as the objects are stored', async () => {
    const stored = [...claims.stored.values()].filter(({ spec }) => spec.holder.name === 'a');
    const ref = { group: GROUP, resource: 'servers', namespace: 'store', name: 'a' };
    claims.unsettled.settle(
      ref,
      stored.map(({ metadata }) => metadata.name ?? ''),
    );
    expect(await kindOf(ask('c'))).toBe('allow');
  });

  test('does not delay other users, other policies or dry runs', async () => {
    expect(await kindOf(ask('c', 'grace'))).toBe('allow');
    const request = by('ada', create('d', { ips: ['d'] }));
    expect(await kindOf(judge(request, [serial({}, { paths: ['spec.ips[*]'] }, 'others')]))).toBe('allow');
    expect(await kindOf(judge({ ...request, dryRun: true }, [ips]))).toBe('allow');
  });

  test('is only warned by a policy that warns, and nothing is claimed', async () => {
    const lenient = serial({ enforcement: 'Warn' }, { paths: ['spec.ips[*]'] });
    const request = by('ada', create('c', { ips: ['c-1', 'c-2'] }));
    const decision = await judge(request, [lenient]);
    expect(decision.kind === 'allow' && decision.warnings).toEqual([
      expect.stringContaining('too many unique values') as string,
    ]);
    expect(claims.asked).toEqual([]);
  });

  test('passes in a restore, and the sweep checks the values', async () => {
    restoring = 'yes';
    expect(await ask('c')).toMatchObject({
      kind: 'allow',
      auditAnnotations: { deferred: expect.stringContaining('servers/serial=') as string },
    });
    expect(claims.asked).toEqual([]);
  });
});

test('a creation of an object that is already stored counts no claims: no watch event would settle them', async () => {
  await judge(create('a', { serial: 'X' }));
  store('a', { serial: 'X' });
  const [claim = ''] = claims.stored.keys();
  claims.unsettled.settle({ group: GROUP, resource: 'servers', namespace: 'store', name: 'a' }, [claim]);
  rumoured = ['a'];
  expect(await kindOf(judge(create('a', { serial: 'X' })))).toBe('allow');
  expect(claims.unsettled.count()).toBe(0);
});

describe('claims that were not written', () => {
  test('do not count', async () => {
    await judge(create('a', { serial: 'X' }));
    store('a', { serial: 'X' });
    expect(claims.unsettled.count()).toBe(1);
    expect(await kindOf(judge(create('b', { serial: 'X' })))).toBe('deny');
    const ips = serial({}, { paths: ['spec.ips[*]'] }, 'ips');
    await judge(create('c', { ips: ['1'] }), [ips]);
    expect(await judge(create('d', { ips: ['0', '1'] }), [ips])).toMatchObject({ code: 429 });
    expect(claims.unsettled.count()).toBe(2);
  });

  test('count if the call failed: the API server may have created them', async () => {
    failAt('create');
    expect(await kindOf(judge(create('a', { serial: 'X' })))).toBe('retry');
    expect(claims.unsettled.count()).toBe(1);
  });
});

test('an object in a missing namespace is refused and claims nothing', async () => {
  claims.missingNamespaces.add('store');
  expect(await judge(create('a', { serial: 'X' }))).toMatchObject({
    kind: 'deny',
    code: 403,
    message: 'metadata.namespace: namespace "store" does not exist: create it first (policy servers)',
  });
  expect(claims.asked).toEqual([]);
  expect(claims.unsettled.count()).toBe(0);
});

test.each(['create', 'read', 'replace'] as const)(
  'if the API server does not %s a claim, the client retries',
  async (verb) => {
    await judge(create('a', { serial: 'X' }));
    failAt(verb);
    const decision = await judge(create('a', { serial: 'X' }));
    expect(decision).toMatchObject({ kind: 'retry', cause: { message: 'connection refused' } });
    expect(messageOf(decision)).toContain('could not find out whether "X" in spec.serial is free');
  },
);

describe('a policy that only warns or audits', () => {
  test.each(['Warn', 'Audit'] as const)(
    'with %s claims free values and allows everything',
    async (enforcement) => {
      const lenient = serial({ enforcement });
      expect(await kindOf(judge(create('a', { serial: 'X' }), [lenient]))).toBe('allow');
      store('a', { serial: 'X' });
      expect(await judge(create('b', { serial: 'X' }), [lenient])).toMatchObject(
        enforcement === 'Warn'
          ? { kind: 'allow', warnings: [expect.stringContaining('"X" is held by')] }
          : {
              kind: 'allow',
              auditAnnotations: { violations: expect.stringContaining('"X" is held by') as string },
            },
      );
      expect(holders()).toEqual(['a']);
    },
  );

  test('does not make clients wait for the API server', async () => {
    failAt('create');
    expect(await judge(create('a', { serial: 'X' }), [serial({ enforcement: 'Warn' })])).toMatchObject({
      kind: 'allow',
      warnings: [expect.stringContaining('could not find out')],
    });
  });
});

describe('during a restore', () => {
  beforeEach(async () => {
    await judge(create('a', { serial: 'X' }));
    store('a', { serial: 'X' });
  });

  test('a taken value is refused for other users, and where the policy enforces it', async () => {
    expect(await kindOf(judge(create('b', { serial: 'X' })))).toBe('deny');
    restoring = 'yes';
    expect(
      await kindOf(judge(create('b', { serial: 'X' }), [serial({ restore: { unique: 'Enforce' } })])),
    ).toBe('deny');
  });

  test('a value that is unique in the cluster is refused in a window of a user who may open windows only in namespaces', async () => {
    restoring = 'in namespaces';
    expect(await kindOf(judge(create('b', { serial: 'X' })))).toBe('deny');
    const local = serial({}, { scope: 'Namespace' }, 'local');
    await judge(create('a', { serial: 'X' }), [local]);
    expect(await kindOf(judge(create('b', { serial: 'X' }), [local]))).toBe('allow');
    expect(await kindOf(judge(create('b', { serial: 'X' }), [local, serial()]))).toBe('deny');
  });

  test('a deferred value does not hide one that another policy enforces', async () => {
    restoring = 'yes';
    const ips = serial({}, { paths: ['spec.ips[*]'] }, 'ips');
    const enforced = serial({ restore: { unique: 'Enforce' } });
    await judge(create('f', { ips: [1, 2, 3, 4, 5, 6, 7, 8] }), [ips]); // never stored
    const request = create('b', { ips: [9], serial: 'X' });
    expect(await kindOf(judge(request, [ips, enforced]))).toBe('deny');
    restoring = 'in namespaces';
    const local = serial({}, { paths: ['spec.ips[*]'], scope: 'Namespace' }, 'local');
    await judge(create('g', { ips: [1, 2, 3, 4, 5, 6, 7, 8] }), [local]);
    expect(await kindOf(judge(request, [local, serial()]))).toBe('deny');
    expect(holders()).not.toContain('b');
  });

  test('if the restore evidence is unknown, the client retries', async () => {
    restoring = 'unknown';
    expect(await kindOf(judge(create('b', { serial: 'X' })))).toBe('retry');
  });
});

test('an exception skips the rule: no comparison, no claim', async () => {
  const policy = serial({
    exceptions: [{ name: 'ada', reason: 'she knows', users: ['ada'], checks: ['serial'] }],
  });
  expect(await judge(create('a', { serial: 'X' }), [policy])).toMatchObject({
    kind: 'allow',
    auditAnnotations: { exceptions: 'servers/ada' },
  });
  expect(claims.asked).toEqual([]);
});
