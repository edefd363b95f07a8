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

test('a policy in force answers requests of its entry', () => {
  expect(selected(first.entryId)).toBe('unknown-entry');
  registry.set('servers', inForce(first));
  expect(registry.inForce()).toEqual([first]);
  expect(selected(first.entryId)).toEqual([first]);
});

test('a policy that was never valid is known but not in force', () => {
  registry.set('servers', { ...inForce(undefined), problem: { reason: 'InvalidPath', message: 'x' } });
  expect(registry.get('servers')?.problem?.reason).toBe('InvalidPath');
  expect(registry.inForce()).toEqual([]);
});

test('a new version replaces the previous one', () => {
  registry.set('servers', inForce(first));
  registry.set('servers', inForce(second));
  expect(selected(first.entryId)).toEqual([second]);
});

test('every change notifies the subscribers, except the removal of an unknown policy', () => {
  const told: string[] = [];
  registry.subscribe((name) => told.push(name));
  registry.set('servers', inForce(first));
  registry.remove('servers');
  registry.remove('servers');
  expect(told).toEqual(['servers', 'servers']);
});

describe('a removed policy', () => {
  beforeEach(() => {
    registry.set('servers', inForce(first));
    registry.remove('servers');
  });

  test('governs nothing', () => {
    expect(selected(first.entryId)).toBe('unknown-entry');
    expect(registry.inForce()).toEqual([]);
  });

  test('counts as retired for a minute, in which the API server may still call', () => {
    expect(registry.wasRetired(first.entryId, request)).toBe(true);
    now = 59_999;
    expect(registry.wasRetired(first.entryId, request)).toBe(true);
    now = 60_000;
    expect(registry.wasRetired(first.entryId, request)).toBe(false);
  });

  test('does not count as retired for kinds that it never governed', () => {
    const other = { ...request, resource: { ...request.resource, resource: 'disks' } };
    expect(registry.wasRetired(first.entryId, other)).toBe(false);
    expect(registry.wasRetired('fail-5s-0000000000', request)).toBe(false);
  });
});

describe('while the API server still uses the previous scope', () => {
  beforeEach(() => {
    registry.set('servers', inForce(first));
    registry.set('servers', inForce(moved));
  });

  test('the version with that scope is enforced, so that an update leaves no gap', () => {
    expect(moved.entryId).not.toBe(first.entryId);
    expect(selected(first.entryId)).toEqual([first]);
    expect(selected(moved.entryId)).toEqual([moved]);
  });

  test('the newest version with that scope is enforced', () => {
    registry.set('servers', inForce(second));
    registry.set('servers', inForce(moved));
    expect(selected(first.entryId)).toEqual([second]);
  });

  test('that version is not listed as in force, and ends with the policy or after a minute', () => {
    expect(registry.inForce()).toEqual([moved]);
    now = 60_000;
    expect(selected(first.entryId)).toBe('unknown-entry');
    now = 0;
    registry.remove('servers');
    expect(selected(first.entryId)).toBe('unknown-entry');
  });

  test('other policies of that scope decide on their own kinds', () => {
    const other = compiled({}, { name: 'more', generation: 1 });
    registry.set('more', inForce(other));
    expect(selected(first.entryId)).toEqual([other]);
  });
});
