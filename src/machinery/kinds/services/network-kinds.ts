import type { JsonObject } from '../../../json/json.ts';
import type { ApiObject } from '../../api-object.ts';
import {
  changed,
  has,
  items,
  number,
  records,
  section,
  spec,
  status,
  text,
  texts,
  withFields,
} from '../../fields.ts';
import type { ResourceType } from '../../resource-type.ts';
import type { Schema } from '../../schema/schema.ts';
import { shownSelector } from '../../selectors/label-selector.ts';
import { AGE, builtInKind, column } from '../built-in-kind.ts';
import {
  atomic,
  BOOLEAN,
  INT32,
  INT_OR_STRING,
  LABEL_SELECTOR,
  listOf,
  object,
  OBJECT_REFERENCE,
  STRING,
  STRINGS,
  STRINGS_BY_KEY,
  withDefault,
} from '../schema-builders.ts';

// The sandbox stores these kinds. It does not compute endpoints, route requests or enforce policies.

/** `a,b,c + 2 more...` */
function firstThree(texts_: readonly string[], none = '<none>'): string {
  if (texts_.length === 0) return none;
  const more = texts_.length > 3 ? ` + ${texts_.length - 3} more...` : '';
  return `${texts_.slice(0, 3).join(',')}${more}`;
}

const ADDRESSES = listOf(
  atomic(object({ ip: STRING, hostname: STRING, nodeName: STRING, targetRef: OBJECT_REFERENCE })),
);

/** v1 Endpoints. */
export const ENDPOINTS: ResourceType = builtInKind({
  apiVersion: 'v1',
  kind: 'Endpoints',
  resource: 'endpoints',
  namespaced: true,
  shortNames: ['ep'],
  description: 'The addresses behind a Service.',
  deprecationWarning: 'v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice',
  fields: {
    subsets: listOf(
      object({
        addresses: ADDRESSES,
        notReadyAddresses: ADDRESSES,
        ports: listOf(
          atomic(
            object({ name: STRING, port: INT32, protocol: withDefault(STRING, 'TCP'), appProtocol: STRING }),
          ),
        ),
      }),
    ),
  },
  columns: [
    column('Endpoints', 'Addresses that are ready, with their ports.', (endpoints) =>
      firstThree(records(endpoints, 'subsets').flatMap(shownSubset)),
    ),
    AGE,
  ],
});

function shownSubset(subset: JsonObject): readonly string[] {
  const addresses = records(subset, 'addresses').map((address) => text(address, 'ip'));
  const ports = records(subset, 'ports');
  if (ports.length === 0) return addresses;
  const shown = (address: string, port: JsonObject) =>
    `${address.includes(':') ? `[${address}]` : address}:${number(port, 'port') ?? 0}`;
  return ports.flatMap((port) => addresses.map((address) => shown(address, port)));
}

const SET_OF_STRINGS: Schema = {
  ...STRINGS,
  'x-kubernetes-list-type': 'set',
  'x-kubernetes-patch-strategy': 'replace',
};
const CONDITION_OF_ENDPOINT = object({ ready: BOOLEAN, serving: BOOLEAN, terminating: BOOLEAN });

