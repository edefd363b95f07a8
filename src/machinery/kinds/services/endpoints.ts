import { ownValue, type JsonObject } from '../../../json/json.ts';
import type { ApiObject } from '../../api-object.ts';
import { invalidValue, requiredValue, unsupportedValue } from '../../schema/causes.ts';
import { records, text, texts, items, number } from '../../fields.ts';
import type { Cause } from '../../failure.ts';
import type { ResourceType } from '../../resource-type.ts';
import type { Schema } from '../../schema/schema.ts';
import { AGE, builtInKind } from '../built-in-kind.ts';
import {
  atomic,
  BOOLEAN,
  INT32,
  listOf,
  object,
  OBJECT_REFERENCE,
  STRING,
  STRINGS,
  STRINGS_BY_KEY,
  withDefault,
} from '../schema-builders.ts';

// The endpoints of a Service in the core and the discovery API. The sandbox does not compute them; clients write
// them.

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
    {
      name: 'Endpoints',
      type: 'string',
      description: 'Addresses that are ready, with their ports.',
      value: (endpoints) => firstThree(records(endpoints, 'subsets').flatMap(shownSubset)),
    },
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

/** `a,b,c + 2 more...`; `<none>` if empty. */
function firstThree(texts_: readonly string[], none = '<none>'): string {
  if (texts_.length === 0) return none;
  const more = texts_.length > 3 ? ` + ${texts_.length - 3} more...` : '';
  return `${texts_.slice(0, 3).join(',')}${more}`;
}

const SET_OF_STRINGS: Schema = {
  ...STRINGS,
  'x-kubernetes-list-type': 'set',
  'x-kubernetes-patch-strategy': 'replace',
};
const ADDRESS_TYPES = ['FQDN', 'IPv4', 'IPv6'];
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
    {
      name: 'AddressType',
      type: 'string',
      description: 'What its addresses are.',
      value: (slice) => text(slice, 'addressType'),
    },
    {
      name: 'Ports',
      type: 'string',
      description: 'The ports of each endpoint.',
      value: (slice) =>
        firstThree(
          records(slice, 'ports').map((port) => String(number(port, 'port') ?? '*')),
          '<unset>',
        ),
    },
    {
      name: 'Endpoints',
      type: 'string',
      description: 'The addresses.',
      value: (slice) =>
        firstThree(
          records(slice, 'endpoints').flatMap((endpoint) => texts(endpoint, 'addresses')),
          '<unset>',
        ),
    },
    AGE,
  ],
  strategy: {
    countsGenerations: true,
    validate: sliceProblems,
    validateUpdate: (slice, old) =>
      text(slice, 'addressType') === text(old, 'addressType')
        ? []
        : [invalidValue('addressType', text(slice, 'addressType'), 'field is immutable')],
  },
});

function sliceProblems(slice: ApiObject): readonly Cause[] {
  const type = text(slice, 'addressType');
  return [
    ...(type === '' ? [requiredValue('addressType')] : []),
    ...(type === '' || ADDRESS_TYPES.includes(type)
      ? []
      : [unsupportedValue('addressType', type, ADDRESS_TYPES)]),
    ...items(slice, 'endpoints').flatMap((endpoint, index) =>
      typeof endpoint === 'object' && endpoint !== null && ownValue(endpoint, 'addresses') !== undefined
        ? []
        : [requiredValue(`endpoints[${index}].addresses`, 'must contain at least 1 address')],
    ),
  ];
}
