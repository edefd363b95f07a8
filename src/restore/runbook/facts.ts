/** What a runbook depends on: the backup, the cluster, and how the user wants to restore. */
import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import { GROUP } from '../../api/group.ts';
import { toGroupResource } from '../../api/policy-match.ts';
import type { RestoreDetector } from '../../api/restore-detector.ts';
import { objectIn, textIn, type JsonObject } from '../../json/json.ts';
import { groupResourceName, type GroupResource, type KubeObject } from '../../json/kube-object.ts';
import { mappedNamespace } from '../backup/restored-object.ts';

export interface BackedUp {
  readonly resource: GroupResource;
  readonly object: KubeObject;
}

export interface TargetCluster {
  readonly server: string;
  /** E.g. `v1.36.2`. */
  readonly version: string;
  /** The resources that the API server serves, as `servers.infra.example.com`. */
  readonly served: ReadonlySet<string>;
  /** Empty if Gatehouse is not installed. */
  readonly policies: readonly AdmissionPolicy[];
  readonly detectors: readonly RestoreDetector[];
}

/** The flags of Velero that the commands of the runbook repeat. */
export interface RestoreChoices {
  readonly kubeconfig?: string;
  /** The context of the kubeconfig. */
  readonly context?: string;
  /** The archive or folder that the user has. */
  readonly path: string;
  /** Its name in Velero. */
  readonly backup: string;
  readonly veleroNamespace: string;
  readonly includeNamespaces: readonly string[];
  /** As `from:to`. */
  readonly namespaceMapping: Readonly<Record<string, string>>;
  readonly existingResourcePolicy: 'none' | 'update';
}

export interface RunbookFacts {
  readonly items: readonly BackedUp[];
  readonly cluster: TargetCluster;
  readonly choices: RestoreChoices;
}

export const DEFINITIONS = 'customresourcedefinitions.apiextensions.k8s.io';

export const nameOf = ({ metadata }: KubeObject): string => metadata?.name ?? '';

/** The items by their resource, in alphabetical order. */
export function byResource(items: readonly BackedUp[]): readonly (readonly [string, readonly BackedUp[]])[] {
  const groups = Map.groupBy(items, ({ resource }) => groupResourceName(resource));
  return [...groups].toSorted(([a], [b]) => (a < b ? -1 : 1));
}

export const ofResource = (items: readonly BackedUp[], name: string): readonly BackedUp[] =>
  items.filter(({ resource }) => groupResourceName(resource) === name);

/** Empty for a cluster-scoped object. A forged object can have a namespace that is not a string. */
export const namespaceOf = ({ object }: BackedUp): string => textIn(object, 'metadata', 'namespace');

/** The namespace into which Velero restores the object. */
export const restoredNamespaceOf = (item: BackedUp, choices: RestoreChoices): string =>
  mappedNamespace(namespaceOf(item), choices) ?? '';

/** A forged object can have labels of any type. */
export const labelsOf = ({ object }: BackedUp): JsonObject => objectIn(object, 'metadata', 'labels');

/** The namespaces of the backup's objects. */
export const namespacesOf = (items: readonly BackedUp[]): readonly string[] =>
  [...new Set(items.map(namespaceOf))].filter((namespace) => namespace !== '').toSorted();

export const isInstalled = ({ served }: TargetCluster): boolean => served.has(`admissionpolicies.${GROUP}`);

export const isOwn = ({ resource }: BackedUp): boolean => resource.group === GROUP;

/** Whether a policy governs a resource. Policies have no wildcards. */
export const governs = ({ spec }: AdmissionPolicy, { group, resource }: GroupResource): boolean =>
  spec.match.apiGroups.includes(group) && spec.match.resources.includes(resource);

/** As for Velero, `*` means all. */
export const restoresAllNamespaces = ({ includeNamespaces }: RestoreChoices): boolean =>
  includeNamespaces.length === 0 || includeNamespaces.includes('*');

/** Cluster-scoped kinds that policies reference, if the user selects namespaces: Velero then omits them. */
export function clusterScopedTargets({ items, cluster, choices }: RunbookFacts): readonly string[] {
  if (restoresAllNamespaces(choices)) return [];
  const targets = new Set(
    cluster.policies.flatMap(({ spec }) =>
      (spec.validate?.references ?? []).map(({ target }) => groupResourceName(toGroupResource(target))),
    ),
  );
  return byResource(items)
    .filter(([name, group]) => targets.has(name) && group.every((item) => namespaceOf(item) === ''))
    .map(([name]) => name);
}
