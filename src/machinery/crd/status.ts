import { isEqual, isJsonObject, type JsonObject } from '../../json/json.ts';
import type { ApiObject } from '../api-object.ts';
import {
  apiApprovalOf,
  type ApiApproval,
  acceptedNames,
  conditionsOf,
  groupOf,
  isAwaitingCleanup,
  readDefinition,
  storageVersionOf,
  storedVersions,
  type DefinitionCondition,
  type DefinitionNames,
} from './definition.ts';

type Finding = Omit<DefinitionCondition, 'lastTransitionTime'>;

/**
 * The definition with the status that the API server's controllers would set: names, conditions, stored versions.
 * Returns the same object if nothing changes. `others` are all other definitions; `now` is RFC 3339 with second
 * precision.
 *
 * @see k8s.io/apiextensions-apiserver/pkg/controller/{status,establish,apiapproval}
 */
export function planDefinitionStatus(crd: ApiObject, others: readonly ApiObject[], now: string): ApiObject {
  const definition = readDefinition(crd);
  const current = acceptedNames(crd);
  const { names, problem } = resolveNames(definition.names, current, takenNames(definition.group, others));
  const before = conditionsOf(crd);
  const findings = [
    namesAccepted(problem),
    established(before, problem === undefined),
    approval(apiApprovalOf(crd, definition.group)),
    terminating(crd),
  ].filter((finding) => finding !== undefined);

  return withStatus(crd, {
    conditions: findings.reduce((conditions, finding) => withCondition(conditions, finding, now), before),
    acceptedNames: namesToJson(names),
    storedVersions: withStorageVersion(storedVersions(crd), storageVersionOf(definition)),
  });
}

/**
 * Sets one condition; returns the same object if the condition is already set. `now` is RFC 3339 with second
 * precision.
 */
export function setCondition(crd: ApiObject, finding: Finding, now: string): ApiObject {
  return withStatus(crd, { conditions: withCondition(conditionsOf(crd), finding, now) });
}

/** The status of a new definition. */
export const initialStatus = (storageVersion: string | undefined): JsonObject => ({
  conditions: [],
  acceptedNames: { plural: '', kind: '' },
  storedVersions: withStorageVersion([], storageVersion),
});

export const withStorageVersion = (
  stored: readonly string[],
  storageVersion: string | undefined,
): readonly string[] =>
  storageVersion === undefined || stored.includes(storageVersion) ? stored : [...stored, storageVersion];

function withStatus(crd: ApiObject, changes: StatusChanges): ApiObject {
  const before = isJsonObject(crd.status) ? crd.status : {};
  const after = { ...before, ...changes } as unknown as JsonObject; // conditions and names are JSON
  return isEqual(before, after) ? crd : { ...crd, status: after };
}

interface StatusChanges {
  readonly conditions: readonly DefinitionCondition[];
  readonly acceptedNames?: JsonObject;
  readonly storedVersions?: readonly string[];
}

interface TakenNames {
  readonly resources: ReadonlySet<string>;
  readonly kinds: ReadonlySet<string>;
}

function takenNames(group: string, others: readonly ApiObject[]): TakenNames {
  const names = others.filter((other) => groupOf(other) === group).map(acceptedNames);
  return {
    resources: new Set(
      names.flatMap(({ plural, singular, shortNames }) => [plural, singular, ...shortNames]),
    ),
    kinds: new Set(names.flatMap(({ kind, listKind }) => [kind, listKind])),
  };
}

interface NameProblem {
  readonly reason: string;
  readonly message: string;
}

/** Accepts each name that is free or already held. The last problem is reported, as in the API server. */
function resolveNames(
  wanted: DefinitionNames,
  current: DefinitionNames,
  taken: TakenNames,
): { readonly names: DefinitionNames; readonly problem: NameProblem | undefined } {
  const problems: NameProblem[] = [];
  const settle = (reason: string, name: string, own: string, used: ReadonlySet<string>) => {
    if (name === own || !used.has(name)) return name;
    problems.push({ reason, message: inUse(name) });
    return own;
  };
  const settleShortNames = () => {
    const clashes = wanted.shortNames.filter(
      (name) => !current.shortNames.includes(name) && taken.resources.has(name),
    );
    if (clashes.length === 0) return wanted.shortNames;
    const messages = clashes.map(inUse);
    const message = messages.length === 1 ? messages.join() : `[${messages.join(', ')}]`;
    problems.push({ reason: 'ShortNamesConflict', message });
    return current.shortNames;
  };

  const names = {
    plural: settle('PluralConflict', wanted.plural, current.plural, taken.resources),
    singular: settle('SingularConflict', wanted.singular, current.singular, taken.resources),
    shortNames: settleShortNames(),
    kind: settle('KindConflict', wanted.kind, current.kind, taken.kinds),
    listKind: settle('ListKindConflict', wanted.listKind, current.listKind, taken.kinds),
    categories: wanted.categories,
  };
  return { names, problem: problems.at(-1) };
}

const inUse = (name: string) => `"${name}" is already in use`;

const namesToJson = ({ shortNames, categories, ...names }: DefinitionNames): JsonObject => ({
  ...names,
  ...(shortNames.length === 0 ? {} : { shortNames }),
  ...(categories.length === 0 ? {} : { categories }),
});

const namesAccepted = (problem: NameProblem | undefined): Finding =>
  problem === undefined
    ? { type: 'NamesAccepted', status: 'True', reason: 'NoConflicts', message: 'no conflicts found' }
    : { type: 'NamesAccepted', status: 'False', ...problem };

/** A definition stays established even if its names change. */
function established(before: readonly DefinitionCondition[], accepted: boolean): Finding {
  const current = before.find(({ type }) => type === 'Established');
  if (current?.status === 'True') return current;
  if (accepted) {
    return {
      type: 'Established',
      status: 'True',
      reason: 'InitialNamesAccepted',
      message: 'the initial names have been accepted',
    };
  }
  return {
    type: 'Established',
    status: 'False',
    reason: 'NotAccepted',
    message: 'not all names are accepted',
  };
}

const APPROVAL_REASONS = {
  approved: 'ApprovedAnnotation',
  bypassed: 'UnapprovedAnnotation',
  missing: 'MissingAnnotation',
  invalid: 'InvalidAnnotation',
} as const;

const approval = (found: ApiApproval | undefined): Finding | undefined =>
  found && {
    type: 'KubernetesAPIApprovalPolicyConformant',
    status: found.state === 'approved' ? 'True' : 'False',
    reason: APPROVAL_REASONS[found.state],
    message: found.reason,
  };

function terminating(crd: ApiObject): Finding | undefined {
  if (!isAwaitingCleanup(crd)) return undefined;
  return {
    type: 'Terminating',
    status: 'True',
    reason: 'InstanceDeletionInProgress',
    message: 'CustomResource deletion is in progress',
  };
}

function withCondition(
  conditions: readonly DefinitionCondition[],
  { type, status, reason, message }: Finding,
  now: string,
): readonly DefinitionCondition[] {
  const old = conditions.find((condition) => condition.type === type);
  const lastTransitionTime = old?.status === status ? old.lastTransitionTime : now;
  const condition = { type, status, lastTransitionTime, reason, message };
  return old === undefined
    ? [...conditions, condition]
    : conditions.map((existing) => (existing === old ? condition : existing));
}
