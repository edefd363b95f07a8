/** The record of an object's owners, by operation and user. */
import { describe, expect, test } from 'vitest';

import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import { encodeOwnerRecord, OWNER_RECORD_ANNOTATION } from '../../../api/owner-record.ts';
import { applyPatch } from '../../../json/json-patch.ts';
import { isJsonObject, ownValue, type JsonObject } from '../../../json/json.ts';
import { mutate } from '../mutate.ts';
import { changesOnlyOwners } from './owners.ts';
import {
  clusterOf,
  compileSpec,
  createRequest,
  NIGHTLY,
  policyOf,
  restoringIn,
  updateRequest,
} from '../../../../test/support/admission/policy.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import type { LiveOwner, RestoreEvidence, RequestWorld } from '../world.ts';

const rack = { apiVersion: 'infra.example.com/v1', kind: 'Rack', name: 'r1', uid: 'old' };
const shelf = { apiVersion: 'infra.example.com/v1', kind: 'Shelf', name: 's1', uid: 'old-shelf' };
const text = (refs: readonly (typeof rack)[], self = 'a') => encodeOwnerRecord({ self, refs }) ?? '';
const noted = (value: string) => ({ annotations: { [OWNER_RECORD_ANNOTATION]: value } });
const owned = (...refs: readonly (typeof rack)[]) => ({ ownerReferences: refs });
const RACK = text([rack]);

const live = (uid: string, rest: Partial<LiveOwner> = {}): LiveOwner => ({
  uid,
  apiVersion: 'infra.example.com/v2',
  creationTimestamp: '2026-11-21T12:00:00Z',
  deletionTimestamp: undefined,
  labels: undefined,
  ...rest,
});

interface Scene {
  /** Whether the requester restores; a string: the lookup fails with this message. */
  readonly restores?: boolean | string | RestoreEvidence;
  /** By the name of the owner; a string: the read fails with this message. */
  readonly owners?: Readonly<Record<string, LiveOwner | string>>;
  readonly spec?: Partial<AdmissionPolicySpec>;
}

async function written(request: AdmissionRequest, { restores = false, owners = {}, spec = {} }: Scene = {}) {
  const asked: string[] = [];
  const { world, signal } = clusterOf();
  const restoreEvidence: RequestWorld['restoreEvidence'] = () => {
    asked.push('restore');
    if (typeof restores === 'string') return Promise.reject(new Error(restores));
    if (typeof restores === 'object') return Promise.resolve(restores);
    return Promise.resolve(restores ? NIGHTLY : undefined);
  };
  const read = ({ name }: { readonly name: string }, namespace: string | undefined) => {
    asked.push(`${namespace ?? ''}/${name}`);
    const answer = owners[name];
    return typeof answer === 'string' ? Promise.reject(new Error(answer)) : Promise.resolve(answer);
  };
  const isOurs = (username: string) => username === 'gatehouse';
  const decision = await mutate(request, [policyOf({ owners: { preserve: true }, ...spec })], {
    world: { ...world, restoreEvidence, owners: { read, isOurs } },
    signal,
  });
  if (decision.kind !== 'allow') throw new Error(decision.kind);
  const object = applyPatch(request.object ?? {}, decision.patch);
  const metadata = ownValue(object, 'metadata');
  const annotations = isJsonObject(metadata) ? ownValue(metadata, 'annotations') : undefined;
  return {
    record: isJsonObject(annotations) ? ownValue(annotations, OWNER_RECORD_ANNOTATION) : undefined,
    owners: isJsonObject(metadata) ? ownValue(metadata, 'ownerReferences') : undefined,
    warnings: decision.warnings,
    patch: decision.patch,
    object,
    asked,
  };
}

const create = (metadata: JsonObject) => createRequest({}, metadata);
/** @param before the metadata of the old object */
const update = (before: JsonObject, after: JsonObject): AdmissionRequest => ({
  ...updateRequest({}, {}, after),
  oldObject: createRequest({}, before).object,
});

