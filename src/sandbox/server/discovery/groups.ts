import { apiVersionOf, type ResourceType, compareVersions } from '../../machinery/resource-type.ts';

export interface ServedVersion {
  readonly version: string;
  /** `v1`, `infra.example.com/v1`. */
  readonly groupVersion: string;
  readonly types: readonly ResourceType[];
}

export interface ServedGroup {
  readonly name: string;
  /** The preferred first; never empty. */
  readonly versions: readonly ServedVersion[];
}

/** The API server's own groups in the order in which it lists them; clients take the first group that fits a short name. */
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

/** What is served, by group and version, in the order of discovery: our own groups before those of CRDs, which go by name. */
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
