import { beforeEach, describe, expect, test } from 'vitest';

import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { toAdmissionRequest } from '../../admission/review/request.ts';
import { compiled, GROUP } from '../../../test/support/runtime/fixtures.ts';
import { createPolicyRegistry, type PolicyRegistry } from './policy-registry.ts';

let now: number;
let registry: PolicyRegistry;
beforeEach(() => {
  now = 0;
  registry = createPolicyRegistry(() => now);
});

const request = toAdmissionRequest({
  uid: 'u',
  kind: { group: GROUP, version: 'v1', kind: 'Server' },
  resource: { group: GROUP, version: 'v1', resource: 'servers' },
  name: 's1',
  namespace: 'shop',
  operation: 'CREATE',
  userInfo: { username: 'alice' },
  object: {},
});

const inForce = (policy: CompiledPolicy | undefined) => ({
  inForce: policy,
  problem: undefined,
  generation: policy?.generation ?? 1,
});
const selected = (entry: string) => {
  const selection = registry.policySet().select(entry, request);
  return selection.kind === 'governed' ? selection.policies : selection.kind;
};

const first = compiled();
const second = compiled({ enforcement: 'Warn' }, { name: 'servers', generation: 2 });
const moved = compiled({ timeoutSeconds: 10 }, { name: 'servers', generation: 2 });

test('what is set is in force, and answers requests by its entry', () => {
  expect(selected(first.entryId)).toBe('unknown-entry');
  registry.set('servers', inForce(first));
  expect(registry.inForce()).toEqual([first]);
  expect(selected(first.entryId)).toEqual([first]);
});

test('a policy that has never been usable is known, and not in force', () => {
  registry.set('servers', { ...inForce(undefined), problem: { reason: 'InvalidPath', message: 'x' } });
  expect(registry.get('servers')?.problem?.reason).toBe('InvalidPath');
  expect(registry.inForce()).toEqual([]);
});

test('a new version takes the place of the one before', () => {
  registry.set('servers', inForce(first));
  registry.set('servers', inForce(second));
  expect(selected(first.entryId)).toEqual([second]);
});

test('every change is told, and the removal of what is unknown is none', () => {
  const told: string[] = [];
  registry.subscribe((name) => told.push(name));
  registry.set('servers', inForce(first));
  registry.remove('servers');
  registry.remove('servers');
  expect(told).toEqual(['servers', 'servers']);
});

describe('a policy that was removed', () => {
  beforeEach(() => {
    registry.set('servers', inForce(first));
    registry.remove('servers');
  });

  test('governs nothing any more', () => {
    expect(selected(first.entryId)).toBe('unknown-entry');
    expect(registry.inForce()).toEqual([]);
  });

  test('is known as retired for a minute, in which the API server may still ask', () => {
    expect(registry.wasRetired(first.entryId, request)).toBe(true);
    now = 59_999;
    expect(registry.wasRetired(first.entryId, request)).toBe(true);
    now = 60_000;
    expect(registry.wasRetired(first.entryId, request)).toBe(false);
  });

  test('is not known as retired for what it never governed', () => {
    const other = { ...request, resource: { ...request.resource, resource: 'disks' } };
    expect(registry.wasRetired(first.entryId, other)).toBe(false);
    expect(registry.wasRetired('fail-5s-0000000000', request)).toBe(false);
  });
});

describe('while the API server still asks by the scope of before', () => {
  beforeEach(() => {
    registry.set('servers', inForce(first));
    registry.set('servers', inForce(moved));
  });

  test('the version of that scope is enforced, so that a change leaves no gap', () => {
    expect(moved.entryId).not.toBe(first.entryId);
    expect(selected(first.entryId)).toEqual([first]);
    expect(selected(moved.entryId)).toEqual([moved]);
  });

  test('the newest version of that scope counts', () => {
    registry.set('servers', inForce(second));
    registry.set('servers', inForce(moved));
    expect(selected(first.entryId)).toEqual([second]);
  });

  test('it is not among what is in force, nor left once the policy is gone or the minute is over', () => {
    expect(registry.inForce()).toEqual([moved]);
    now = 60_000;
    expect(selected(first.entryId)).toBe('unknown-entry');
    now = 0;
    registry.remove('servers');
    expect(selected(first.entryId)).toBe('unknown-entry');
  });

  test('other policies of that scope decide alone about what they govern', () => {
    const other = compiled({}, { name: 'more', generation: 1 });
    registry.set('more', inForce(other));
    expect(selected(first.entryId)).toEqual([other]);
  });
});
