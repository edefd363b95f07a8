import { spec, text } from '../fields.ts';
import type { ResourceType } from '../resource-type.ts';
import { AGE, builtInKind, column } from './built-in-kind.ts';
import { API_SERVICE, CLUSTER_TRUST_BUNDLE, NAMESPACE, NODE } from './core/cluster-kinds.ts';
import { CONFIG_MAP, SECRET } from './core/data-kinds.ts';
import { CORE_EVENT, EVENT } from './core/event.ts';
import {
  reviewKinds,
  SERVICE_ACCOUNT,
  type ReviewAnswers,
  CLUSTER_ROLE,
  CLUSTER_ROLE_BINDING,
  ROLE,
  ROLE_BINDING,
} from './rbac/rbac.ts';
import { INT32, listOf, mapOf, object, STRING, STRINGS, TIME, withDefault } from './schema-builders.ts';
import { ENDPOINT_SLICE, ENDPOINTS, INGRESS, NETWORK_POLICY, serviceKind } from './services/service.ts';
import type { ServiceAllocators } from './services/service-allocation.ts';
import {
  MUTATING_POLICY,
  MUTATING_POLICY_BINDING,
  VALIDATING_POLICY,
  VALIDATING_POLICY_BINDING,
  MUTATING_WEBHOOKS,
  VALIDATING_WEBHOOKS,
} from './webhooks/webhook-configuration.ts';
import { POD, DEPLOYMENT, POD_DISRUPTION_BUDGET, REPLICA_SET } from './workloads/workloads.ts';

const SCOPES = object({
  matchExpressions: listOf(object({ scopeName: STRING, operator: STRING, values: STRINGS })),
});

/** v1 ResourceQuota: stored but not enforced. */
const RESOURCE_QUOTA: ResourceType = builtInKind({
  apiVersion: 'v1',
  kind: 'ResourceQuota',
  resource: 'resourcequotas',
  namespaced: true,
  shortNames: ['quota'],
  description: 'How much the objects of a namespace may request.',
  fields: {
    spec: withDefault(object({ hard: mapOf(STRING), scopes: STRINGS, scopeSelector: SCOPES }), {}),
    status: withDefault(object({ hard: mapOf(STRING), used: mapOf(STRING) }), {}),
  },
  hasStatus: true,
});

/** Every kind that is served without a definition, except CustomResourceDefinition itself. */
export const builtInTypes = (
  answers: ReviewAnswers,
  allocators: ServiceAllocators,
): readonly ResourceType[] => [
  CONFIG_MAP,
  ENDPOINTS,
  CORE_EVENT,
  NAMESPACE,
  NODE,
  POD,
  RESOURCE_QUOTA,
  SECRET,
  SERVICE_ACCOUNT,
  serviceKind(allocators),
  MUTATING_WEBHOOKS,
  MUTATING_POLICY,
  MUTATING_POLICY_BINDING,
  VALIDATING_POLICY,
  VALIDATING_POLICY_BINDING,
  VALIDATING_WEBHOOKS,
  API_SERVICE,
  DEPLOYMENT,
  REPLICA_SET,
  ...reviewKinds(answers),
  CLUSTER_TRUST_BUNDLE,
  LEASE,
  ENDPOINT_SLICE,
  EVENT,
  INGRESS,
  NETWORK_POLICY,
  POD_DISRUPTION_BUDGET,
  CLUSTER_ROLE_BINDING,
  CLUSTER_ROLE,
  ROLE_BINDING,
  ROLE,
];

const LEASE: ResourceType = builtInKind({
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
  columns: [column('Holder', 'Who holds it.', (lease) => text(spec(lease), 'holderIdentity')), AGE],
});
