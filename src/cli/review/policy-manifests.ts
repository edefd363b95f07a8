/** `gatehouse manifests -p`: the ClusterRoles that policies need, or what the API server can enforce itself. */
import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import { uniqueBy } from '../../json/json.ts';
import { groupResourceName } from '../../json/kube-object.ts';
import { governed, namedKinds } from '../../runtime/policies/policy-kinds.ts';
import { clusterRoleFor } from '../../runtime/policies/read-access.ts';
import { actionRoleFor, neededBy } from '../../runtime/references/action-access.ts';
import { createStorage } from '../../machinery/storage/storage.ts';
import { readObjects, refuse } from './input.ts';
import { createKinds } from './kinds.ts';
import { usableOwn, compilePolicies } from './policies.ts';
import { changesObjects } from '../../admission/native/changes/change-order.ts';
import { compileNative, withoutMutating } from '../../admission/native/native-policy.ts';
import type { CompiledPolicy } from '../../admission/policy/compiled-policy.ts';
import type { RestoreDetector } from '../../api/restore-detector.ts';
import { compileMatchCondition } from '../../cel/match-condition.ts';
import { NEWEST_MINOR, OLDEST_MINOR } from '../../kube/discovery.ts';
import { isEnabled } from '../../restore/detector.ts';
import { toYaml } from '../terminal/output.ts';

/** A ClusterRole for each policy, and another one if it acts after deletions. */
export function policyManifests(paths: readonly string[]): string {
  const objects = readObjects(paths, { recursive: false });
  const { registry } = createKinds(objects, createStorage());
  const policies = usableOwn<AdmissionPolicy>('AdmissionPolicy', objects, registry);
  refuse(policies.length === 0 ? ['-p: no AdmissionPolicy was found'] : []);
  const roles = policies.flatMap(({ metadata, spec }) => {
    const kinds = uniqueBy([...namedKinds(spec), ...governed(spec)], groupResourceName).filter(
      ({ group, resource }) => group !== '*' && resource !== '*',
    );
    const { name = '' } = metadata;
    const needed = neededBy(spec);
    return [
      ...(kinds.length === 0 ? [] : [clusterRoleFor(name, kinds)]),
      ...(needed.length === 0 ? [] : [actionRoleFor(name, needed)]),
    ];
  });
  return roles.length === 0
    ? '# No policy names a kind: nothing to apply.\n'
    : roles.map((role) => `${role}\n`).join('---\n');
}

const NOT_PRINTED = 'it needs a MutatingAdmissionPolicy, from Kubernetes 1.36 on: add --map';

/** Comments say which checks stay with the webhook, and which need a newer Kubernetes than `minor`. */
export function nativeManifests(
  paths: readonly string[],
  { ownNamespace, map, minor }: NativeManifestOptions,
): string {
  const objects = readObjects(paths, { recursive: false });
  const kinds = createKinds(objects, createStorage());
  const restorers = usableOwn<RestoreDetector>('RestoreDetector', objects, kinds.registry)
    .filter(isEnabled)
    .flatMap(({ spec }) => spec.principals);
  const policies = compilePolicies(objects, kinds, {
    ownNamespace,
    ...(minor === undefined ? {} : { server: minor }),
  });
  refuse(policies.length === 0 ? ['-p: no AdmissionPolicy was found'] : []);
  const nativeFor = (policy: CompiledPolicy, server: number | undefined): NativePolicy => {
    const others = policies.filter(changesObjects).map((other) => ({ ...other, server }));
    const compiled = compileNative({ ...policy, server }, { ownNamespace, restorers, others });
    return { name: policy.name, ...(map ? compiled : withoutMutating(compiled, NOT_PRINTED)) };
  };
  return policies
    .map((policy) => {
      const native = nativeFor(policy, minor);
      const isTooOld = (server: number) =>
        conditionsNeed(policy) > server || countOf(nativeFor(policy, server)) < countOf(native);
      return textOf(native, minor === undefined ? OLDER.findLast(isTooOld) : undefined);
    })
    .join('---\n');
}

interface NativeManifestOptions {
  readonly ownNamespace: string;
  readonly map: boolean;
  readonly minor?: number | undefined;
}

type NativePolicy = ReturnType<typeof compileNative> & { readonly name: string };

const OLDER = Array.from({ length: NEWEST_MINOR - OLDEST_MINOR }, (_, index) => OLDEST_MINOR + index);

/** The first release that answers the match conditions as here. */
const conditionsNeed = ({ match }: CompiledPolicy): number =>
  Math.max(
    0,
    ...match.matchConditions.map(({ expression }) => compileMatchCondition(expression).needs?.minor ?? 0),
  );

const countOf = ({ checks }: NativePolicy): number => checks.filter(({ by }) => by === 'APIServer').length;

/** @param tooOld the newest release that answers a check otherwise */
function textOf(policy: NativePolicy, tooOld: number | undefined): string {
  const { name, checks, pairs } = policy;
  const left = checks.flatMap((one) =>
    one.by === 'Webhook' ? [`# ${one.check}: webhook, because ${one.reason}\n`] : [],
  );
  const needs =
    tooOld === undefined
      ? []
      : [
          `# Kubernetes 1.${tooOld + 1} or newer: for an older one, add --target-version, which leaves more to the webhook\n`,
        ];
  const head = `# AdmissionPolicy ${name}: the API server enforces ${countOf(policy)} of ${checks.length} checks\n`;
  const native = pairs.flatMap(({ policy: object, binding }) => [object, binding]);
  const text = native.map((object) => toYaml(object, { lineWidth: 0 })).join('---\n');
  return [head, ...needs, ...left, text].join('');
}
