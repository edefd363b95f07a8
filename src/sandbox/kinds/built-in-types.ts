import type { ResourceType } from '../resource-type.ts';
import { reviewKinds, type ReviewAnswers } from './access-reviews.ts';
import { API_SERVICE } from './api-service.ts';
import { CONFIG_MAP } from './config-map.ts';
import { ENDPOINT_SLICE, ENDPOINTS } from './endpoints.ts';
import { CORE_EVENT, EVENT } from './event.ts';
import { LEASE } from './lease.ts';
import { NAMESPACE } from './namespace.ts';
import { NETWORK_POLICY } from './network-policy.ts';
import { POD } from './pod.ts';
import { POD_DISRUPTION_BUDGET } from './pod-disruption-budget.ts';
import { CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING } from './rbac.ts';
import { SECRET } from './secret.ts';
import { SERVICE_ACCOUNT } from './service-account.ts';
import type { ServiceAllocators } from './service-allocation.ts';
import { serviceKind } from './service.ts';
import { MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS } from './webhook-configuration.ts';
import { DEPLOYMENT, REPLICA_SET } from './workloads.ts';

/** What kinds need that no object can tell them. */
export interface BuiltInTypesDeps extends ServiceAllocators {
  readonly answers: ReviewAnswers;
}

/** Every kind that is served without a definition, but CustomResourceDefinition itself; groups in the order of discovery. */
export const builtInTypes = ({ answers, ...allocators }: BuiltInTypesDeps): readonly ResourceType[] => [
  CONFIG_MAP,
  ENDPOINTS,
  CORE_EVENT,
  NAMESPACE,
  POD,
  SECRET,
  SERVICE_ACCOUNT,
  serviceKind(allocators),
  MUTATING_WEBHOOKS,
  VALIDATING_WEBHOOKS,
  API_SERVICE,
  DEPLOYMENT,
  REPLICA_SET,
  ...reviewKinds(answers),
  LEASE,
  ENDPOINT_SLICE,
  EVENT,
  NETWORK_POLICY,
  POD_DISRUPTION_BUDGET,
  CLUSTER_ROLE_BINDING,
  CLUSTER_ROLE,
  ROLE_BINDING,
  ROLE,
];
