import { describe, expect, test } from 'vitest';

import { clusterOf, createRequest, policyOf } from '../../../test/support/admission/policy.ts';
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { createAdmission } from './admission.ts';
import { createPolicyRegistry } from './policy-registry.ts';

const policy = policyOf({
  defaults: [{ path: 'spec.racks', value: 1 }],
  validate: { rules: [{ expression: 'object.spec.racks < 10' }] },
});
const registry = createPolicyRegistry(() => 0);
registry.set(policy.name, { inForce: policy, problem: undefined, generation: 1 });
const { world, signal } = clusterOf();
const admission = createAdmission(registry, world);

test.each(['mutate', 'validate'] as const)(
  '%s returns no promise for a decision without I/O: it would cost a timer and a turn of the event loop',
  (phase) => {
    const { entryId } = policy;
    expect(admission[phase](entryId, createRequest({ racks: 2 }), signal)).toMatchObject({ kind: 'allow' });
    expect(admission[phase]('fail-5s-unknown', createRequest({ racks: 2 }), signal)).toMatchObject({
      kind: 'retry',
    });
    const ungoverned = { ...createRequest({ racks: 2 }), operation: 'DELETE' as const };
    expect(admission[phase](entryId, ungoverned, signal)).not.toBeInstanceOf(Promise);
  },
);

describe('a policy in force that cannot be evaluated', () => {
  const admissionOf = (...policies: readonly CompiledPolicy[]) => {
    const own = createPolicyRegistry(() => 0);
    for (const one of policies) own.set(one.name, { inForce: one, problem: undefined, generation: 1 });
    return createAdmission(own, world);
  };
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
    expect(waiting[phase](policy.entryId, request, signal)).toMatchObject({
      kind: 'deny',
      code: 429,
      retryAfterSeconds: 1,
    });
  });

  test('does not refuse if it only warns, and the other policies of its webhook still decide', () => {
    const strict = { ...policy, name: 'strict' };
    const mixed = admissionOf({ ...policy, enforcement: 'Warn', undecidable }, strict);
    expect(mixed.validate(policy.entryId, request, signal)).toMatchObject({ kind: 'allow' });
    expect(mixed.mutate(policy.entryId, request, signal)).toMatchObject({ kind: 'deny' });
  });

  test('lets finalizers be removed', () => {
    const metadata = { deletionTimestamp: '2026-11-21T12:00:00Z' };
    const removal = {
      ...request,
      operation: 'UPDATE' as const,
      oldObject: { metadata: { ...metadata, finalizers: ['a/b'] } },
      object: { metadata },
    };
    const refusing = admissionOf({ ...policy, undecidable });
    expect(refusing.mutate(policy.entryId, removal, signal)).toMatchObject({ kind: 'allow' });
  });
});
