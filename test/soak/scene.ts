/** A cluster with the number of governed kinds, policies and objects of a large cluster. */
import { mapConcurrent } from '../../src/json/map-concurrent.ts';
import type { KubeObject } from '../../src/json/kube-object.ts';
import type { Resource } from '../../src/kube/object.ts';
import { USERS } from '../support/control-plane.ts';
import { established, type Cluster } from '../support/cluster.ts';
import { definitionOf, resourceOf, versionOf, withSpec } from '../support/definitions.ts';
import { admissionPolicy, grant } from '../support/objects.ts';

export const GROUP = 'soak.example.com';

export const kindOf = (index: number): Resource => resourceOf(GROUP, `gadget${index}s`, `Gadget${index}`);

export function gadget(
  index: number,
  namespace: string,
  name: string,
  spec: object,
): KubeObject & { readonly spec: object } {
  return { apiVersion: `${GROUP}/v1`, kind: `Gadget${index}`, metadata: { namespace, name }, spec };
}

const text = { type: 'string' };
const versions = [
  versionOf('v1', withSpec({ partner: text, serial: text, tier: text, size: { type: 'integer' }, text })),
];

/** Directly: no controller aggregates roles here. */
const readers = grant(
  'soak-reader',
  [USERS.gatehouse.name],
  [{ apiGroups: [GROUP], resources: ['*'], verbs: ['get', 'list', 'watch'] }],
);

export async function createKinds(cluster: Cluster, count: number): Promise<void> {
  await cluster.apply(...readers);
  const indexes = Array.from({ length: count }, (_, index) => index);
  await cluster.apply(...indexes.map((index) => definitionOf(kindOf(index), { versions })));
  await Promise.all(indexes.map((index) => established(cluster, `${kindOf(index).resource}.${GROUP}`)));
}

/**
 * A policy for a kind: a default, a reference to an object of the next kind, a unique serial number, and a rule. Each
 * policy makes a replica watch two kinds: the governed kind and the referenced kind.
 *
 * @param name must be unique. Several policies for the same kind are compatible
 */
export function policyOf(name: string, index: number, kinds: number): KubeObject & { readonly spec: object } {
  return admissionPolicy(name, {
    match: { apiGroups: [GROUP], apiVersions: ['v1'], resources: [kindOf(index).resource] },
    defaults: [{ path: 'spec.tier', value: 'standard' }],
    validate: {
      references: [
        {
          name: 'partner',
          path: 'spec.partner',
          optional: true,
          target: { apiGroup: GROUP, resource: kindOf((index + 1) % kinds).resource },
        },
      ],
      unique: [{ name: 'serial', paths: ['spec.serial'] }],
      rules: [
        {
          name: 'size',
          expression: '!has(object.spec.size) || object.spec.size <= 100',
          message: 'it is too large',
        },
      ],
    },
  });
}

export const times = (count: number, work: (index: number) => Promise<unknown>) =>
  mapConcurrent([...Array(count).keys()], 16, work);
