import type { ApiObject } from '../../api-object.ts';
import { invalidValue } from '../../schema/causes.ts';
import { text, number, spec } from '../../fields.ts';
import type { Cause } from '../../failure.ts';
import type { ResourceType } from '../../resource-type.ts';
import { AGE, builtInKind } from '../built-in-kind.ts';
import { INT32, object, STRING, TIME, withDefault } from '../schema-builders.ts';

/** coordination.k8s.io/v1 Lease. */
export const LEASE: ResourceType = builtInKind({
  apiVersion: 'coordination.k8s.io/v1',
  kind: 'Lease',
  resource: 'leases',
  namespaced: true,
  description: 'Who of several may act, and until when.',
  fields: {
    spec: withDefault(
      object({
        holderIdentity: STRING,
        leaseDurationSeconds: INT32,
        acquireTime: TIME,
        renewTime: TIME,
        leaseTransitions: INT32,
        strategy: STRING,
        preferredHolder: STRING,
      }),
      {},
    ),
  },
  columns: [
    {
      name: 'Holder',
      type: 'string',
      description: 'Who holds it.',
      value: (lease) => text(spec(lease), 'holderIdentity'),
    },
    AGE,
  ],
  strategy: { validate: leaseProblems },
});

/** Follows ValidateLeaseSpec of pkg/apis/coordination/validation. */
function leaseProblems(lease: ApiObject): readonly Cause[] {
  const duration = number(spec(lease), 'leaseDurationSeconds') ?? 1;
  const transitions = number(spec(lease), 'leaseTransitions') ?? 0;
  return [
    ...(duration > 0 ? [] : [invalidValue('spec.leaseDurationSeconds', duration, 'must be greater than 0')]),
    ...(transitions >= 0
      ? []
      : [invalidValue('spec.leaseTransitions', transitions, 'must be greater than or equal to 0')]),
  ];
}