describe('on UPDATE', () => {
  test.each<[what: string, before: JsonObject, after: JsonObject, record: string | undefined]>([
    ['owners are recorded', {}, owned(rack), RACK],
    [
      'the record follows the current owners',
      { ...owned(rack), ...noted(RACK) },
      owned(shelf),
      text([shelf]),
    ],
    ['a user cannot forge the record', owned(rack), { ...owned(rack), ...noted('x') }, RACK],
    ['removing all owners removes the record', { ...owned(rack), ...noted(RACK) }, noted(RACK), undefined],
    ['a user cannot forge pending owners', noted(RACK), noted(text([shelf])), RACK],
    ['an unreadable record stays unchanged', noted('{"v":2}'), {}, '{"v":2}'],
    [
      'a linked owner is recorded together with a pending one',
      noted(text([rack, shelf])),
      owned({ ...shelf, uid: 'new' }),
      text([{ ...shelf, uid: 'new' }, rack]),
    ],
    [
      'a removed owner does not become pending',
      { ...owned(rack, shelf), ...noted(text([rack, shelf])) },
      owned(rack),
      RACK,
    ],
  ])('%s', async (_what, before, after, record) => {
    expect((await written(update(before, after))).record).toBe(record);
  });

  test('a user who changes the record gets a warning', async () => {
    expect((await written(update(noted(RACK), noted('x')))).warnings).toEqual([
      expect.stringContaining('was not changed, because only Gatehouse writes it'),
    ]);
  });

  test.each([
    ['dropped, because any user can have written it', {}, undefined],
    ['kept if the policy selected the object before', { own: 'yes' }, RACK],
  ])('the record of an object that the policy now selects is %s', async (_what, labels, record) => {
    const request = update({ ...noted(RACK), labels }, { ...noted(RACK), labels: { own: 'yes' } });
    const match = { ...policyOf({}).spec.match, objectSelector: { matchLabels: { own: 'yes' } } };
    expect((await written(request, { spec: { match } })).record).toBe(record);
  });

  test('records that Gatehouse writes are accepted unchanged', async () => {
    const request = update(noted(RACK), { ...owned(rack), ...noted(text([rack, shelf])) });
    const ours = { ...request, userInfo: { ...request.userInfo, username: 'gatehouse' } };
    expect((await written(ours)).patch).toEqual([]);
  });

  test('a subresource gives no record: the API server ignores its metadata', async () => {
    expect((await written({ ...update({}, owned(rack)), subResource: 'status' })).patch).toEqual([]);
  });
});

describe('on CREATE', () => {
  test.each([
    ['of another object', text([rack], 'b')],
    ['that is invalid', 'x'],
  ])(
    'a record %s is dropped even from a restorer, without a read of the API server',
    async (_what, value) => {
      expect(await written(create(noted(value)), { restores: true })).toMatchObject({
        record: undefined,
        asked: [],
      });
    },
  );

  test('a restorer gets the current owner, in a served version', async () => {
    const request = create(noted(text([{ ...rack, ...{ controller: true, blockOwnerDeletion: true } }])));
    const linked = {
      apiVersion: 'infra.example.com/v2',
      kind: 'Rack',
      name: 'r1',
      uid: 'new',
      controller: true,
      blockOwnerDeletion: true,
    };
    expect(await written(request, { restores: true, owners: { r1: live('new') } })).toMatchObject({
      owners: [linked],
      record: text([linked]),
      asked: ['restore', 'store/r1'],
      warnings: [],
    });
  });

  test.each<[what: string, scene: Scene]>([
    ['is missing', {}],
    ['is being deleted', { owners: { r1: live('new', { deletionTimestamp: '2026-11-21T12:00:01Z' }) } }],
    ['cannot be read', { owners: { r1: 'connection refused' } }],
  ])('an owner that %s is left to the sweep', async (_what, scene) => {
    expect(await written(create(noted(RACK)), { restores: true, ...scene })).toMatchObject({
      patch: [],
      owners: undefined,
      record: RACK,
      warnings: [],
    });
  });

  test('a window that waits for an approval keeps the record, also next to a window that does not', async () => {
    const careful = { window: 'careful', links: false };
    for (const windows of [[careful], [{}, careful], [careful, {}]])
      expect(
        await written(create(noted(RACK)), {
          restores: restoringIn(...windows),
          owners: { r1: live('new') },
        }),
      ).toMatchObject({ patch: [], owners: undefined, record: RACK, asked: ['restore'] });
    const updates = { ...careful, operations: ['UPDATE'] } as const;
    expect(
      await written(create(noted(RACK)), { restores: restoringIn({}, updates), owners: { r1: live('new') } }),
    ).toMatchObject({ owners: [{ uid: 'new' }] });
  });

  test('two records of one owner give one reference, and two controllers are left to the sweep', async () => {
    const twice = create(noted(text([rack, { ...rack, uid: 'older' }])));
    const owners = { r1: live('new'), s1: live('new-shelf') };
    expect((await written(twice, { restores: true, owners })).owners).toHaveLength(1);
    const both = create(noted(text([rack, shelf].map((ref) => ({ ...ref, controller: true })))));
    expect((await written(both, { restores: true, owners })).patch).toEqual([]);
  });

  test('if the restore evidence is unknown, the record stays pending and no owner is linked', async () => {
    const scene = { restores: 'connection refused', owners: { r1: live('new') } };
    expect(await written(create(noted(RACK)), scene)).toMatchObject({ patch: [], record: RACK });
  });
});

