import { describe, expect, test } from 'vitest';

import { containing } from '../../../test/support/runtime/fixtures.ts';
import { clusterOf, createRequest, policyOf } from '../../../test/support/admission/policy.ts';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { createAdmission } from './admission.ts';
import { createPolicyRegistry } from './policy-registry.ts';

const defaults = [{ path: 'spec.racks', value: 1 }];
const policy = policyOf({ defaults, validate: { rules: [{ expression: 'object.spec.racks < 10' }] } });
function registryOf(...policies: readonly CompiledPolicy[]) {
  const registry = createPolicyRegistry(() => 0);
  for (const one of policies) registry.set(one.name, { inForce: one, problem: undefined, generation: 1 });
  return registry;
}
const { world, signal } = clusterOf();
const admissionOf = (...policies: readonly CompiledPolicy[]) =>
  createAdmission(registryOf(...policies), world);

test.each(['mutate', 'validate'] as const)(
  '%s returns no promise for a decision without I/O: it would cost a timer and a turn of the event loop',
  (phase) => {
    const { entryId } = policy;
    const decide = admissionOf(policy)[phase];
    const request = createRequest({ racks: 2 });
    expect(decide(entryId, request, signal)).toMatchObject({ kind: 'allow' });
    expect(decide('fail-5s-unknown', request, signal)).toMatchObject({ kind: 'retry' });
    expect(decide(entryId, { ...request, operation: 'DELETE' }, signal)).not.toBeInstanceOf(Promise);
  },
);

describe('a policy in force that cannot be evaluated', () => {
  const undecidable = { message: 'spec.validate: x', isTemporary: false };
  const request = createRequest({ racks: 2 });

  test.each(['mutate', 'validate'] as const)('refuses on %s, and its message names the policy', (phase) => {
    const refusing = admissionOf({ ...policy, undecidable });
    expect(refusing[phase](policy.entryId, request, signal)).toMatchObject({
      kind: 'deny',
      code: 403,
      message: 'policy servers is in force but cannot be evaluated: spec.validate: x',
    });
    const waiting = admissionOf({ ...policy, undecidable: { ...undecidable, isTemporary: true } });
    const busy = { kind: 'deny', code: 429, retryAfterSeconds: 1 };
    expect(waiting[phase](policy.entryId, request, signal)).toMatchObject(busy);
  });

  test('does not refuse if it only warns, and the other policies of its webhook still decide', () => {
    const strict = { ...policy, name: 'strict' };
    const mixed = admissionOf({ ...policy, enforcement: 'Warn', undecidable }, strict);
    expect(mixed.validate(policy.entryId, request, signal)).toMatchObject({
      kind: 'allow',
      warnings: ['policy servers is in force but cannot be evaluated: spec.validate: x'],
    });
    expect(mixed.mutate(policy.entryId, request, signal)).toMatchObject({ kind: 'deny' });
  });

  test('lets finalizers be removed', () => {
    const metadata = { deletionTimestamp: '2026-11-21T12:00:00Z' };
    const oldObject = { metadata: { ...metadata, finalizers: ['a/b'] } };
    const removal = { ...request, operation: 'UPDATE' as const, oldObject, object: { metadata } };
    const refusing = admissionOf({ ...policy, undecidable });
    expect(refusing.mutate(policy.entryId, removal, signal)).toMatchObject({ kind: 'allow' });
  });
});

const target = { apiGroup: '', resource: 'configmaps' };
const references = [{ name: 'settings', path: 'spec.settings', target }];
const ELSEWHERE = containing('Gatehouse does not read namespace store');

test.each([
  ['Deny', { kind: 'deny', message: ELSEWHERE }],
  ['Warn', { kind: 'allow', warnings: [ELSEWHERE] }],
  ['Audit', { kind: 'allow', auditAnnotations: { unchecked: 'servers' } }],
] as const)(
  'with --namespaces, a policy that reads other objects sets its defaults elsewhere, and then: %s',
  (enforcement, expected) => {
    const one = policyOf({ enforcement, defaults, validate: { references } });
    const within = [undefined, undefined, undefined, ['gatehouse-system', 'shop']] as const;
    const { mutate, validate } = createAdmission(registryOf(one), world, ...within);
    const filled = { kind: 'allow', warnings: [], patch: [{ path: '/spec/racks' }] };
    expect(mutate(one.entryId, createRequest({}), signal)).toMatchObject(filled);
    expect(validate(one.entryId, createRequest({}), signal)).toMatchObject(expected);
  },
);
