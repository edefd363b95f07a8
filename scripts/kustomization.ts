import { readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { parse, parseAllDocuments } from 'yaml';

import type { KubeObject } from '../src/json/kube-object.ts';

/** The fields of a kustomization.yaml that `deploy/` uses, except patches. */
interface Kustomization {
  readonly namespace?: string;
  readonly resources?: readonly string[];
  readonly components?: readonly string[];
}

const KNOWN = new Set(['apiVersion', 'kind', 'namespace', 'resources', 'components']);

/** The order of installation. Other kinds are an error. */
const ORDER = [
  'Namespace',
  'CustomResourceDefinition',
  'ServiceAccount',
  'Role',
  'ClusterRole',
  'RoleBinding',
  'ClusterRoleBinding',
  'Service',
  'Deployment',
  'PodDisruptionBudget',
  'NetworkPolicy',
  'ValidatingAdmissionPolicy',
  'ValidatingAdmissionPolicyBinding',
] as const;
const CLUSTER_SCOPED: ReadonlySet<string> = new Set([
  'Namespace',
  'CustomResourceDefinition',
  'ClusterRole',
  'ClusterRoleBinding',
  'ValidatingAdmissionPolicy',
  'ValidatingAdmissionPolicyBinding',
]);

/**
 * The objects that `kubectl kustomize <folder>` prints, without kubectl, in the order of installation.
 * @throws Error for a kustomization with patches or other unsupported fields, and for a kind that is not in ORDER
 */
export function readKustomization(folder: string): readonly KubeObject[] {
  return read(folder).toSorted((a, b) => rank(a) - rank(b));
}

function read(folder: string): readonly KubeObject[] {
  const file = join(folder, 'kustomization.yaml');
  const content = parse(readFileSync(file, 'utf8')) as Kustomization; // our own file; the next lines check its keys
  const unknown = Object.keys(content).filter((key) => !KNOWN.has(key));
  if (unknown.length > 0)
    throw new Error(`${file}: ${unknown.join(', ')}: not known to scripts/kustomization.ts`);

  const { namespace, resources = [], components = [] } = content;
  return [...resources, ...components]
    .map((path) => join(folder, path))
    .flatMap((path) => (statSync(path).isDirectory() ? read(path) : readObjects(path)))
    .map((object) => (namespace === undefined ? object : inNamespace(object, namespace)));
}

const readObjects = (file: string): readonly KubeObject[] =>
  parseAllDocuments(readFileSync(file, 'utf8')).map((document) => document.toJS() as KubeObject); // our own files

const inNamespace = (object: KubeObject, namespace: string): KubeObject =>
  CLUSTER_SCOPED.has(object.kind ?? '') ? object : { ...object, metadata: { ...object.metadata, namespace } };

function rank({ kind = '' }: KubeObject): number {
  const index = ORDER.findIndex((known) => known === kind);
  if (index < 0) throw new Error(`scripts/kustomization.ts: where in ORDER does ${kind} belong?`);
  return index;
}
