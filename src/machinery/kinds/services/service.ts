import { isJsonObject, type JsonObject, type JsonValue } from '../../../json/json.ts';
import type { ApiObject } from '../../api-object.ts';
import {
  text,
  changed,
  has,
  items,
  number,
  section,
  spec,
  withFields,
  records,
  texts,
  status,
} from '../../fields.ts';
import type { Cause } from '../../failure.ts';
import { label1035Problem } from '../../name-problems.ts';
import type { ResourceType } from '../../resource-type.ts';
import { invalidValue, when } from '../../schema/causes.ts';
import { AGE, builtInKind, column, withNulls } from '../built-in-kind.ts';
import * as s from '../schema-builders.ts';
import { carryOver, withAllocations, type ServiceAllocators } from './service-allocation.ts';
import type { Schema } from '../../schema/schema.ts';

function shownPort(port: JsonObject): string {
  const nodePort = number(port, 'nodePort') ?? 0;
  return `${number(port, 'port') ?? 0}${nodePort === 0 ? '' : `:${nodePort}`}/${text(port, 'protocol')}`;
}

function externalAddress(service: ApiObject): string {
  const external = texts(spec(service), 'externalIPs');
  switch (typeOf(service)) {
    case 'ExternalName':
      return text(spec(service), 'externalName');
    case 'LoadBalancer': {
      const ingress = records(section(status(service), 'loadBalancer'), 'ingress').map(
        (point) => text(point, 'ip') || text(point, 'hostname'),
      );
      return [...ingress, ...external].join(',') || '<pending>';
    }
    default:
      return external.join(',') || '<none>';
  }
}

const PORT = s.object({
  name: s.STRING,
  protocol: s.withDefault(s.STRING, 'TCP'),
  appProtocol: s.STRING,
  port: s.INT32,
  targetPort: s.INT_OR_STRING,
  nodePort: s.INT32,
});

const SERVICE_SPEC = s.object({
  ports: s.keyedList(PORT, ['port', 'protocol']),
  selector: s.atomic(s.STRINGS_BY_KEY),
  clusterIP: s.STRING,
  clusterIPs: s.STRINGS,
  type: s.withDefault(s.STRING, 'ClusterIP'),
  externalIPs: s.STRINGS,
  sessionAffinity: s.withDefault(s.STRING, 'None'),
  sessionAffinityConfig: s.object({ clientIP: s.object({ timeoutSeconds: s.INT32 }) }),
  loadBalancerIP: s.STRING,
  loadBalancerSourceRanges: s.STRINGS,
  loadBalancerClass: s.STRING,
  allocateLoadBalancerNodePorts: s.BOOLEAN,
  externalName: s.STRING,
  externalTrafficPolicy: s.STRING,
  internalTrafficPolicy: s.STRING,
  trafficDistribution: s.STRING,
  healthCheckNodePort: s.INT32,
  publishNotReadyAddresses: s.BOOLEAN,
  ipFamilies: s.STRINGS,
  ipFamilyPolicy: s.STRING,
});

const SERVICE_STATUS = s.object({
  conditions: s.CONDITIONS,
  loadBalancer: s.object({
    ingress: s.listOf(
      s.object({
        ip: s.STRING,
        hostname: s.STRING,
        ipMode: s.STRING,
        ports: s.listOf(s.object({ port: s.INT32, protocol: s.STRING, error: s.STRING })),
      }),
    ),
  }),
});

const typeOf = (service: ApiObject) => text(spec(service), 'type');
const addressOf = (service: ApiObject) => text(spec(service), 'clusterIP');

