/** `gatehouse manifests`: the manifests that handlers need in addition to `deploy/`. */
import { stringify } from 'yaml';

import type { CompiledHandler } from '../admission/handlers/compile-handler.ts';
import { groupResourceName } from '../json/kube-object.ts';
import type { Config } from '../config/config.ts';
import { AGGREGATION_LABEL } from '../runtime/policies/read-access.ts';
import { compileHandlers, loadHandlers } from '../runtime/handlers/load-handlers.ts';

/**
 * A ClusterRole for the kinds that handlers read, as YAML. The ClusterRole `gatehouse-references` aggregates it by its
 * label.
 *
 * @throws InvalidHandlers with all problems of the handlers
 */
export async function manifests(
  { handlers, namespace }: Pick<Config, 'handlers' | 'namespace'>,
  from: string,
): Promise<string> {
  const loaded = handlers === undefined ? [] : await loadHandlers(handlers, from);
  // The version of the API server is unknown here; `serve` rejects matchConditions if it is too old.
  const compiled = compileHandlers(loaded, { ownNamespace: namespace, matchConditions: true });
  const role = readingRole(compiled);
  if (role === undefined) return '# No handler reads other objects: nothing to apply.\n';
  return `${comment(compiled)}${stringify(role)}`;
}

function comment(handlers: readonly CompiledHandler[]): string {
  const reading = handlers.filter(({ reads }) => reads.length > 0);
  const lines = reading.map(({ name, reads, namesReads }) => {
    const kinds = reads.map(groupResourceName).join(', ');
    return `#   ${name}: ${kinds}${namesReads ? '' : ' (the kinds that it governs, because it has no reads)'}\n`;
  });
  return `# Kinds that handlers read; the ClusterRole gatehouse-references aggregates this role:\n${lines.join('')}`;
}

/** The ClusterRole for the kinds that handlers read; undefined if handlers read no kinds. */
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
