/** Workloads of a backup whose accounts may create or delete the objects that policies govern. */
import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import { listIn, textIn } from '../../json/json.ts';
import { groupResourceName, type GroupResource } from '../../json/kube-object.ts';
import { governs, nameOf, namespaceOf, ofResource, type BackedUp } from './facts.ts';

export interface Writer {
  readonly workload: BackedUp;
  /** The governed resources, as `servers.infra.example.com`. */
  readonly writes: readonly string[];
}

const WORKLOADS = ['deployments.apps', 'statefulsets.apps', 'daemonsets.apps'];
const RBAC = 'rbac.authorization.k8s.io';
const VERBS = new Set(['create', 'delete', 'deletecollection', '*']);

export function writersOf(
  items: readonly BackedUp[],
  policies: readonly AdmissionPolicy[],
): readonly Writer[] {
  const kinds = new Map(items.map(({ resource }) => [groupResourceName(resource), resource]));
  const governed = [...kinds.values()].filter((kind) => policies.some((policy) => governs(policy, kind)));
  const rights = writableByAccount(items, governed);
  return WORKLOADS.flatMap((resource) => ofResource(items, resource)).flatMap((workload) => {
    const writes = rights.get(accountOf(workload));
    return writes === undefined ? [] : [{ workload, writes: [...writes].toSorted() }];
  });
}

/** The account of a workload, as `namespace/name`. */
function accountOf(workload: BackedUp): string {
  const name = textIn(workload.object, 'spec', 'template', 'spec', 'serviceAccountName');
  return `${namespaceOf(workload)}/${name === '' ? 'default' : name}`;
}

/** What each account that a binding names may create or delete. */
function writableByAccount(
  items: readonly BackedUp[],
  governed: readonly GroupResource[],
): ReadonlyMap<string, ReadonlySet<string>> {
  const roles = new Map(
    ['clusterroles', 'roles'].flatMap((resource) =>
      ofResource(items, `${resource}.${RBAC}`).map((role) => [
        `${resource}/${namespaceOf(role)}/${nameOf(role.object)}`,
        governed.filter((kind) => listIn(role.object, 'rules').some((rule) => allows(rule, kind))),
      ]),
    ),
  );
  const found = new Map<string, Set<string>>();
  for (const resource of ['clusterrolebindings', 'rolebindings'])
    for (const binding of ofResource(items, `${resource}.${RBAC}`)) {
      const { object } = binding;
      const namespace = namespaceOf(binding);
      const isRole = textIn(object, 'roleRef', 'kind') === 'Role';
      const role = `${isRole ? `roles/${namespace}` : 'clusterroles/'}/${textIn(object, 'roleRef', 'name')}`;
      const kinds = (roles.get(role) ?? []).map(groupResourceName);
      if (kinds.length === 0) continue;
      for (const subject of listIn(object, 'subjects')) {
        if (textIn(subject, 'kind') !== 'ServiceAccount') continue;
        const account = `${textIn(subject, 'namespace')}/${textIn(subject, 'name')}`;
        found.set(account, new Set([...(found.get(account) ?? []), ...kinds]));
      }
    }
  return found;
}

function allows(rule: unknown, { group, resource }: GroupResource): boolean {
  const has = (key: string, accept: (value: unknown) => boolean) => listIn(rule, key).some(accept);
  return (
    has('verbs', (verb) => typeof verb === 'string' && VERBS.has(verb)) &&
    has('apiGroups', (one) => one === group || one === '*') &&
    has('resources', (one) => one === resource || one === '*')
  );
}
