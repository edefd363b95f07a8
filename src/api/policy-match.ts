import type { GroupResource } from '../json/kube-object.ts';
import type { LabelSelector } from '../json/label-selector.ts';
import { anyObject, array, mapList, object, oneOf, string } from './schema.ts';

export const toGroupResource = ({
  apiGroup = '',
  resource,
}: {
  readonly apiGroup?: string;
  readonly resource: string;
}): GroupResource => ({ group: apiGroup, resource });

export const policyMatch = object('The requests that the policy governs.', {
  apiGroups: array(
    'API groups. Wildcards are refused: they would include resources that the cluster needs for its own recovery.',
    string('An API group; empty for the core group.'),
    { minItems: 1 },
  ),
  'apiVersions?': array('API versions.', string('An API version, or `*`.'), { minItems: 1, default: ['*'] }),
  resources: array(
    'Resources and subresources.',
    string('A plural such as `servers`, or a subresource such as `servers/status`.'),
    { minItems: 1 },
  ),
  'operations?': array('Operations.', oneOf('An operation.', ['CREATE', 'UPDATE', 'DELETE', 'CONNECT']), {
    minItems: 1,
    default: ['CREATE', 'UPDATE'],
  }),
  'namespaceSelector?': anyObject<LabelSelector>(
    'Only objects in namespaces with these labels. Empty: all namespaces.',
  ),
  'objectSelector?': anyObject<LabelSelector>(
    'Only objects with these labels, before or after the change. Not a security boundary: users can change labels.',
  ),
  'matchConditions?': mapList(
    'CEL conditions that the API server evaluates before it calls Gatehouse.',
    'name',
    object('A condition.', {
      name: string('A name for messages and metrics.', { minLength: 1 }),
      expression: string('CEL, evaluated by the API server.', { minLength: 1, maxLength: 16_384 }),
    }),
    { maxItems: 63 },
  ),
});
