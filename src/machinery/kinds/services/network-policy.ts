import type { ApiObject } from '../../api-object.ts';
import type { ResourceType } from '../../resource-type.ts';
import { AGE, builtInKind } from '../built-in-kind.ts';
import { changed, has, items, section, spec, withFields } from '../../fields.ts';
import {
  INT32,
  INT_OR_STRING,
  LABEL_SELECTOR,
  listOf,
  object,
  STRING,
  STRINGS,
  withDefault,
} from '../schema-builders.ts';
import { shownSelector } from '../selector-text.ts';

const PORTS = listOf(object({ protocol: withDefault(STRING, 'TCP'), port: INT_OR_STRING, endPort: INT32 }));
const PEERS = listOf(
  object({
    podSelector: LABEL_SELECTOR,
    namespaceSelector: LABEL_SELECTOR,
    ipBlock: object({ cidr: STRING, except: STRINGS }),
  }),
);

/** networking.k8s.io/v1 NetworkPolicy: stored but not enforced. */
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
        ingress: listOf(object({ ports: PORTS, from: PEERS })),
        egress: listOf(object({ ports: PORTS, to: PEERS })),
        policyTypes: STRINGS,
      }),
      {},
    ),
  },
  columns: [
    {
      name: 'Pod-Selector',
      type: 'string',
      description: 'The labels of the pods that it is about.',
      value: (policy) => shownSelector(section(policy, 'spec', 'podSelector')),
    },
    AGE,
  ],
  strategy: {
    countsGenerations: true,
    completeDefaults: withTypes,
    prepareForCreate: withTypes,
    prepareForUpdate: withTypes,
  },
});

/** Every policy covers ingress; it covers egress only if it has egress rules. */
function withTypes(policy: ApiObject): ApiObject {
  const given = spec(policy);
  if (items(given, 'policyTypes').length > 0) return policy;
  const policyTypes = has(given, 'egress') ? ['Ingress', 'Egress'] : ['Ingress'];
  return withFields(policy, { spec: changed(given, { policyTypes }) });
}
