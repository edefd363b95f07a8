/** Random backups: cycles, chains, references across namespaces, dangling references, and refused objects. */
import { application, REFUSED_SLUG, zone, type ApplicationSpec } from './restore-kinds.ts';
import type { RestoreSpec } from './real-velero/runs.ts';
import { asReturned } from './restore-scene.ts';
import type { Seeded } from './seeded.ts';

interface Ref {
  readonly namespace: string;
  readonly name: string;
}

/** Share of the objects that the backup leaves out. */
const LEFT_OUT = 0.15;

export function randomGraph(name: string, seeded: Seeded) {
  const namespaces = Array.from({ length: 1 + seeded.below(3) }, (_, index) => `${name}-n${index}`);
  const zones = Array.from({ length: 1 + seeded.below(3) }, (_, index) => `${name}-z${index}`);
  const refs: readonly Ref[] = Array.from({ length: 2 + seeded.below(9) }, (_, index) => ({
    namespace: seeded.pick(namespaces),
    name: `app-${index}`,
  }));
  const objects = [
    ...refs.map((ref) => application(ref.namespace, ref.name, specOf(ref, refs, zones, seeded))),
    ...zones.map(zone),
  ].map(asReturned);
  const mapping = seeded.chance(0.3)
    ? Object.fromEntries(namespaces.filter(() => seeded.chance(0.6)).map((one) => [one, `${one}-copy`]))
    : {};
  const included = seeded.chance(0.2) ? [seeded.pick(namespaces)] : undefined;
  const backup = seeded.shuffle(objects.filter(() => !seeded.chance(LEFT_OUT)));
  const spec: RestoreSpec = {
    ...(Object.keys(mapping).length === 0 ? {} : { namespaceMapping: mapping }),
    ...(included && { includedNamespaces: included }),
  };
  return { backup, spec };
}

function specOf(
  { namespace }: Ref,
  refs: readonly Ref[],
  zones: readonly string[],
  seeded: Seeded,
): ApplicationSpec {
  const here = refs.filter((ref) => ref.namespace === namespace);
  return {
    ...(seeded.chance(0.6) ? { zone: seeded.pick(zones) } : {}),
    ...(seeded.chance(0.5) ? { parent: seeded.pick(here).name } : {}),
    ...(seeded.chance(0.4) ? { peer: seeded.pick(refs) } : {}),
    ...(seeded.chance(0.15) ? { slug: REFUSED_SLUG } : {}),
  };
}
