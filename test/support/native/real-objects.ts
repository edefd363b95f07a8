/** What a real API server needs before it can judge generated requests. */
import { installedOf } from '../../../src/admission/native/installed-policy.ts';
import type { NativePair } from '../../../src/admission/native/native-policy.ts';
import type { KubeObject } from '../../../src/json/kube-object.ts';
import { GROUP } from '../admission/policy.ts';
import { ANY, definitionOf, resourceOf, versionOf } from '../definitions.ts';
import { SCALED } from './real-requests.ts';

const SCALE = { specReplicasPath: '.spec.replicas', statusReplicasPath: '.status.replicas' };

// Where a kind has a scale, its spec must be a map.
const versions = [
  versionOf('v1', ANY, { subresources: { status: {} } }),
  versionOf(SCALED, ANY, { storage: false, subresources: { status: {}, scale: SCALE } }),
];

export const KINDS: readonly KubeObject[] = [
  resourceOf(GROUP, 'servers', 'Server'),
  resourceOf(GROUP, 'datacenters', 'Datacenter', false),
  resourceOf(GROUP, 'classes', 'Class'),
].map((kind) => definitionOf(kind, { versions }));

/** Everybody may do everything: only the policies judge. */
const apiGroup = 'rbac.authorization.k8s.io';
export const OPEN: KubeObject = {
  apiVersion: `${apiGroup}/v1`,
  kind: 'ClusterRoleBinding',
  metadata: { name: 'everybody' },
  ...{
    roleRef: { apiGroup, kind: 'ClusterRole', name: 'cluster-admin' },
    subjects: [{ apiGroup, kind: 'Group', name: 'system:authenticated' }],
  },
};

/** Of all policies that name another namespace, or a cluster-scoped object. */
export const SHARED_PARAMS: readonly KubeObject[] = [
  {
    apiVersion: `${GROUP}/v1`,
    kind: 'Class',
    metadata: { name: 'limits', namespace: 'platform' },
    ...{ spec: { most: 3, tiers: ['gold'] } },
  },
  {
    apiVersion: `${GROUP}/v1`,
    kind: 'Datacenter',
    metadata: { name: 'limits' },
    ...{ spec: { most: '3', tiers: [] } },
  },
];

/** What Gatehouse installs, without its owner: the garbage collector would delete it. */
export function unowned(pair: NativePair, name: string) {
  const { policy, binding } = installedOf(pair, { name, uid: '1' });
  const free = (object: KubeObject): KubeObject => ({
    ...object,
    metadata: { ...object.metadata, ownerReferences: [] },
  });
  return { policy: free(policy), binding: free(binding) };
}
