import { expect, test } from 'vitest';

import { clusterOf, createRequest, policyOf } from '../../../test/support/admission/policy.ts';
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