export const serviceKind = (allocators: ServiceAllocators): ResourceType =>
  builtInKind({
    apiVersion: 'v1',
    kind: 'Service',
    resource: 'services',
    namespaced: true,
    shortNames: ['svc'],
    categories: ['all'],
    description: 'A name and an address for a set of pods.',
    fields: { spec: s.withDefault(SERVICE_SPEC, {}), status: SERVICE_STATUS },
    // As in pkg/printers/internalversion/printers.go.
    columns: [
      column('Type', 'How the Service is exposed.', typeOf),
      column('Cluster-IP', 'Its address within the cluster.', (service) => addressOf(service) || '<none>'),
      column('External-IP', 'Its addresses outside the cluster.', externalAddress),
      column(
        'Port(s)',
        'The ports that it exposes.',
        (service) => records(spec(service), 'ports').map(shownPort).join(',') || '<none>',
      ),
      AGE,
    ],
    hasStatus: true,
    selectableFields: { 'spec.clusterIP': addressOf, 'spec.type': typeOf },
    strategy: {
      completeDefaults: withServiceDefaults,
      prepareForCreate: (service) =>
        withFields(withAllocations(service, allocators), { status: { loadBalancer: {} } }),
      prepareForUpdate: (service, old) => withAllocations(carryOver(service, old), allocators),
      validateUpdate: addressChangeProblems,
      nameProblem: label1035Problem,
    },
  });

/** Follows SetDefaults_Service of pkg/apis/core/v1/defaults.go, for defaults that the schema cannot express. */
function withServiceDefaults(service: ApiObject): ApiObject {
  const given = spec(service);
  const type = text(given, 'type') || 'ClusterIP';
  const affinity = text(given, 'sessionAffinity') || 'None';
  const external = type === 'NodePort' || type === 'LoadBalancer';
  const fallbacks: Record<string, JsonValue | undefined> = {
    type,
    clusterIP: text(given, 'clusterIP') || undefined,
    sessionAffinity: affinity,
    ...(affinity === 'ClientIP' ? { sessionAffinityConfig: affinityOf(given) } : {}),
    ...(affinity === 'None' ? { sessionAffinityConfig: undefined } : {}),
    ...(has(given, 'ports') ? { ports: items(given, 'ports').map(withTargetPort) } : {}),
    ...(external && !has(given, 'externalTrafficPolicy') ? { externalTrafficPolicy: 'Cluster' } : {}),
    ...(type !== 'ExternalName' && !has(given, 'internalTrafficPolicy')
      ? { internalTrafficPolicy: 'Cluster' }
      : {}),
    ...(type === 'LoadBalancer' && !has(given, 'allocateLoadBalancerNodePorts')
      ? { allocateLoadBalancerNodePorts: true }
      : {}),
  };
  return withFields(service, { spec: changed(given, fallbacks) });
}

function withTargetPort(port: JsonValue): JsonValue {
  if (!isJsonObject(port)) return port;
  const { targetPort } = port;
  const missing = targetPort === undefined || targetPort === null || targetPort === 0 || targetPort === '';
  return changed(port, {
    protocol: text(port, 'protocol') || 'TCP',
    ...(missing ? { targetPort: number(port, 'port') } : {}),
  });
}

/** The session affinity timeout defaults to three hours. */
function affinityOf(given: JsonObject): JsonObject {
  const clientIP = section(given, 'sessionAffinityConfig', 'clientIP');
  return { clientIP: has(clientIP, 'timeoutSeconds') ? clientIP : { timeoutSeconds: 10_800 } };
}

/** Follows ValidateServiceUpdate: the cluster IP is immutable, even if the type changes to another one that has an IP. */
function addressChangeProblems(service: ApiObject, old: ApiObject): readonly Cause[] {
  if (typeOf(service) === 'ExternalName' || typeOf(old) === 'ExternalName') return [];
  const [now, was] = [texts(spec(service), 'clusterIPs'), texts(spec(old), 'clusterIPs')];
  return now.flatMap((address, index) =>
    when(
      index < was.length && address !== was[index],
      invalidValue(`spec.clusterIPs[${index}]`, now, 'may not change once set'),
    ),
  );
}

// The sandbox stores these kinds. It does not compute endpoints, route requests or enforce policies.

const ADDRESSES = s.listOf(
  s.atomic(s.object({ ip: s.STRING, hostname: s.STRING, nodeName: s.STRING, targetRef: s.OBJECT_REFERENCE })),
);

export const ENDPOINTS: ResourceType = builtInKind({
  apiVersion: 'v1',
  kind: 'Endpoints',
  resource: 'endpoints',
  namespaced: true,
  shortNames: ['ep'],
  description: 'The addresses behind a Service.',
  deprecationWarning: 'v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice',
  fields: {
    subsets: s.listOf(
      s.object({
        addresses: ADDRESSES,
        notReadyAddresses: ADDRESSES,
        ports: s.listOf(
          s.atomic(
            s.object({
              name: s.STRING,
              port: s.INT32,
              protocol: s.withDefault(s.STRING, 'TCP'),
              appProtocol: s.STRING,
            }),
          ),
        ),
      }),
    ),
  },
});

