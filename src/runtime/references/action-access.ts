/** On the leader: whether this account may delete and change what the policies in force order. */
import type { CompiledPolicy } from '../../admission/policy/compiled-policy.ts';
import { hasWildcard } from '../../admission/policy/match/resource-pattern.ts';
import type { AdmissionPolicySpec } from '../../api/admission-policy.ts';
import type { ReferenceRule } from '../../api/policy-validate.ts';
import { groupResourceName, type GroupResource } from '../../json/kube-object.ts';
import { uniqueBy } from '../../json/json.ts';
import { canI } from '../../kube/access.ts';
import type { Discovery } from '../../kube/discovery.ts';
import type { KubeClient } from '../../kube/client.ts';
import { GONE, requeueIn, type Reconcile } from '../controller.ts';
import { placesOf, type Namespaces } from '../namespaces.ts';
import { governed } from '../policies/policy-kinds.ts';
import { aggregatedRole } from '../policies/read-access.ts';

/** The aggregated ClusterRole `gatehouse-actions` collects the rules of ClusterRoles with this label. */
export const ACTIONS_LABEL = 'gatehouse.dev/aggregate-to-actions';
/** No watch reports a change of permissions, in milliseconds. */
const MISSING_MS = 10_000;
const GRANTED_MS = 10 * 60_000;

interface Needed extends GroupResource {
  readonly verb: 'delete' | 'patch';
}

export function neededBy({ match, validate }: AdmissionPolicySpec): readonly Needed[] {
  const verbs = (validate?.references ?? []).flatMap(({ onTargetDelete = 'Allow' }) => VERBS[onTargetDelete]);
  const kinds = governed({ match }).filter((kind) => !hasWildcard(kind.group) && !hasWildcard(kind.resource));
  const needed = kinds.flatMap((kind) => verbs.map((verb) => ({ ...kind, verb })));
  return uniqueBy(needed, ({ verb, ...kind }) => `${verb} ${groupResourceName(kind)}`);
}

const VERBS: Readonly<Record<NonNullable<ReferenceRule['onTargetDelete']>, readonly Needed['verb'][]>> = {
  Allow: [],
  Restrict: [],
  Cascade: ['delete'],
  SetNull: ['patch'],
  SetDefault: ['patch'],
};

/** @param onChange called with the policy whose missing permissions have changed */
export function createActionAccess(
  policies: () => readonly CompiledPolicy[],
  client: Pick<KubeClient, 'create'>,
  discovery: Pick<Discovery, 'resolve'>,
  namespaces: Namespaces,
  onChange: (policy: string) => void,
) {
  const messages = new Map<string, string>();
  const missingOf = (policy: string): string => messages.get(policy) ?? '';
  const isGranted = async ({ verb, group, resource }: Needed, signal: AbortSignal) => {
    const served = await discovery.resolve({ group, resource }, signal);
    const places = served === undefined ? [undefined] : placesOf(served, namespaces);
    const ask = (namespace: string | undefined) =>
      canI(client, { verb, group, resource, namespace }, { signal });
    return (await Promise.all(places.map(ask))).every(Boolean);
  };
  const reconcile: Reconcile = async (name, signal) => {
    const policy = policies().find((one) => one.name === name);
    const needed = policy === undefined ? [] : neededBy(policy.spec);
    const granted = await Promise.all(needed.map((one) => isGranted(one, signal)));
    const missing = needed.filter((_one, index) => !granted[index]);
    const before = missingOf(name);
    if (missing.length === 0) messages.delete(name);
    else messages.set(name, missingMessage(name, missing));
    if (missingOf(name) !== before) onChange(name);
    if (needed.length === 0) return GONE;
    return requeueIn(missing.length === 0 ? GRANTED_MS : MISSING_MS, new Date());
  };
  return { reconcile, missing: missingOf };
}

function missingMessage(policy: string, missing: readonly Needed[]): string {
  const what = missing.map(({ verb, ...kind }) => `${verb} ${groupResourceName(kind)}`).join(', ');
  return `the leader lacks permission to ${what} after a target is deleted. Add this ClusterRole:\n${actionRoleFor(policy, missing)}`;
}

export function actionRoleFor(policy: string, needed: readonly Needed[]): string {
  const rules = needed.flatMap(({ group, resource, verb }) => [
    `  - apiGroups: [${JSON.stringify(group)}]`,
    `    resources: [${resource}]`,
    `    verbs: [${verb}]`,
  ]);
  return aggregatedRole(`gatehouse-actions-${policy}`, ACTIONS_LABEL, rules);
}
