/** Which requests a policy governs: `spec.match`. */
import {
  anyObject,
  apiGroup,
  array,
  mapList,
  object,
  oneOf,
  optional,
  string,
  type TypeOf,
} from './schema.ts';

/** As in the Kubernetes API (meta/v1 LabelSelector). */
export interface LabelSelector {
  matchLabels?: Record<string, string>;
  matchExpressions?: {
    key: string;
    operator: 'In' | 'NotIn' | 'Exists' | 'DoesNotExist';
    values?: string[];
  }[];
}

export const policyMatch = object(
  {
    apiGroups: array(apiGroup({ description: 'An API group; empty for the core group.' }), {
      description:
        'The API groups governed. Wildcards are refused: they would cover what the cluster needs to heal itself.',
      minItems: 1,
    }),
    apiVersions: optional(
      array(string({ description: 'An API version, or `*`.' }), {
        description: 'The versions in which requests are sent to Gatehouse.',
        minItems: 1,
        default: ['*'],
      }),
    ),
    resources: array(
      string({ description: 'A plural such as `servers`, or a subresource such as `servers/status`.' }),
      {
        description: 'The resources governed.',
        minItems: 1,
      },
    ),
    operations: optional(
      array(oneOf(['CREATE', 'UPDATE', 'DELETE', 'CONNECT'], { description: 'An operation.' }), {
        description: 'The operations governed.',
        minItems: 1,
        default: ['CREATE', 'UPDATE'],
      }),
    ),
    namespaceSelector: optional(
      anyObject<LabelSelector>({
        description: 'Only objects in namespaces with these labels. Empty: all namespaces.',
      }),
    ),
    objectSelector: optional(
      anyObject<LabelSelector>({
        description:
          'Only objects with these labels, before or after the change. Not a security boundary: users can label their way out.',
      }),
    ),
    matchConditions: optional(
      mapList(
        object(
          {
            name: string({ description: 'A name for messages and metrics.', minLength: 1 }),
            expression: string({ description: 'CEL, evaluated by the API server.', minLength: 1 }),
          },
          { description: 'A condition.' },
        ),
        ['name'],
        {
          description:
            'CEL conditions that the API server evaluates before it asks (Kubernetes 1.28 and newer).',
          maxItems: 64,
        },
      ),
    ),
  },
  { description: 'Which requests the policy governs.' },
);

export type PolicyMatch = TypeOf<typeof policyMatch>;
