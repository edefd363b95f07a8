import type { CompiledHandler } from '../admission/handlers/compile-handler.ts';
import { compileController, type CompiledController } from '../controllers/compile-controller.ts';
import { groupResourceName, type KubeObject } from '../json/kube-object.ts';
import type { ConfigOf } from '../config/config.ts';
import { AGGREGATION_LABEL } from '../runtime/policies/read-access.ts';
import {
  compileHandlers,
  loadModules,
  NOTHING,
  type LoadedController,
} from '../runtime/handlers/load-handlers.ts';
import { toYaml } from './terminal/output.ts';

/** A ClusterRole for what handlers read, which `gatehouse-references` aggregates by its label, and one for controllers. */
export async function manifests({ handlers, namespace }: ConfigOf<'manifests'>): Promise<string> {
  const loaded = handlers === undefined ? NOTHING : await loadModules(handlers, process.cwd());
  const compiled = compileHandlers(loaded.handlers, { ownNamespace: namespace });
  const role = readingRole(compiled);
  const parts = [
    ...(role === undefined ? [] : [`${comment(compiled)}${toYaml(role)}`]),
    ...controllerRoles(loaded.controllers, namespace).map((object) => toYaml(object)),
  ];
  return parts.length === 0 ? '# No handler reads other objects: nothing to apply.\n' : parts.join('---\n');
}

function comment(handlers: readonly CompiledHandler[]): string {
  const reading = handlers.filter(({ reads }) => reads.length > 0);
  const lines = reading.map(({ name, reads, namesReads }) => {
    const kinds = reads.map(groupResourceName).join(', ');
    return `#   ${name}: ${kinds}${namesReads ? '' : ' (the kinds that it governs, because reads is absent)'}\n`;
  });
  return `# Kinds that handlers read; the ClusterRole gatehouse-references aggregates this role:\n${lines.join('')}`;
}

export function readingRole(handlers: readonly CompiledHandler[]) {
  const kinds = handlers.flatMap(({ reads }) => reads);
  if (kinds.length === 0) return undefined;
  const byGroup = Map.groupBy(kinds, ({ group }) => group);
  return {
    apiVersion: 'rbac.authorization.k8s.io/v1',
    kind: 'ClusterRole',
    metadata: { name: 'gatehouse-references-handlers', labels: { [AGGREGATION_LABEL]: 'true' } },
    rules: [...byGroup.keys()].sort().map((group) => ({
      apiGroups: [group],
      resources: [...new Set(byGroup.get(group)?.map(({ resource }) => resource))].sort(),
      verbs: ['get', 'list', 'watch'],
    })),
  };
}

const WRITE = ['get', 'list', 'watch', 'create', 'patch', 'delete'];
const READ = ['get', 'list', 'watch'];

export function controllerRoles(
  loaded: readonly LoadedController[],
  namespace: string,
): readonly KubeObject[] {
  if (loaded.length === 0) return [];
  const rules = loaded.flatMap(({ name, controller }) => rulesOf(compileController(name, controller)));
  const metadata = { name: 'gatehouse-controllers-of-users' };
  const rbac = 'rbac.authorization.k8s.io';
  const role = { apiVersion: `${rbac}/v1`, kind: 'ClusterRole', metadata, rules };
  const binding = {
    apiVersion: `${rbac}/v1`,
    kind: 'ClusterRoleBinding',
    metadata,
    roleRef: { apiGroup: rbac, kind: role.kind, name: metadata.name },
    // With one Deployment, the account is `gatehouse`.
    subjects: ['gatehouse-controllers', 'gatehouse'].map((name) => ({
      kind: 'ServiceAccount',
      name,
      namespace,
    })),
  };
  return [role, binding];
}

/** deploy/components/backstop requires it for writes of these kinds. */
const mayOwn = (owns: CompiledController['owns']) => ({
  apiGroups: ['gatehouse.dev'],
  resources: ['ownedkinds'],
  verbs: ['write'],
  resourceNames: owns.map(groupResourceName),
});

function rulesOf({ watched, owns, reads, rules, writesStatus }: CompiledController): readonly object[] {
  const rule = ({ group }: { readonly group: string }, resources: string[], verbs: readonly string[]) => ({
    apiGroups: [group],
    resources,
    verbs,
  });
  const { resource } = watched;
  const own = new Set([watched, ...owns].map(groupResourceName));
  const others = reads.filter((kind) => !own.has(groupResourceName(kind)));
  return [
    rule(watched, [resource], [...READ, 'patch']),
    ...(writesStatus ? [rule(watched, [`${resource}/status`], ['patch'])] : []),
    // The admission plugin OwnerReferencesPermissionEnforcement asks for it.
    rule(watched, [`${resource}/finalizers`], ['update']),
    ...owns.map((kind) => rule(kind, [kind.resource], WRITE)),
    ...(owns.length === 0 ? [] : [mayOwn(owns)]),
    ...others.map((kind) => rule(kind, [kind.resource], READ)),
    ...rules,
  ];
}