test('a record that would exceed the size limit of annotations is omitted with a warning', async () => {
  const huge = { annotations: { notes: 'x'.repeat(256 * 1024 - 100) } };
  const { record, warnings } = await written(create({ ...owned(rack), ...huge }));
  expect([record, warnings]).toEqual([
    undefined,
    [expect.stringContaining('the annotations are too large for a record of the owners (1)')],
  ]);
});

test('owners are recorded after defaults and mutations', async () => {
  const spec = {
    defaults: [{ path: 'spec.tier', value: 'gold' }],
    mutations: [{ name: 'own', expression: `{"metadata": {"ownerReferences": [${JSON.stringify(rack)}]}}` }],
  };
  const { object, record } = await written(create({}), { spec });
  expect(object).toMatchObject({ spec: { tier: 'gold' } });
  expect(record).toBe(RACK);
});

test('a second call, from another entry or a reinvocation, changes nothing', async () => {
  const scene = { restores: true, owners: { r1: live('new') } };
  const first = await written(create(noted(RACK)), scene);
  const again = await written({ ...create({}), object: first.object }, scene);
  expect(again.patch).toEqual([]);
});

test.each<[string, JsonObject, JsonObject, boolean]>([
  ['owners and the record', {}, { ownerReferences: [], annotations: {} }, true],
  ['managedFields', {}, { managedFields: [], resourceVersion: '2', generation: 2 }, true],
  ['a label', {}, { labels: { tier: 'a' } }, false],
  ['another annotation', {}, { annotations: { other: 'a' } }, false],
  ['a finalizer', { finalizers: ['a'] }, { finalizers: [] }, false],
  ['owners of an object without a record', { annotations: {} }, { ownerReferences: [] }, false],
])('whether an update changes only owners: %s', (_what, before, after, expected) => {
  const recorded = { name: 'a', annotations: { [OWNER_RECORD_ANNOTATION]: '{}' } };
  const request = updateRequest({}, {});
  const [oldObject, object] = [before, after].map((change) => ({ metadata: { ...recorded, ...change } }));
  const write = { ...request, oldObject, object };
  expect(changesOnlyOwners(write)).toBe(expected);
  expect(changesOnlyOwners({ ...write, subResource: 'status' })).toBe(false);
  expect(changesOnlyOwners({ ...write, object: { ...object, spec: {} } })).toBe(false);
});

test('objects that only lose their finalizers, and kinds with adopting controllers, are left unchanged', async () => {
  const leaving = update(
    { ...owned(rack), finalizers: ['example.com/hold'], deletionTimestamp: '2026-11-21T12:00:00Z' },
    owned(rack),
  );
  expect((await written(leaving)).patch).toEqual([]);
  const pod = { ...create(owned(rack)), resource: { group: '', version: 'v1', resource: 'pods' } };
  expect((await written(pod)).patch).toEqual([]);
});

describe('a policy that preserves owners', () => {
  const problemsOf = (spec: Partial<AdmissionPolicySpec>) => {
    const result = compileSpec({ owners: { preserve: true }, ...spec });
    return result.kind === 'rejected' ? result.problems.map(({ where }) => where) : [];
  };

  test('is rejected for kinds with adopting controllers', () => {
    expect(problemsOf({ match: { apiGroups: ['apps'], resources: ['replicasets'] } })).toEqual([
      'spec.match.resources',
    ]);
    expect(problemsOf({ match: { apiGroups: ['apps'], resources: ['deployments'] } })).toEqual([]);
  });

  test('needs both CREATE and UPDATE', () => {
    const match = { apiGroups: ['infra.example.com'], resources: ['servers'] };
    expect(problemsOf({ match: { ...match, operations: ['CREATE'] } })).toEqual(['spec.match.operations']);
  });
});