/** discovery.k8s.io/v1 EndpointSlice. */
export const ENDPOINT_SLICE: ResourceType = builtInKind({
  apiVersion: 'discovery.k8s.io/v1',
  kind: 'EndpointSlice',
  resource: 'endpointslices',
  namespaced: true,
  description: 'Some of the addresses behind a Service.',
  fields: {
    addressType: STRING,
    endpoints: listOf(
      object({
        addresses: SET_OF_STRINGS,
        conditions: CONDITION_OF_ENDPOINT,
        hostname: STRING,
        targetRef: OBJECT_REFERENCE,
        deprecatedTopology: STRINGS_BY_KEY,
        nodeName: STRING,
        zone: STRING,
        hints: object({
          forZones: listOf(object({ name: STRING })),
          forNodes: listOf(object({ name: STRING })),
        }),
      }),
    ),
    ports: listOf(
      atomic(
        object({
          name: withDefault(STRING, ''),
          protocol: withDefault(STRING, 'TCP'),
          port: INT32,
          appProtocol: STRING,
        }),
      ),
    ),
  },
  columns: [
    column('AddressType', 'What its addresses are.', (slice) => text(slice, 'addressType')),
    column('Ports', 'The ports of each endpoint.', (slice) =>
      firstThree(
        records(slice, 'ports').map((port) => String(number(port, 'port') ?? '*')),
        '<unset>',
      ),
    ),
    column('Endpoints', 'The addresses.', (slice) =>
      firstThree(
        records(slice, 'endpoints').flatMap((endpoint) => texts(endpoint, 'addresses')),
        '<unset>',
      ),
    ),
    AGE,
  ],
  strategy: { countsGenerations: true },
});

const BACKEND = object({
  service: object({ name: STRING, port: atomic(object({ name: STRING, number: INT32 })) }),
  resource: atomic(object({ apiGroup: STRING, kind: STRING, name: STRING })),
});
const PATHS = listOf(object({ path: STRING, pathType: STRING, backend: BACKEND }));
const PORTS = listOf(object({ port: INT32, protocol: STRING, error: STRING }));

/** networking.k8s.io/v1 Ingress. */
export const INGRESS: ResourceType = builtInKind({
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
    column(
      'Class',
      'Which controller it is for.',
      (ingress) => text(spec(ingress), 'ingressClassName') || '<none>',
    ),
    column('Hosts', 'The hosts of its rules.', (ingress) =>
      firstThree(
        records(spec(ingress), 'rules').flatMap((rule) => text(rule, 'host') || []),
        '*',
      ),
    ),
    column('Address', 'Where requests arrive.', (ingress) =>
      records(section(status(ingress), 'loadBalancer'), 'ingress')
        .map((one) => text(one, 'ip') || text(one, 'hostname'))
        .join(','),
    ),
    column('Ports', 'On which ports.', (ingress) => (has(spec(ingress), 'tls') ? '80, 443' : '80')),
    AGE,
  ],
  strategy: { countsGenerations: true },
});

const POLICY_PORTS = listOf(
  object({ protocol: withDefault(STRING, 'TCP'), port: INT_OR_STRING, endPort: INT32 }),
);
const PEERS = listOf(
  object({
    podSelector: LABEL_SELECTOR,
    namespaceSelector: LABEL_SELECTOR,
    ipBlock: object({ cidr: STRING, except: STRINGS }),
  }),
);

/** networking.k8s.io/v1 NetworkPolicy. */
export const NETWORK_POLICY: ResourceType = builtInKind({
  apiVersion: 'networking.k8s.io/v1',
  kind: 'NetworkPolicy',
  resource: 'networkpolicies',
  namespaced: true,
  shortNames: ['netpol'],
  description: 'Who may talk to some pods, and to whom they may talk.',
  fields: {
    spec: withDefault(
      object({
        podSelector: withDefault(LABEL_SELECTOR, {}),
        ingress: listOf(object({ ports: POLICY_PORTS, from: PEERS })),
        egress: listOf(object({ ports: POLICY_PORTS, to: PEERS })),
        policyTypes: STRINGS,
      }),
      {},
    ),
  },
  columns: [
    column('Pod-Selector', 'The labels of the pods that it is about.', (policy) =>
      shownSelector(section(policy, 'spec', 'podSelector')),
    ),
    AGE,
  ],
  strategy: { countsGenerations: true, completeDefaults: withPolicyTypes },
});

/** Every policy covers ingress; it covers egress only if it has egress rules. */
function withPolicyTypes(policy: ApiObject): ApiObject {
  const given = spec(policy);
  if (items(given, 'policyTypes').length > 0) return policy;
  const policyTypes = has(given, 'egress') ? ['Ingress', 'Egress'] : ['Ingress'];
  return withFields(policy, { spec: changed(given, { policyTypes }) });
}