const SET_OF_STRINGS: Schema = {
  ...s.STRINGS,
  'x-kubernetes-list-type': 'set',
  'x-kubernetes-patch-strategy': 'replace',
};
const CONDITION_OF_ENDPOINT = s.object({ ready: s.BOOLEAN, serving: s.BOOLEAN, terminating: s.BOOLEAN });

export const ENDPOINT_SLICE: ResourceType = builtInKind({
  apiVersion: 'discovery.k8s.io/v1',
  kind: 'EndpointSlice',
  resource: 'endpointslices',
  namespaced: true,
  description: 'Some of the addresses behind a Service.',
  fields: {
    addressType: s.STRING,
    endpoints: s.listOf(
      s.object({
        addresses: SET_OF_STRINGS,
        conditions: CONDITION_OF_ENDPOINT,
        hostname: s.STRING,
        targetRef: s.OBJECT_REFERENCE,
        deprecatedTopology: s.STRINGS_BY_KEY,
        nodeName: s.STRING,
        zone: s.STRING,
        hints: s.object({
          forZones: s.listOf(s.object({ name: s.STRING })),
          forNodes: s.listOf(s.object({ name: s.STRING })),
        }),
      }),
    ),
    ports: s.listOf(
      s.atomic(
        s.object({
          name: s.withDefault(s.STRING, ''),
          protocol: s.withDefault(s.STRING, 'TCP'),
          port: s.INT32,
          appProtocol: s.STRING,
        }),
      ),
    ),
  },
  strategy: { countsGenerations: true, completeDefaults: withNulls('endpoints', 'ports') },
});

export const INGRESS: ResourceType = builtInKind({
  apiVersion: 'networking.k8s.io/v1',
  kind: 'Ingress',
  resource: 'ingresses',
  namespaced: true,
  shortNames: ['ing'],
  description: 'Which requests from outside reach which Services.',
  fields: {
    // What policies of the library read: the API server checks the types of their expressions.
    spec: s.openObject({
      defaultBackend: s.openObject({}),
      rules: s.listOf(s.openObject({ host: s.STRING })),
    }),
    status: s.openObject({}),
  },
  hasStatus: true,
  strategy: { countsGenerations: true },
});

const POLICY_PORTS = s.listOf(
  s.object({ protocol: s.withDefault(s.STRING, 'TCP'), port: s.INT_OR_STRING, endPort: s.INT32 }),
);
const PEERS = s.listOf(
  s.object({
    podSelector: s.LABEL_SELECTOR,
    namespaceSelector: s.LABEL_SELECTOR,
    ipBlock: s.object({ cidr: s.STRING, except: s.STRINGS }),
  }),
);

export const NETWORK_POLICY: ResourceType = builtInKind({
  apiVersion: 'networking.k8s.io/v1',
  kind: 'NetworkPolicy',
  resource: 'networkpolicies',
  namespaced: true,
  shortNames: ['netpol'],
  description: 'Who may talk to some pods, and to whom they may talk.',
  fields: {
    spec: s.withDefault(
      s.object({
        podSelector: s.withDefault(s.LABEL_SELECTOR, {}),
        ingress: s.listOf(s.object({ ports: POLICY_PORTS, from: PEERS })),
        egress: s.listOf(s.object({ ports: POLICY_PORTS, to: PEERS })),
        policyTypes: s.STRINGS,
      }),
      {},
    ),
  },
  strategy: { countsGenerations: true, completeDefaults: withPolicyTypes },
});

/** Every policy covers ingress; it covers egress only if it has egress rules. */
function withPolicyTypes(policy: ApiObject): ApiObject {
  const given = spec(policy);
  if (items(given, 'policyTypes').length > 0) return policy;
  const policyTypes = has(given, 'egress') ? ['Ingress', 'Egress'] : ['Ingress'];
  return withFields(policy, { spec: changed(given, { policyTypes }) });
}
