import { describe, expect, test } from 'vitest';
import type { KubeObject, ObjectMeta, OwnerReference } from '../json/kube-object.ts';
import { encodeOwnerRecord, OWNER_RECORD_ANNOTATION, parseOwnerRecord } from '../api/owner-record.ts';
import {
  linkPatch,
  lostOwners,
  NO_LIMITS,
  planLinks,
  disownPatch,
  OWNERS_MANAGER,
  type OwnerState,
} from './owner-links.ts';

const SERVERS = { group: 'infra.example.com', resource: 'servers' };
const rack: OwnerReference = { apiVersion: 'infra.example.com/v1', kind: 'Rack', name: 'r1', uid: 'old' };
const shelf: OwnerReference = { ...rack, kind: 'Shelf', name: 's1', uid: 'old-shelf' };
const other: OwnerReference = { ...rack, name: 'other', uid: 'other', controller: true };

function restored(refs: readonly OwnerReference[], metadata: ObjectMeta = {}, self = 'a'): KubeObject {
  const annotations = { [OWNER_RECORD_ANNOTATION]: encodeOwnerRecord({ self, refs }) ?? '' };
  return { metadata: { name: 'a', uid: 'child', resourceVersion: '7', annotations, ...metadata } };
}

const found = (uid = 'new', rest: Partial<Extract<OwnerState, { kind: 'found' }>> = {}): OwnerState => ({
  kind: 'found',
  uid,
  apiVersion: 'infra.example.com/v1',
  isTerminating: false,
  isDoubtful: false,
  ...rest,
});
const MISSING: OwnerState = { kind: 'missing' };
const plan = (
  object: KubeObject,
  state: OwnerState | ((ref: OwnerReference) => OwnerState),
  limits = NO_LIMITS,
) => planLinks(SERVERS, object, typeof state === 'function' ? state : () => state, limits);

test.each<[what: string, object: KubeObject, kinds: readonly string[]]>([
  ['are recorded and missing', restored([rack, shelf], { ownerReferences: [shelf] }), ['Rack']],
  ['are empty if all are present', restored([rack], { ownerReferences: [{ ...rack, uid: 'new' }] }), []],
  ['are empty without a record', { metadata: { name: 'a' } }, []],
  ['are empty in a copy', restored([rack], {}, 'b'), []],
  ['are empty in an invalid record', restored([], { annotations: { [OWNER_RECORD_ANNOTATION]: '{' } }), []],
])('the lost owners %s', (_what, object, kinds) => {
  expect(lostOwners(object).map(({ kind }) => kind)).toEqual(kinds);
});

describe('an owner', () => {
  test.each<[what: string, state: OwnerState, result: string]>([
    ['that exists is linked', found(), 'Linked'],
    ['that was never deleted is linked', found('old', { isDoubtful: true }), 'Linked'],
    ['that is missing is not linked', MISSING, 'OwnerMissing'],
    ['that is being deleted is not linked', found('new', { isTerminating: true }), 'OwnerTerminating'],
    ['that may be a different object is not linked', found('new', { isDoubtful: true }), 'OwnerAmbiguous'],
    ['that could not be read is not linked', { kind: 'unknown', message: 'no' }, 'Failed'],
  ])('%s', (_what, state, result) => {
    const made = plan(restored([rack]), state);
    expect(made.verdicts.map((verdict) => verdict.result)).toEqual([result]);
    expect(made.changes).toBe(result === 'Linked');
    expect(made.ownerReferences).toEqual(
      result === 'Linked' ? [{ ...rack, uid: state.kind === 'found' ? state.uid : '' }] : [],
    );
  });

  test('is linked with its flags, in the served version', () => {
    const ref = { ...rack, controller: true, blockOwnerDeletion: true };
    const made = plan(restored([ref]), found('new', { apiVersion: 'infra.example.com/v2' }));
    expect(made.ownerReferences).toEqual([{ ...ref, uid: 'new', apiVersion: 'infra.example.com/v2' }]);
    expect(parseOwnerRecord(made.record)?.refs).toEqual(made.ownerReferences);
  });

  test('is never linked if it is the CronJob of a Job', () => {
    const job = { ...rack, apiVersion: 'batch/v1', kind: 'CronJob' };
    const made = planLinks({ group: 'batch', resource: 'jobs' }, restored([job]), () => found());
    expect(made).toMatchObject({ changes: false, verdicts: [{ result: 'NotAllowed' }] });
  });

  test('does not replace another controller and is dropped from the record; other owners are linked', () => {
    const object = restored([{ ...rack, controller: true }, shelf], { ownerReferences: [other] });
    const made = plan(object, ({ kind }) => found(`new-${kind}`));
    expect(made.verdicts.map(({ result }) => result)).toEqual(['AlreadyControlled', 'Linked']);
    expect(made.ownerReferences.map(({ uid }) => uid)).toEqual(['other', 'new-Shelf']);
    expect(made.record).not.toContain('r1');
  });

  test('that cannot be linked yet remains in the record', () => {
    const made = plan(restored([rack, shelf]), ({ kind }) => (kind === 'Rack' ? found() : MISSING));
    expect(parseOwnerRecord(made.record)?.refs).toEqual([{ ...rack, uid: 'new' }, shelf]);
  });

  test('is linked once, even if it was recorded several times', () => {
    const made = plan(restored([rack, { ...rack, uid: 'older' }]), found());
    expect(made.ownerReferences).toHaveLength(1);
  });

  test('is linked without blockOwnerDeletion if the API server forbids it', () => {
    const object = restored([{ ...rack, blockOwnerDeletion: true }, shelf]);
    const made = plan(object, found(), { ...NO_LIMITS, mayBlock: false });
    expect(made.ownerReferences).toMatchObject([{ blockOwnerDeletion: false }]);
  });

  test('that was replaced during the link is removed, or replaced in the same write', () => {
    const limits = { ...NO_LIMITS, stale: new Set(['wrong']) };
    const object = restored([{ ...rack, uid: 'wrong' }], { ownerReferences: [{ ...rack, uid: 'wrong' }] });
    const back = plan(object, MISSING, limits);
    const verdicts = [{ result: 'OwnerMissing' }];
    expect(back).toMatchObject({ changes: true, ownerReferences: [], verdicts });
    expect(parseOwnerRecord(back.record)?.refs).toHaveLength(1);
    expect(plan(object, found('right'), limits).ownerReferences).toMatchObject([{ uid: 'right' }]);
  });
});

