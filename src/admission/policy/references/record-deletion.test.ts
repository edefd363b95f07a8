import { createHmac } from 'node:crypto';
import { beforeEach, expect, test } from 'vitest';

import { createClaimsInMemory, type ClaimsInMemory } from '../../../../test/support/admission/claims.ts';
import { deleteRequest, emptyWorld, GROUP, policyOf } from '../../../../test/support/admission/policy.ts';
import type { ReferenceRule } from '../../../api/policy-validate.ts';
import type { KubeObject, ObjectRef } from '../../../json/kube-object.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import { OutOfReachError, type RequestWorld } from '../world.ts';
import { checkTargetDeletion } from './check-target-deletion.ts';
import { readDeletionRecord } from './deletion-record.ts';

const NOW = Date.parse('2026-11-27T12:00:00Z');
const prove = (text: string) => createHmac('sha256', 'key').update(text).digest('base64url');

let claims: ClaimsInMemory;
let referrers: readonly ObjectRef[] | undefined;
let target: KubeObject | undefined;

beforeEach(() => {
  claims = createClaimsInMemory();
  referrers = [];
  target = { metadata: { name: 'fra1', uid: 'uid-of-fra1' } };
});

const refs = (count: number) =>
  Array.from({ length: count }, (_, n) => ({
    group: GROUP,
    resource: 'servers',
    namespace: 'shop',
    name: `s${n}`,
  }));

function remove(
  action: ReferenceRule['onTargetDelete'] = 'Cascade',
  change: Partial<AdmissionRequest> = {},
  others: Partial<RequestWorld> = {},
) {
  const reference = {
    name: 'datacenter',
    path: 'spec.datacenter',
    onTargetDelete: action,
    target: { apiGroup: GROUP, resource: 'datacenters' },
    ...(action === 'SetDefault' ? { defaultTarget: 'fra0' } : {}),
  };
  const request: AdmissionRequest = {
    ...deleteRequest({}),
    resource: { group: GROUP, version: 'v1', resource: 'datacenters' },
    name: 'fra1',
    namespace: undefined,
    oldObject: { metadata: { name: 'fra1', uid: 'forged' } },
    ...change,
  };
  const world: RequestWorld = {
    ...emptyWorld(),
    confirm: () => Promise.resolve(target),
    read: () => Promise.reject(new Error('unexpected call')),
    governed: { referrers: () => referrers, holders: () => [] },
    claims,
    prove,
    ...others,
  };
  return checkTargetDeletion(request, [policyOf({ validate: { references: [reference] } })], {
    world,
    signal: new AbortController().signal,
    now: NOW,
  });
}

test.each([
  [
    'Cascade',
    'Gatehouse will delete 12 servers.infra.example.com that refer to datacenters.infra.example.com "fra1"',
  ],
  ['SetNull', 'Gatehouse will remove the name from 12 servers.infra.example.com'],
  ['SetDefault', 'Gatehouse will write another name into 12 servers.infra.example.com'],
] as const)('%s: the answer counts the objects', async (action, warning) => {
  referrers = refs(12);
  const decision = await remove(action);
  expect(decision.kind === 'allow' && decision.warnings.join()).toContain(warning);
  expect(claims.stored.size).toBe(1);
});

test('the record is stored before the answer, even if the stores, which may be late, show no object', async () => {
  expect(await remove()).toMatchObject({ kind: 'allow', warnings: [] });
  const [claim] = [...claims.stored.values()];
  const creationTimestamp = new Date(NOW).toISOString();
  const made = claim && { ...claim, metadata: { ...claim.metadata, creationTimestamp } };
  expect(made && readDeletionRecord(made, prove)).toMatchObject({
    uid: 'uid-of-fra1',
    depth: 0,
    action: 'Cascade',
  });
});

test.each(['Allow', 'Restrict'] as const)('%s stores no record', async (action) => {
  expect((await remove(action)).kind).toBe('allow');
  expect(claims.asked).toEqual([]);
});

test('a dry run stores no record, and gets the same warning', async () => {
  referrers = refs(1);
  const decision = await remove('Cascade', { dryRun: true });
  expect(decision.kind === 'allow' && decision.warnings.join()).toContain(
    '1 servers.infra.example.com that refers to',
  );
  expect(claims.asked).toEqual([]);
});

test('a review about an object that does not exist stores no record', async () => {
  target = undefined;
  expect((await remove()).kind).toBe('allow');
  expect(claims.asked).toEqual([]);
});

test('more than 10,000 objects are too many', async () => {
  referrers = refs(10_001);
  expect(await remove()).toMatchObject({ kind: 'deny', code: 403 });
  expect(claims.stored.size).toBe(0);
});

test.each<[string, Partial<RequestWorld>]>([
  ['the governed objects are not listed', { governed: { referrers: () => undefined, holders: () => [] } }],
  ['the target cannot be read', { confirm: () => Promise.reject(new Error('no answer')) }],
  ['the key is not known', { prove: () => undefined }],
])('the deletion has to be tried again if %s', async (_when, others) => {
  expect((await remove('Cascade', {}, others)).kind).toBe('retry');
});

test('the deletion has to be tried again if the record cannot be stored', async () => {
  claims.before('create', () => {
    throw new Error('no answer');
  });
  expect((await remove()).kind).toBe('retry');
});

test('a target outside of --namespaces is nothing to act on', async () => {
  const confirm = () => Promise.reject(new OutOfReachError('Gatehouse does not read namespace x'));
  expect((await remove('Cascade', {}, { confirm })).kind).toBe('allow');
});

test('a second deletion renews the record; a forged one in its place is not trusted', async () => {
  await remove();
  const [claim] = [...claims.stored.values()];
  if (claim === undefined) throw new Error('no record');
  const { name = '' } = claim.metadata;
  const creationTimestamp = new Date(NOW).toISOString();
  claims.stored.set(name, { ...claim, metadata: { ...claim.metadata, creationTimestamp } });
  expect((await remove()).kind).toBe('allow');
  expect(claims.asked.filter((one) => one.startsWith('replace'))).toHaveLength(1);
  claims.stored.set(name, { ...claim, metadata: { ...claim.metadata, annotations: {} } });
  expect((await remove()).kind).toBe('retry');
});
