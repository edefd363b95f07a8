import { expect, onTestFinished, test } from 'vitest';

import { ofJson, toJson } from '../../machinery/api-object.ts';
import { createStorage } from '../../machinery/storage/storage.ts';
import { startRoleAggregation } from './role-aggregation.ts';
import { settled } from '../../../../test/support/sandbox/test-storage.ts';

const PLACE = { group: 'rbac.authorization.k8s.io', resource: 'clusterroles' };
const rule = (...resources: readonly string[]) => ({ apiGroups: [''], resources, verbs: ['get'] });
const clusterRole = (name: string, labels: Record<string, string>, rest: object) =>
  ofJson({
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRole',
    metadata: { name, labels },
    ...rest,
  });
const VIEW = { 'rbac.authorization.k8s.io/aggregate-to-view': 'true' };
const EDIT = { 'rbac.authorization.k8s.io/aggregate-to-edit': 'true' };
const aggregating = (matchLabels: Record<string, string>) => ({
  aggregationRule: { clusterRoleSelectors: [{ matchLabels }] },
  rules: [],
});

function start() {
  const storage = createStorage();
  let writes = 0;
  const run = () => {
    const stop = startRoleAggregation(
      storage,
      (place, object) => {
        writes += 1;
        storage.replace(place, object, object.metadata.resourceVersion ?? '');
      },
      (error) => {
        throw error;
      },
    );
    onTestFinished(stop);
    return stop;
  };
  const rulesOf = (name: string) => {
    const role = storage.get(PLACE, { namespace: '', name });
    return role === undefined ? undefined : toJson(role).rules;
  };
  return { storage, run, rulesOf, writes: () => writes };
}

test('an aggregated role has the rules of all selected roles without duplicates, by role name', async () => {
  const { storage, run, rulesOf } = start();
  run();
  storage.create(PLACE, clusterRole('view', {}, aggregating(VIEW)));
  storage.create(PLACE, clusterRole('z', VIEW, { rules: [rule('secrets')] }));
  storage.create(PLACE, clusterRole('a', VIEW, { rules: [rule('pods'), rule('secrets')] }));
  storage.create(PLACE, clusterRole('other', {}, { rules: [rule('nodes')] }));
  await settled();
  expect(rulesOf('view')).toEqual([rule('pods'), rule('secrets')]);
});

test('roles that exist at the start are aggregated', async () => {
  const { storage, run, rulesOf } = start();
  storage.create(PLACE, clusterRole('view', {}, aggregating(VIEW)));
  storage.create(PLACE, clusterRole('a', VIEW, { rules: [rule('pods')] }));
  run();
  await settled();
  expect(rulesOf('view')).toEqual([rule('pods')]);
});

test('an aggregated role may be selected by another aggregated role', async () => {
  const { storage, run, rulesOf } = start();
  run();
  storage.create(PLACE, clusterRole('edit', {}, aggregating(EDIT)));
  storage.create(PLACE, clusterRole('view', EDIT, aggregating(VIEW)));
  storage.create(PLACE, clusterRole('a', VIEW, { rules: [rule('pods')] }));
  await settled();
  expect(rulesOf('edit')).toEqual([rule('pods')]);
});

test('rules are removed with the role that had them', async () => {
  const { storage, run, rulesOf } = start();
  run();
  storage.create(PLACE, clusterRole('view', {}, aggregating(VIEW)));
  const source = storage.create(PLACE, clusterRole('a', VIEW, { rules: [rule('pods')] }));
  await settled();
  storage.remove(PLACE, { namespace: '', name: 'a' }, source.metadata.resourceVersion ?? '');
  await settled();
  expect(rulesOf('view')).toEqual([]);
});

test('rules that a user wrote into an aggregated role are overwritten', async () => {
  const { storage, run, rulesOf } = start();
  run();
  storage.create(PLACE, clusterRole('view', {}, { ...aggregating(VIEW), rules: [rule('nodes')] }));
  await settled();
  expect(rulesOf('view')).toEqual([]);
});

test('a role with the right rules is not written again', async () => {
  const { storage, run, writes } = start();
  run();
  storage.create(PLACE, clusterRole('view', {}, aggregating(VIEW)));
  storage.create(PLACE, clusterRole('a', VIEW, { rules: [rule('pods')] }));
  await settled();
  const before = writes();
  storage.create(PLACE, clusterRole('other', {}, { rules: [rule('nodes')] }));
  await settled();
  expect(before).toBe(1);
  expect(writes()).toBe(1);
});
