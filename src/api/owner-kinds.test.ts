import { expect, test } from 'vitest';

import { mayRecordOwners, mayRelinkOwner } from './owner-kinds.ts';

test.each([
  ['', 'pods', false],
  ['apps', 'replicasets', false],
  ['apps', 'controllerrevisions', false],
  ['discovery.k8s.io', 'endpointslices', false],
  ['coordination.k8s.io', 'leases', false],
  ['', 'events', false],
  ['events.k8s.io', 'events', false],
  ['', 'secrets', true],
  ['apps', 'deployments', true],
  ['infra.example.com', 'pods', true],
])('in group "%s", the owners of %s are linked again: %s', (group, resource, expected) => {
  expect(mayRecordOwners({ group, resource })).toBe(expected);
});

test('a Job is linked to its owner again unless that is a CronJob', () => {
  const [jobs, cronJob] = [
    { group: 'batch', resource: 'jobs' },
    { apiVersion: 'batch/v1', kind: 'CronJob' },
  ];
  expect(mayRelinkOwner(jobs, cronJob)).toBe(false);
  expect(mayRelinkOwner(jobs, { ...cronJob, apiVersion: 'example.com/v1' })).toBe(true);
  expect(mayRelinkOwner({ group: '', resource: 'secrets' }, cronJob)).toBe(true);
  expect(mayRelinkOwner({ group: '', resource: 'pods' }, { ...cronJob, kind: 'Job' })).toBe(false);
});
