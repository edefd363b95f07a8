/** Whether the kinds of Gatehouse are served as this program knows them. */
import { customResourceDefinitions } from '../../../../api/crds.ts';
import { VERSION } from '../../../../api/group.ts';
import { isRecord } from '../../../../kube/object.ts';
import type { Definition, Evidence } from '../evidence.ts';
import { ok, orElse, problem, someOf, warning, type Finding } from '../finding.ts';
import { judgeLook } from '../look.ts';

const CHECK = 'definitions';
const APPLY = 'kubectl apply -k deploy, from the release of this program';

export const checkDefinitions = ({ definitions }: Pick<Evidence, 'definitions'>): readonly Finding[] =>
  judgeLook(CHECK, definitions, (live) => {
    const shipped = customResourceDefinitions();
    const findings = shipped.flatMap(({ manifest }) => {
      const wanted = manifest as Definition; // the shape that `api/crds.ts` makes
      const name = wanted.metadata?.name ?? '';
      return judge(name, wanted, live.get(name));
    });
    return orElse(findings, ok(CHECK, `${shipped.length} kinds are served as ${VERSION}`));
  });

function judge(name: string, wanted: Definition, live: Definition | undefined): readonly Finding[] {
  if (live === undefined) return [problem(CHECK, `there is no CustomResourceDefinition ${name}`, APPLY)];
  const version = versionIn(live);
  if (version?.served !== true) {
    const served = live.spec?.versions?.filter((one) => one.served).map((one) => one.name) ?? [];
    return [problem(CHECK, `${name} is served as ${someOf(served) || 'nothing'}, not as ${VERSION}`, APPLY)];
  }
  const established = live.status?.conditions?.find(({ type }) => type === 'Established');
  if (established?.status !== 'True') {
    const next = `kubectl describe crd ${name}`;
    return [problem(CHECK, `${name} is not established: ${established?.message ?? 'no reason given'}`, next)];
  }
  const missing = missingFields(
    versionIn(wanted)?.schema?.openAPIV3Schema,
    version.schema?.openAPIV3Schema,
    '',
  );
  if (missing.length === 0) return [];
  return [
    warning(CHECK, `${name} is of another release: it does not know ${someOf(missing)}, and drops it`, APPLY),
  ];
}

const versionIn = ({ spec }: Definition) => spec?.versions?.find(({ name }) => name === VERSION);

/** The paths of the fields that `wanted` describes and `live` does not; what is below them is not listed. */
function missingFields(wanted: unknown, live: unknown, path: string): readonly string[] {
  if (!isRecord(wanted) || !isRecord(live)) return [];
  const properties = isRecord(wanted.properties) ? wanted.properties : {};
  const known = isRecord(live.properties) ? live.properties : {};
  const below = Object.entries(properties).flatMap(([name, schema]) =>
    Object.hasOwn(known, name)
      ? missingFields(schema, known[name], `${path}.${name}`)
      : [`${path}.${name}`.slice(1)],
  );
  return [...below, ...missingFields(wanted.items, live.items, `${path}[]`)];
}
