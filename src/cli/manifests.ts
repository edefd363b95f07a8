/** `gatehouse manifests`: what a cluster needs beside `deploy/` for the handlers that this Gatehouse runs. */
import { stringify } from 'yaml';

import type { CompiledHandler } from '../admission/handlers/compile-handler.ts';
import { groupResourceName } from '../json/kube-object.ts';
import type { Config } from '../config/config.ts';
import { AGGREGATION_LABEL } from '../runtime/policies/read-access.ts';
import { compileHandlers, loadHandlers } from '../runtime/handlers/load-handlers.ts';

/**
 * YAML to apply: a ClusterRole with what the handlers read, which the ClusterRole `gatehouse-references` takes in by its label.
 *
 * @throws InvalidHandlers with everything that is wrong with the handlers
 */
export async function manifests(
  { handlers, namespace }: Pick<Config, 'handlers' | 'namespace'>,
  from: string,
): Promise<string> {
  const loaded = handlers === undefined ? [] : await loadHandlers(handlers, from);
  // Which API server it will be is not known here; `serve` refuses matchConditions on one that is too old.
  const compiled = compileHandlers(loaded, { ownNamespace: namespace, matchConditions: true });
  const role = readingRole(compiled);
  if (role === undefined) return '# No handler reads anything: there is nothing to apply.\n';
  return `${comment(compiled)}${stringify(role)}`;
}

function comment(handlers: readonly CompiledHandler[]): string {
  const reading = handlers.filter(({ reads }) => reads.length > 0);
  const lines = reading.map(({ name, reads, namesReads }) => {
    const kinds = reads.map(groupResourceName).join(', ');
    return `#   ${name}: ${kinds}${namesReads ? '' : ' (what it governs, as it has no reads)'}\n`;
  });
  return `# What handlers read, for the ClusterRole gatehouse-references to take in:\n${lines.join('')}`;
}

/** The ClusterRole with what handlers read; undefined when they read nothing. */
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