describe('the patch', () => {
  const guards = [
    { op: 'test', path: '/metadata/uid', value: 'child' },
    { op: 'test', path: '/metadata/resourceVersion', value: '7' },
  ];
  const annotation = '/metadata/annotations/gatehouse.dev~1owner-references';

  test('fails if the object has changed', () => {
    const object = restored([rack]);
    const made = plan(object, found());
    expect(linkPatch(object, made)).toEqual([
      ...guards,
      { op: 'add', path: '/metadata/ownerReferences', value: [{ ...rack, uid: 'new' }] },
      { op: 'add', path: annotation, value: made.record },
    ]);
  });

  test('removes fields only if they exist', () => {
    const nothing = { ownerReferences: [], record: undefined };
    expect(linkPatch(restored([rack], { ownerReferences: [rack] }), nothing)).toEqual([
      ...guards,
      { op: 'remove', path: '/metadata/ownerReferences' },
      { op: 'remove', path: annotation },
    ]);
    expect(linkPatch({ metadata: { uid: 'child', resourceVersion: '7' } }, nothing)).toEqual(guards);
  });
});

const owned = (...uids: readonly string[]) =>
  Object.fromEntries(uids.map((uid) => [`k:{"uid":"${uid}"}`, {}]));

const entry = (
  manager: string,
  owners: object | undefined,
  more: object = { 'f:spec': { 'f:tier': {} } },
) => ({
  manager,
  operation: 'Update',
  time: '2026-11-21T12:00:00Z',
  fieldsType: 'FieldsV1',
  fieldsV1: { ...(owners && { 'f:metadata': { 'f:ownerReferences': { '.': {}, ...owners } } }), ...more },
});

const object = (managedFields: readonly object[], uids = ['new']): KubeObject => ({
  metadata: {
    name: 'a',
    uid: 'child',
    resourceVersion: '7',
    ownerReferences: uids.map((uid) => ({ apiVersion: 'v1', kind: 'Rack', name: 'r1', uid })),
    ...{ managedFields },
  },
});

const cleaned = (managedFields: readonly object[], uids?: string[]) =>
  disownPatch(object(managedFields, uids))?.find(({ path }) => path === '/metadata/managedFields');

test('removes owners that the object does not have, guarded by uid and resourceVersion', () => {
  expect(disownPatch(object([entry('controller', owned('old', 'new'))]))).toEqual([
    { op: 'test', path: '/metadata/uid', value: 'child' },
    { op: 'test', path: '/metadata/resourceVersion', value: '7' },
    { op: 'add', path: '/metadata/managedFields', value: [entry('controller', owned('new'))] },
  ]);
});

test('Gatehouse does not stay a manager of owners, and an entry without fields is removed', () => {
  const others = entry('controller', owned('new'));
  expect(cleaned([others, entry(OWNERS_MANAGER, owned('new'), {})])).toMatchObject({ value: [others] });
  expect(cleaned([others, entry('velero-server', owned('old'), {})])).toMatchObject({ value: [others] });
  expect(cleaned([entry(OWNERS_MANAGER, owned('new'))])).toMatchObject({
    value: [entry(OWNERS_MANAGER, undefined)],
  });
});

test('changes nothing without a stale owner, without owners, and never writes an empty list', () => {
  expect(disownPatch(object([entry('controller', owned('new')), entry('other', undefined)]))).toBeUndefined();
  expect(disownPatch(object([entry('controller', owned('old'))], []))).toBeUndefined();
  expect(disownPatch(object([entry('controller', owned('old'), {})]))).toBeUndefined();
  expect(disownPatch({ metadata: { name: 'a' } })).toBeUndefined();
});

test.each([
  ['f:ownerReferences', { 'f:metadata': { 'f:ownerReferences': 'x' } }],
  ['an element', { 'f:metadata': { 'f:ownerReferences': { 'k:{': {}, 'v:"old"': {} } } }],
  ['fieldsV1', 'x'],
])('leaves malformed %s alone', (_what, fieldsV1) => {
  expect(disownPatch(object([{ manager: 'odd', fieldsV1 }]))).toBeUndefined();
});
