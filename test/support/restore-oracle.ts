/** The expected content of a report, computed from stored objects without product code. */
import type { Violation } from '../../src/api/restore-window.ts';
import type { KubeClient } from '../../src/kube/client.ts';
import { APPLICATIONS, ZONES, type Application } from './restore-kinds.ts';

/** One violation as a line: `east/cart spec.zone TargetMissing zones/red`. */
export type Line = string;

/** Dangling references in these namespaces, and references from a copied namespace to an original one. */
export async function brokenIn(
  client: KubeClient,
  among: ReadonlySet<string>,
  mapping: Readonly<Record<string, string>> = {},
): Promise<readonly Line[]> {
  const [zones, apps] = await Promise.all([client.listAll(ZONES), client.listAll<Application>(APPLICATIONS)]);
  const there = new Set([
    ...zones.items.map(({ metadata }) => `zones/${metadata?.name ?? ''}`),
    ...apps.items.map(({ metadata }) => `applications/${metadata?.namespace ?? ''}/${metadata?.name ?? ''}`),
  ]);
  return apps.items
    .filter(({ metadata }) => among.has(metadata?.namespace ?? ''))
    .flatMap(({ metadata, spec: { zone, parent, peer } }) => {
      const { namespace = '', name = '' } = metadata ?? {};
      const named: readonly (readonly [string, string])[] = [
        ...(zone === undefined ? [] : [['spec.zone', `zones/${zone}`] as const]),
        ...(parent === undefined ? [] : [['spec.parent', `applications/${namespace}/${parent}`] as const]),
        ...(peer === undefined
          ? []
          : [['spec.peer.name', `applications/${peer.namespace}/${peer.name}`] as const]),
      ];
      const line = (field: string, reason: string, target: string) =>
        `${namespace}/${name} ${field} ${reason} ${target}`;
      const crosses =
        Object.values(mapping).includes(namespace) && Object.hasOwn(mapping, peer?.namespace ?? '');
      return named.flatMap(([field, target]) => [
        ...(there.has(target) ? [] : [line(field, 'TargetMissing', target)]),
        ...(crosses && field === 'spec.peer.name' ? [line(field, 'CrossesNamespaceMapping', target)] : []),
      ]);
    })
    .toSorted();
}

export function linesOf(violations: readonly Violation[], among: ReadonlySet<string>): readonly Line[] {
  return violations
    .filter(({ object }) => among.has(object.namespace ?? ''))
    .map(({ object: { namespace = '', name }, field, reason, target }) => {
      const place = target?.namespace === undefined ? '' : `${target.namespace}/`;
      return `${namespace}/${name} ${field} ${reason} ${target?.resource ?? ''}/${place}${target?.name ?? ''}`;
    })
    .toSorted();
}
