import type { ApiObject } from '../../api-object.ts';
import { changed, has, items, spec, withFields } from '../../fields.ts';
import type { ResourceType } from '../../resource-type.ts';
import type { Schema } from '../../schema/schema.ts';
import { builtInKind } from '../built-in-kind.ts';
import {
  atomic,
  BOOLEAN,
  INT32,
  INT_OR_STRING,
  LABEL_SELECTOR,
  listOf,
  object,
  OBJECT_REFERENCE,
  openObject,
  STRING,
  STRINGS,
  STRINGS_BY_KEY,
  withDefault,
} from '../schema-builders.ts';

// The sandbox stores these kinds. It does not compute endpoints, route requests or enforce policies.

const ADDRESSES = listOf(
  atomic(object({ ip: STRING, hostname: STRING, nodeName: STRING, targetRef: OBJECT_REFERENCE })),
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
});

const SET_OF_STRINGS: Schema = {
  ...STRINGS,
  'x-kubernetes-list-type': 'set',
  'x-kubernetes-patch-strategy': 'replace',
};
const CONDITION_OF_ENDPOINT = object({ ready: BOOLEAN, serving: BOOLEAN, terminating: BOOLEAN });

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
  strategy: { countsGenerations: true },
});

export const INGRESS: ResourceType = builtInKind({
  apiVersion: 'networking.k8s.io/v1',
  kind: 'Ingress',
  resource: 'ingresses',
  namespaced: true,
  shortNames: ['ing'],
  description: 'Which requests from outside reach which Services.',
  fields: { spec: openObject({}), status: openObject({}) },
  hasStatus: true,
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
  strategy: { countsGenerations: true, completeDefaults: withPolicyTypes },
});

/** Every policy covers ingress; it covers egress only if it has egress rules. */
function withPolicyTypes(policy: ApiObject): ApiObject {
  const given = spec(policy);
  if (items(given, 'policyTypes').length > 0) return policy;
  const policyTypes = has(given, 'egress') ? ['Ingress', 'Egress'] : ['Ingress'];
  return withFields(policy, { spec: changed(given, { policyTypes }) });
}
