/** Workloads of a backup that may act on half a cluster: their accounts write to governed kinds, and nothing pauses them. */
import type { QuiesceRule } from '../../../api/quiesce.ts';
import { toGroupResource } from '../../../api/policy-match.ts';
import { listIn, textIn } from '../../../json/json.ts';
import { groupResourceName, type GroupResource } from '../../../json/kube-object.ts';
import type { BackupItem } from '../../../restore/backup/backup.ts';
import { mappedNamespace, type RestoreNames } from '../../../restore/backup/restored-object.ts';

export interface Writer {
  readonly workload: BackupItem;
  /** What it may create or delete, as `servers.infra.example.com`. */
  readonly writes: readonly string[];
}

const WORKLOADS = ['deployments.apps', 'statefulsets.apps', 'daemonsets.apps'];
const RBAC = 'rbac.authorization.k8s.io';
const VERBS = new Set(['create', 'delete', 'deletecollection', '*']);

export function unpausedWriters(
  items: readonly BackupItem[],
  governed: readonly GroupResource[],
  rules: readonly QuiesceRule[],
  names: Pick<RestoreNames, 'namespaceMapping'>,
): readonly Writer[] {
  const rights = writableByAccount(items, governed);
  return WORKLOADS.flatMap((resource) => ofResource(items, resource))
    .filter((workload) => !rules.some((rule) => pauses(rule, workload, names)))
    .flatMap((workload) => {
      const writes = rights.get(accountOf(workload));
      return writes === undefined ? [] : [{ workload, writes: [...writes].toSorted() }];
    });
}

const ofResource = (items: readonly BackupItem[], name: string): readonly BackupItem[] =>
  items.filter(({ resource }) => groupResourceName(resource) === name);

/** Rules name the namespaces of the cluster, not of the backup. */
const pauses = (
  rule: QuiesceRule,
  { resource, namespace, object }: BackupItem,
  names: Pick<RestoreNames, 'namespaceMapping'>,
): boolean =>
  groupResourceName(toGroupResource(rule)) === groupResourceName(resource) &&
  (rule.namespaces?.includes(mappedNamespace(namespace, names) ?? '') ?? true) &&
  Object.entries(rule.matchLabels).every(
    ([key, wanted]) => textIn(object, 'metadata', 'labels', key) === wanted,
  );

/** The account of a workload, as `namespace/name`. */
function accountOf({ object, namespace = '' }: BackupItem): string {
  const name = textIn(object, 'spec', 'template', 'spec', 'serviceAccountName');
  return `${namespace}/${name === '' ? 'default' : name}`;
}

/** What each account that a binding names may create or delete. */
function writableByAccount(
  items: readonly BackupItem[],
  governed: readonly GroupResource[],
): ReadonlyMap<string, ReadonlySet<string>> {
  const roles = new Map(
    ['clusterroles', 'roles'].flatMap((resource) =>
      ofResource(items, `${resource}.${RBAC}`).map(({ object, namespace = '', name }) => [
        `${resource}/${namespace}/${name}`,
        governed.filter((kind) => listIn(object, 'rules').some((rule) => allows(rule, kind))),
      ]),
    ),
  );
  const found = new Map<string, Set<string>>();
  for (const resource of ['clusterrolebindings', 'rolebindings'])
    for (const { object, namespace = '' } of ofResource(items, `${resource}.${RBAC}`)) {
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
