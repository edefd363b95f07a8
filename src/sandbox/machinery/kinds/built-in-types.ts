import type { ResourceType } from '../resource-type.ts';
import { reviewKinds, type ReviewAnswers, SERVICE_ACCOUNT } from './rbac/access-reviews.ts';
import { MUTATING_POLICY, MUTATING_POLICY_BINDING } from './webhooks/mutating-policy.ts';
import { VALIDATING_POLICY, VALIDATING_POLICY_BINDING } from './webhooks/admission-policy.ts';
import { API_SERVICE } from './webhooks/api-service.ts';
import { CLUSTER_TRUST_BUNDLE } from './certificates/cluster-trust-bundle.ts';
import { CONFIG_MAP } from './core/config-map.ts';
import { ENDPOINT_SLICE, ENDPOINTS } from './services/endpoints.ts';
import { CORE_EVENT, EVENT } from './core/event.ts';
import { INGRESS } from './services/ingress.ts';
import { LEASE } from './core/lease.ts';
import { NAMESPACE } from './core/namespace.ts';
import { NETWORK_POLICY } from './services/network-policy.ts';
import { NODE } from './workloads/node.ts';
import { POD } from './workloads/pod.ts';
import { POD_DISRUPTION_BUDGET } from './workloads/pod-disruption-budget.ts';
import { CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING } from './rbac/rbac.ts';
import { RESOURCE_QUOTA } from './core/resource-quota.ts';
import { SECRET } from './core/secret.ts';
import type { ServiceAllocators } from './services/service-allocation.ts';
import { serviceKind } from './services/service.ts';
import { MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS } from './webhooks/webhook-configuration.ts';
import { DEPLOYMENT, REPLICA_SET } from './workloads/workloads.ts';

/**
 * Every kind that is served without a definition, except CustomResourceDefinition itself. Groups are in discovery
 * order.
 */
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
