import { apiVersionOf, type ResourceType, compareVersions } from '../../machinery/resource-type.ts';

export interface ServedVersion {
  readonly version: string;
  /** `v1`, `infra.example.com/v1`. */
  readonly groupVersion: string;
  readonly types: readonly ResourceType[];
}

export interface ServedGroup {
  readonly name: string;
  /** The preferred version first; never empty. */
  readonly versions: readonly ServedVersion[];
}

/** The API server's own groups in its order; clients resolve a short name in the first group that has it. */
const PRIORITY = [
  '',
  'apiregistration.k8s.io',
  'apps',
  'events.k8s.io',
  'authentication.k8s.io',
  'authorization.k8s.io',
  'autoscaling',
  'batch',
  'certificates.k8s.io',
  'networking.k8s.io',
  'policy',
  'rbac.authorization.k8s.io',
  'storage.k8s.io',
  'admissionregistration.k8s.io',
  'apiextensions.k8s.io',
  'scheduling.k8s.io',
  'coordination.k8s.io',
  'node.k8s.io',
  'discovery.k8s.io',
];

/** Served groups and versions in discovery order: built-in groups before groups of CRDs, which are sorted by name. */
export function groupsOf(types: readonly ResourceType[]): readonly ServedGroup[] {
  return [...Map.groupBy(types, ({ group }) => group)]
    .map(([name, members]) => ({ name, versions: versionsOf(name, members) }))
    .toSorted((left, right) => compareGroups(left.name, right.name));
}

function versionsOf(group: string, types: readonly ResourceType[]): readonly ServedVersion[] {
  return [...Map.groupBy(types, ({ version }) => version)]
    .map(([version, members]) => ({
      version,
      groupVersion: apiVersionOf({ group, version }),
      types: members.toSorted((left, right) => compareText(left.resource, right.resource)),
    }))
    .toSorted((left, right) => compareVersions(left.version, right.version));
}

function compareGroups(left: string, right: string): number {
  const [a, b] = [PRIORITY.indexOf(left), PRIORITY.indexOf(right)];
  if (a === -1 && b === -1) return compareText(left, right);
  return a === -1 ? 1 : b === -1 ? -1 : a - b;
}

const compareText = (left: string, right: string): number => (left < right ? -1 : Number(left > right));
