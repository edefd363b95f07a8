import type { ResourceType } from '../resource-type.ts';
import { reviewKinds, SERVICE_ACCOUNT, type ReviewAnswers } from './rbac/access-reviews.ts';
import { MUTATING_POLICY, MUTATING_POLICY_BINDING } from './webhooks/mutating-policy.ts';
import { VALIDATING_POLICY, VALIDATING_POLICY_BINDING } from './webhooks/admission-policy.ts';
import { API_SERVICE } from './webhooks/api-service.ts';
import { CLUSTER_TRUST_BUNDLE } from './certificates/cluster-trust-bundle.ts';
import { CONFIG_MAP } from './core/config-map.ts';
import { ENDPOINT_SLICE, ENDPOINTS } from './services/endpoints.ts';
import { CORE_EVENT, EVENT } from './core/event.ts';
import { NAMESPACE } from './core/namespace.ts';
import { NETWORK_POLICY } from './services/network-policy.ts';
import { NODE } from './workloads/node.ts';
import { POD } from './workloads/pod.ts';
import { POD_DISRUPTION_BUDGET } from './workloads/pod-disruption-budget.ts';
import { CLUSTER_ROLE, CLUSTER_ROLE_BINDING, ROLE, ROLE_BINDING } from './rbac/rbac.ts';
import { SECRET } from './core/secret.ts';
import type { ServiceAllocators } from './services/service-allocation.ts';
import { serviceKind } from './services/service.ts';
import { MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS } from './webhooks/webhook-configuration.ts';
import { DEPLOYMENT, REPLICA_SET } from './workloads/workloads.ts';
import type { ApiObject } from '../api-object.ts';
import { invalidValue } from '../schema/causes.ts';
import { text, number, spec, has, records, section, status } from '../fields.ts';
import type { Cause } from '../failure.ts';
import { AGE, builtInKind } from './built-in-kind.ts';
import {
  INT32,
  object,
  STRING,
  TIME,
  withDefault,
  listOf,
  mapOf,
  STRINGS,
  atomic,
} from './schema-builders.ts';

const BACKEND = object({
  service: object({ name: STRING, port: atomic(object({ name: STRING, number: INT32 })) }),
  resource: atomic(object({ apiGroup: STRING, kind: STRING, name: STRING })),
});

const PATHS = listOf(object({ path: STRING, pathType: STRING, backend: BACKEND }));

const PORTS = listOf(object({ port: INT32, protocol: STRING, error: STRING }));

/** networking.k8s.io/v1 Ingress: stored; no controller routes traffic. */
const INGRESS: ResourceType = builtInKind({
  apiVersion: 'networking.k8s.io/v1',
  kind: 'Ingress',
  resource: 'ingresses',
  namespaced: true,
  shortNames: ['ing'],
  description: 'Which requests from outside reach which Services.',
  fields: {
    spec: object({
      ingressClassName: STRING,
      defaultBackend: BACKEND,
      tls: listOf(object({ hosts: STRINGS, secretName: STRING })),
      rules: listOf(object({ host: STRING, http: object({ paths: PATHS }) })),
    }),
    status: object({
      loadBalancer: object({ ingress: listOf(object({ ip: STRING, hostname: STRING, ports: PORTS })) }),
    }),
  },
  hasStatus: true,
  columns: [
    {
      name: 'Class',
      type: 'string',
      description: 'Which controller it is for.',
      value: (ingress) => text(spec(ingress), 'ingressClassName') || '<none>',
    },
    { name: 'Hosts', type: 'string', description: 'The hosts of its rules.', value: shownHosts },
    {
      name: 'Address',
      type: 'string',
      description: 'Where requests arrive.',
      value: (ingress) =>
        records(section(status(ingress), 'loadBalancer'), 'ingress')
          .map((one) => text(one, 'ip') || text(one, 'hostname'))
          .join(','),
    },
    {
      name: 'Ports',
      type: 'string',
      description: 'On which ports.',
      value: (ingress) => (has(spec(ingress), 'tls') ? '80, 443' : '80'),
    },
    AGE,
  ],
  strategy: { countsGenerations: true },
});

const MOST_HOSTS = 3;

function shownHosts(ingress: ApiObject): string {
  const hosts = records(spec(ingress), 'rules').flatMap((rule) => text(rule, 'host') || []);
  const shown = hosts.slice(0, MOST_HOSTS).join(',');
  if (hosts.length === 0) return '*';
  return hosts.length > MOST_HOSTS ? `${shown} + ${hosts.length - MOST_HOSTS} more...` : shown;
}

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
  columns: [AGE],
  hasStatus: true,
});

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

/** coordination.k8s.io/v1 Lease. */
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
