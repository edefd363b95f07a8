import { setCondition as setOne } from '../../json/conditions.ts';
import type { Condition } from '../../json/kube-object.ts';
import { isEqual, type JsonObject } from '../../json/json.ts';
import type { ApiObject } from '../api-object.ts';
import { listed } from '../failure.ts';
import { status } from '../fields.ts';
import {
  acceptedNames,
  conditionsOf,
  groupOf,
  isAwaitingCleanup,
  readDefinition,
  storageVersionOf,
  storedVersions,
  type DefinitionNames,
} from './definition.ts';

type Finding = Omit<Condition, 'lastTransitionTime'>;

/** The status that the API server's controllers would set. @param others all other definitions */
export function planDefinitionStatus(crd: ApiObject, others: readonly ApiObject[], now: string): ApiObject {
  const definition = readDefinition(crd);
  const current = acceptedNames(crd);
  const { names, problem } = resolveNames(definition.names, current, takenNames(definition.group, others));
  const before = conditionsOf(crd);
  const findings = [
    namesAccepted(problem),
    established(before, problem === undefined),
    ...(isAwaitingCleanup(crd) ? [DELETING] : []),
  ];

  return withStatus(crd, {
    conditions: findings.reduce<readonly Condition[]>((all, one) => setOne(all, one, new Date(now)), before),
    acceptedNames: namesToJson(names),
    storedVersions: withStorageVersion(storedVersions(crd), storageVersionOf(definition)),
  });
}

const DELETING: Finding = {
  type: 'Terminating',
  status: 'True',
  reason: 'InstanceDeletionInProgress',
  message: 'CustomResource deletion is in progress',
};

export function setCondition(crd: ApiObject, condition: Finding, now: string): ApiObject {
  return withStatus(crd, { conditions: setOne(conditionsOf(crd), condition, new Date(now)) });
}

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

function withStatus(crd: ApiObject, changes: object): ApiObject {
  const before = status(crd);
  const after = { ...before, ...changes };
  return isEqual(before, after) ? crd : { ...crd, status: after };
}

function takenNames(group: string, others: readonly ApiObject[]) {
  const names = others.filter((other) => groupOf(other) === group).map(acceptedNames);
  return {
    resources: new Set(
      names.flatMap(({ plural, singular, shortNames }) => [plural, singular, ...shortNames]),
    ),
    kinds: new Set(names.flatMap(({ kind, listKind }) => [kind, listKind])),
  };
}

type NameProblem = Pick<Finding, 'reason' | 'message'>;

/** Accepts each name that is free or already accepted. Like the API server, reports the last problem. */
function resolveNames(
  wanted: DefinitionNames,
  current: DefinitionNames,
  taken: ReturnType<typeof takenNames>,
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
    problems.push({ reason: 'ShortNamesConflict', message: listed(clashes.map(inUse)) });
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

const finding = (type: string, isTrue: boolean, reason: string, message: string): Finding => ({
  type,
  status: isTrue ? 'True' : 'False',
  reason,
  message,
});

function namesAccepted(problem: NameProblem | undefined): Finding {
  const { reason, message } = problem ?? { reason: 'NoConflicts', message: 'no conflicts found' };
  return finding('NamesAccepted', problem === undefined, reason, message);
}

/** A definition stays established even if its names change. */
function established(before: readonly Condition[], accepted: boolean): Finding {
  const current = before.find(({ type }) => type === 'Established');
  if (current?.status === 'True') return current;
  return accepted
    ? finding('Established', true, 'InitialNamesAccepted', 'the initial names have been accepted')
    : finding('Established', false, 'NotAccepted', 'not all names are accepted');
}
