/** Which requests a policy governs: `spec.match`. */
import { anyObject, apiGroup, array, mapList, object, oneOf, string, type TypeOf } from './schema.ts';

/** As in the Kubernetes API (meta/v1 LabelSelector). */
export interface LabelSelector {
  matchLabels?: Record<string, string>;
  matchExpressions?: {
    key: string;
    operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist';
    values?: string[];
  }[];
}

export const policyMatch = object('Which requests the policy governs.', {
  apiGroups: array(
    'The API groups governed. Wildcards are refused: they would cover what the cluster needs to heal itself.',
    apiGroup('An API group; empty for the core group.'),
    { minItems: 1 },
  ),
  'apiVersions?': array(
    'The versions in which requests are sent to Gatehouse.',
    string('An API version, or `*`.'),
    { minItems: 1, default: ['*'] },
  ),
  resources: array(
    'The resources governed.',
    string('A plural such as `servers`, or a subresource such as `servers/status`.'),
    { minItems: 1 },
  ),
  'operations?': array(
    'The operations governed.',
    oneOf('An operation.', ['CREATE', 'UPDATE', 'DELETE', 'CONNECT']),
    { minItems: 1, default: ['CREATE', 'UPDATE'] },
  ),
  'namespaceSelector?': anyObject<LabelSelector>(
    'Only objects in namespaces with these labels. Empty: all namespaces.',
  ),
  'objectSelector?': anyObject<LabelSelector>(
    'Only objects with these labels, before or after the change. Not a security boundary: users can label their way out.',
  ),
  'matchConditions?': mapList(
    'CEL conditions that the API server evaluates before it asks (Kubernetes 1.28 and newer).',
    'name',
    object('A condition.', {
      name: string('A name for messages and metrics.', { minLength: 1 }),
      expression: string('CEL, evaluated by the API server.', { minLength: 1 }),
    }),
    { maxItems: 64 },
  ),
});

export type PolicyMatch = TypeOf<typeof policyMatch>;
