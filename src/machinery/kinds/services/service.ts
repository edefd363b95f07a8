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
  stringMap,
} from '../../fields.ts';
import type { Cause } from '../../failure.ts';
import { label1035Problem } from '../../name-problems.ts';
import type { ResourceType } from '../../resource-type.ts';
import { invalidValue, when } from '../../schema/causes.ts';
import { AGE, builtInKind, column, wideColumn } from '../built-in-kind.ts';
import {
  atomic,
  BOOLEAN,
  CONDITIONS,
  INT32,
  INT_OR_STRING,
  keyedList,
  listOf,
  object,
  STRING,
  STRINGS,
  STRINGS_BY_KEY,
  withDefault,
} from '../schema-builders.ts';
import { carryOver, withAllocations, type ServiceAllocators } from './service-allocation.ts';

function shownLabels(labels: Readonly<Record<string, string>>): string {
  const pairs = Object.entries(labels).map(([key, value]) => `${key}=${value}`);
  return pairs.sort().join(',') || '<none>';
}

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

const PORT = object({
  name: STRING,
  protocol: withDefault(STRING, 'TCP'),
  appProtocol: STRING,
  port: INT32,
  targetPort: INT_OR_STRING,
  nodePort: INT32,
});

const SERVICE_SPEC = object({
  ports: keyedList(PORT, ['port', 'protocol']),
  selector: atomic(STRINGS_BY_KEY),
  clusterIP: STRING,
  clusterIPs: STRINGS,
  type: withDefault(STRING, 'ClusterIP'),
  externalIPs: STRINGS,
  sessionAffinity: withDefault(STRING, 'None'),
  sessionAffinityConfig: object({ clientIP: object({ timeoutSeconds: INT32 }) }),
  loadBalancerIP: STRING,
  loadBalancerSourceRanges: STRINGS,
  loadBalancerClass: STRING,
  allocateLoadBalancerNodePorts: BOOLEAN,
  externalName: STRING,
  externalTrafficPolicy: STRING,
  internalTrafficPolicy: STRING,
  trafficDistribution: STRING,
  healthCheckNodePort: INT32,
  publishNotReadyAddresses: BOOLEAN,
  ipFamilies: STRINGS,
  ipFamilyPolicy: STRING,
});

const SERVICE_STATUS = object({
  conditions: CONDITIONS,
  loadBalancer: object({
    ingress: listOf(
      object({
        ip: STRING,
        hostname: STRING,
        ipMode: STRING,
        ports: listOf(object({ port: INT32, protocol: STRING, error: STRING })),
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
    fields: { spec: withDefault(SERVICE_SPEC, {}), status: SERVICE_STATUS },
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
      wideColumn('Selector', 'The labels of the pods behind it.', (service) =>
        shownLabels(stringMap(spec(service), 'selector')),
      ),
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
