import { beforeEach, expect, test } from 'vitest';

import { createCluster, NEVER } from '../../../test/support/runtime/fixtures.ts';
import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import { secrets } from '../../kube/well-known.ts';
import type { Secret } from '../../pki/serving-certs/secret.ts';
import { ADMISSION_POLICIES } from '../resources.ts';
import { createReadRecords, createReadRecordsReconciler, READS_SECRET } from './read-records.ts';

const NAMESPACE = 'gatehouse-system';
const KEY = `${NAMESPACE}/${READS_SECRET}`;
const match = { apiGroups: ['infra.example.com'], resources: ['servers'] };
const reading = (resource: string) => ({ match, params: { apiGroup: '', resource, name: 'a' } });
const maps = reading('configmaps');

const { client, objects, reset } = createCluster();
const stored = objects<Secret>(secrets);
let installed: boolean;
let now: number;

beforeEach(() => {
  reset();
  installed = false;
  now = 1_000_000;
});

const records = () => createReadRecords(() => stored.read(KEY)?.data);
const clock = () => new Date(now);
const reconciler = () => createReadRecordsReconciler(client, NAMESPACE, () => installed, clock);

/** The key exists, and the policies so far are listed. */
async function begin(): Promise<void> {
  const reconcile = reconciler();
  await reconcile('', NEVER);
  installed = true;
  await reconcile('', NEVER);
  now += 5_000;
  await reconcile('', NEVER);
}

test('the record of a policy is valid for its name and for what it reads and discloses only', async () => {
  await begin();
  const { recordOf, verdict } = records();
  const record = recordOf('a', maps);
  expect(verdict('a', maps, record)).toBe('reviewed');
  expect(verdict('a', { ...maps, enforcement: 'Warn' }, record)).toBe('reviewed');
  expect(verdict('b', maps, record)).toBe('unreviewed');
  expect(verdict('a', { ...maps, mutations: [] }, record)).toBe('unreviewed');
  expect(verdict('a', reading('secrets'), record)).toBe('unreviewed');
  expect(verdict('a', maps, undefined)).toBe('unreviewed');
  expect(verdict('a', { match }, undefined)).toBe('reviewed'); // it reads nothing
  stored.remove(KEY);
  now = 1_000_000;
  await begin();
  expect(records().verdict('a', maps, record)).toBe('unreviewed'); // another key
});

test('the list is written once, after the API server has had time to learn of the webhook', async () => {
  const reconcile = reconciler();
  await reconcile('', NEVER);
  expect(await reconcile('', NEVER)).toEqual({ kind: 'await-change' });
  installed = true;
  expect(await reconcile('', NEVER)).toEqual({ kind: 'requeue', at: new Date(now + 5_000) });
  expect(stored.read(KEY)?.data).not.toHaveProperty('earlier');
  now += 5_000;
  await reconcile('', NEVER);
  const { data } = stored.read(KEY) ?? {};
  expect(data).toHaveProperty('earlier');

  objects<AdmissionPolicy>(ADMISSION_POLICIES).add({ metadata: { name: 'late' }, spec: maps });
  await reconcile('', NEVER);
  await reconciler()('', NEVER);
  expect(stored.read(KEY)?.data).toEqual(data);
});
