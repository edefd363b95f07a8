/** Checks the CustomResourceDefinitions of Gatehouse and the permissions of its ServiceAccounts. */
import { someOf } from '../../../../json/counted.ts';
import { customResourceDefinitions } from '../../../../api/crds.ts';
import { VERSION } from '../../../../api/group.ts';
import type { Part } from '../../../../config/parts.ts';
import { groupResourceName } from '../../../../json/kube-object.ts';
import { isJsonObject, objectIn, uniqueBy } from '../../../../json/json.ts';
import type { AccessQuestion } from '../../../../kube/access.ts';
import { shorten } from '../../../../json/printable.ts';
import { isUntested, UPGRADE, versionProblem } from '../../../../kube/discovery.ts';
import { APPLY_MANIFESTS } from '../../../deploy-manifests.ts';
import type { GovernedKind } from '../../read-cluster/access.ts';
import type { Definition, InstallationReadings } from '../../read-cluster/read-installation.ts';
import { judgeReading, ok, orElse, problem, type Results, unknown, warning } from '../finding.ts';

const APPLY = `${APPLY_MANIFESTS}, from the release of this program`;

export const checkVersion = ({ version }: InstallationReadings): Results => {
  const seen = versionProblem(version);
  if (seen !== undefined) return problem(seen, UPGRADE);
  if (version.gitVersion === '')
    return unknown(
      'the API server did not return its version',
      'check whether this user can get the path /version (kubectl auth can-i get /version)',
    );
  return ok(
    `the API server runs Kubernetes ${shorten(version.gitVersion, 64)}${isUntested(version) ? ', which is newer than this release of Gatehouse' : ''}`,
  );
};

export const checkRestrictions = ({
  restrictions: { without, namespaces },
}: InstallationReadings): Results => {
  const parts = without.length === 0 ? 'all parts run' : `off (--without): ${without.join(', ')}`;
  const places =
    namespaces === undefined
      ? 'in all namespaces'
      : `only in namespaces ${namespaces.join(', ')} (--namespaces)`;
  return ok(`${parts}; ${places}`);
};

const KINDS_OF_PARTS: Readonly<Partial<Record<Part, readonly string[]>>> = {
  conversions: ['conversionpolicies'],
  restores: ['restoredetectors', 'restorereports', 'restorewindows'],
};

export const checkDefinitions = ({ definitions, restrictions }: InstallationReadings): Results =>
  judgeReading(definitions, (live) => {
    const unused = restrictions.without.flatMap((part) => KINDS_OF_PARTS[part] ?? []);
    const shipped = customResourceDefinitions().filter(({ name }) => !unused.includes(name));
    const findings = shipped.flatMap(({ manifest }) => {
      const wanted = manifest as Definition; // `api/crds.ts` generates this type
      const name = wanted.metadata?.name ?? '';
      return judgeDefinition(name, wanted, live.get(name));
    });
    return orElse(findings, ok(`${shipped.length} kinds are served as ${VERSION}`));
  });

function judgeDefinition(name: string, wanted: Definition, live: Definition | undefined): Results {
  if (live === undefined) return problem(`CustomResourceDefinition ${name} does not exist`, APPLY);
  const version = versionIn(live);
  if (version?.served !== true) {
    const served = live.spec?.versions?.filter((one) => one.served).map((one) => one.name) ?? [];
    const versions = someOf(served) || 'no version';
    return problem(`${name} is served as ${versions}, not as ${VERSION}`, APPLY);
  }
  const established = live.status?.conditions?.find(({ type }) => type === 'Established');
  if (established?.status !== 'True') {
    const seen = `${name} is not established: ${established?.message ?? 'no reason given'}`;
    return problem(seen, `kubectl describe crd ${name}`);
  }
  const wantedSchema = versionIn(wanted)?.schema?.openAPIV3Schema;
  const missing = missingFields(wantedSchema, version.schema?.openAPIV3Schema, '');
  if (missing.length === 0) return [];
  const seen = `${name} is from another release: it lacks ${someOf(missing)}, so the API server drops these fields`;
  return warning(seen, APPLY);
}

const versionIn = ({ spec }: Definition) => spec?.versions?.find(({ name }) => name === VERSION);

function missingFields(wanted: unknown, live: unknown, path: string): readonly string[] {
  if (!isJsonObject(wanted) || !isJsonObject(live)) return [];
  const known = objectIn(live, 'properties');
  const below = Object.entries(objectIn(wanted, 'properties')).flatMap(([name, schema]) =>
    Object.hasOwn(known, name)
      ? missingFields(schema, known[name], `${path}.${name}`)
      : [`${path}.${name}`.slice(1)],
  );
  return [...below, ...missingFields(wanted.items, live.items, `${path}[]`)];
}

function eachAccount(
  { namespace, accounts }: InstallationReadings,
  judge: (readings: InstallationReadings['accounts'][number], account: string) => Results,
): Results {
  if (accounts.length === 0)
    return ok('permissions in single namespaces are not checked: Gatehouse logs missing permissions');
  const found = accounts.flatMap((readings) =>
    judge(readings, `ServiceAccount ${namespace}/${readings.serviceAccount}`),
  );
  return uniqueBy(found, ({ seen }) => seen);
}

export const checkAccess = (readings: InstallationReadings): Results =>
  eachAccount(readings, ({ access }, account) =>
    judgeReading(access, ({ checked, missing }) => {
      if (missing.length === 0) return ok(`the ${account} has all ${checked} permissions`);
      if (missing.length === checked)
        return problem(
          `the ${account} has none of the ${checked} permissions: its bindings are missing, or Gatehouse uses another account`,
          `${APPLY_MANIFESTS}; or name the account: --namespace and --service-account`,
        );
      const seen = `the ${account} lacks permission to ${someOf(grouped(missing), 8)}`;
      return problem(seen, APPLY_MANIFESTS);
    }),
  );

function grouped(questions: readonly AccessQuestion[]): readonly string[] {
  const name = ({ group, resource, subresource, namespace }: AccessQuestion) =>
    groupResourceName({ group, resource }) +
    (subresource === undefined ? '' : `/${subresource}`) +
    (namespace === undefined ? '' : ` in ${namespace}`);
  return [...Map.groupBy(questions, name)].map(
    ([what, same]) => `${[...new Set(same.map(({ verb }) => verb))].join('/')} ${what}`,
  );
}

export const checkGovernedKinds = (readings: InstallationReadings): Results =>
  eachAccount(readings, ({ governed }, account) =>
    judgeReading(governed, ({ checked, missing }) => {
      const byPolicy = [...Map.groupBy(missing, ({ policy }) => policy)];
      return orElse(
        byPolicy.map(([policy, kinds]) => unreadable(account, policy, kinds)),
        ok(`the ${account} can read the ${checked} kinds of all policies`),
      );
    }),
  );

function unreadable(account: string, policy: string, kinds: readonly GovernedKind[]): Results {
  const names = someOf(kinds.map(groupResourceName));
  const next = `kubectl get admissionpolicy ${policy} -o yaml | gatehouse manifests -p - | kubectl apply -f -`;
  if (!kinds.some(({ needed }) => needed))
    return warning(`the policy ${policy} cannot audit existing ${names}`, next);
  const seen = `the ${account} cannot read ${names}, which the policy ${policy} needs`;
  return problem(seen, next);
}
