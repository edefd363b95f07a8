/**
 * Whether the order of changes matters. The webhook sorts policies by name and applies defaults before mutations. The API server
 * applies its policies before all webhooks, in a random order. So it may change only what no other change reads or writes.
 */
import { OWNER_RECORD_ANNOTATION } from '../../../api/owner-record.ts';
import { compileMatchCondition } from '../../../cel/match-condition.ts';
import type { NormalSelector } from '../../../json/label-selector.ts';
import { memoizeWeak } from '../../../json/json.ts';
import type { CompiledPolicy } from '../../policy/compiled-policy.ts';
import { splitResource } from '../../policy/match/resource-pattern.ts';
import { isOfCustomKinds } from './built-in-fields.ts';
import { existenceRead, fieldsPath, overlapAny, parentsNeeded, pathsWritten, type Path } from './paths.ts';

/** Why the webhook must apply the policy's changes; undefined: nothing depends on their order. */
export function orderProblem(policy: CompiledPolicy, others: readonly CompiledPolicy[]): string | undefined {
  const own = footprintOf(policy);
  if (overlapAny(own.writes, own.scope)) return 'its changes may decide whether it governs the object';
  if (overlapAny(own.corrects, [...own.changes, ...own.reads]))
    return 'its changes read or write what the webhook corrects later: a uidPath, or owner references';
  for (const other of others) {
    if (other.name === policy.name || !sharesKinds(policy, other)) continue;
    if (other.undecidable !== undefined)
      return `AdmissionPolicy ${other.name} may change the same objects, in an order that only the webhook keeps`;
    const theirs = footprintOf(other);
    const depends =
      overlapAny(own.writes, [...theirs.writes, ...theirs.reads, ...theirs.scope]) ||
      overlapAny(theirs.writes, [...own.reads, ...own.scope]) ||
      overlapAny(own.replaces, [...theirs.fills, ...theirs.reads, ...theirs.scope]) ||
      overlapAny(theirs.replaces, [...own.fills, ...own.reads, ...own.scope]);
    if (depends)
      return `AdmissionPolicy ${other.name} reads or changes the same fields, in an order that only the webhook keeps`;
  }
  return undefined;
}

export const changesObjects = (policy: CompiledPolicy): boolean =>
  policy.defaults.length > 0 ||
  policy.mutations.length > 0 ||
  policy.undecidable !== undefined ||
  policy.preservesOwners ||
  policy.references.some(({ uidPath }) => uidPath !== undefined);

const footprintOf = memoizeWeak((policy: CompiledPolicy) => {
  const { defaults, mutations, references, match } = policy;
  const computed = [
    ...defaults.flatMap((one) => (one.kind === 'expression' ? [one.expression] : [])),
    ...mutations.flatMap(({ condition, change }) =>
      condition === undefined ? [change] : [condition, change],
    ),
  ];
  const conditions = match.matchConditions.map(({ expression }) => compileMatchCondition(expression));
  const fills = defaults.map(({ path }) => path.segments);
  const merged = mutations.filter(({ type }) => type === 'Merge').flatMap(pathsWritten);
  const changes = [...fills, ...mutations.flatMap(pathsWritten)];
  // What only the webhook writes, after all changes. The API server then applies its policies again.
  const corrects: readonly Path[] = [
    ...references.flatMap(({ uidPath }) => (uidPath === undefined ? [] : [uidPath.segments])),
    ...(policy.preservesOwners ? OWNERS : []),
  ];
  return {
    corrects,
    changes,
    writes: [...changes, ...corrects],
    fills, // only if the parents are maps
    /** Parents that a merge replaces if they are not maps. */
    replaces: match.apiGroups.some(hasCustomKinds) ? merged.flatMap(parentOf) : [],
    reads: [
      ...computed.flatMap(({ program }) => existenceRead(policy, program)),
      ...mutations.flatMap(parentsNeeded),
    ],
    scope: [
      ...conditions.flatMap((condition) => existenceRead(policy, condition)),
      ...(readsLabels(match) ? [fieldsPath(['metadata', 'labels'])] : []),
    ],
  };
});

const OWNERS = [['ownerReferences'], ['annotations', OWNER_RECORD_ANNOTATION]].map((names) =>
  fieldsPath(['metadata', ...names]),
);

/** Objects of built-in kinds, and metadata, always have the right types. */
const hasCustomKinds = (group: string): boolean => group === '*' || isOfCustomKinds(group);
const parentOf = ([first, ...rest]: Path): readonly Path[] =>
  first === undefined || rest.length === 0 || (first.kind === 'field' && first.name === 'metadata')
    ? []
    : [[first]];

function readsLabels({ objectSelector, namespaceSelector, resources }: CompiledPolicy['match']): boolean {
  const isOfNamespaces = resources.some((one) => ['namespaces', '*'].includes(splitResource(one).resource));
  return isLimited(objectSelector) || (isOfNamespaces && isLimited(namespaceSelector));
}

const isLimited = ({ matchLabels = {}, matchExpressions = [] }: NormalSelector): boolean =>
  Object.keys(matchLabels).length + matchExpressions.length > 0;

/** Ignores groups, because an object can belong to several groups, such as an Event. */
function sharesKinds({ match: a }: CompiledPolicy, { match: b }: CompiledPolicy): boolean {
  const [ours, theirs] = [a, b].map(({ resources }) => resources.map((one) => splitResource(one).resource));
  return (ours ?? []).some((one) =>
    (theirs ?? []).some((other) => one === other || one === '*' || other === '*'),
  );
}
