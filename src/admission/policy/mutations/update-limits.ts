/** The API server refuses updates that change immutable fields, so defaults and mutations of such fields apply only on CREATE. */
import {
  IMMUTABLE_FIELDS,
  isOpen,
  keepsImmutable,
  writesImmutable,
  type ImmutableFields,
} from '../../../api/immutable-fields.ts';
import { memoizeWeak, type JsonObject } from '../../../json/json.ts';
import { groupResourceName } from '../../../json/kube-object.ts';
import { keysWritten } from '../../native/changes/paths.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import type { CompiledDefault, CompiledMutation, CompiledPolicy } from '../compiled-policy.ts';
import { covers } from '../match/resource-pattern.ts';
import type { Report } from '../problem.ts';

type Change = CompiledDefault | CompiledMutation;

interface UpdateLimit {
  readonly of: ImmutableFields;
  /** `whole`: the change writes only immutable fields. `unknown`: its expression does not show which fields it writes. */
  readonly writes: 'whole' | 'in part' | 'unknown';
}

const limitsOf = memoizeWeak((change: Change): readonly UpdateLimit[] => {
  const paths = keysWritten(change);
  return IMMUTABLE_FIELDS.flatMap((of): readonly UpdateLimit[] => {
    const found = new Set(paths.map((path) => writesImmutable(path, of)));
    const [only] = found;
    if (found.size === 1) return only === undefined ? [] : [{ of, writes: only }];
    return [{ of, writes: found.has('whole') || found.has('in part') ? 'in part' : 'unknown' }];
  });
});

/** The limits of the kinds that the policy governs. */
export const updateLimits = ({ match }: Pick<CompiledPolicy, 'match'>, change: Change) =>
  match.operations.includes('UPDATE')
    ? limitsOf(change).filter(
        ({ of: { group, resource } }) =>
          match.apiGroups.includes(group) && match.resources.some((pattern) => covers(pattern, resource)),
      )
    : [];

/** Makes a change, unless the API server would refuse it. */
export type MakeChange = (change: Change, object: JsonObject, make: () => JsonObject) => JsonObject;

export const withinLimits =
  ({ operation, resource, subResource, oldObject }: AdmissionRequest): MakeChange =>
  (change, object, make) => {
    if (operation !== 'UPDATE' || oldObject === undefined) return make();
    const name = subResource === '' ? resource.resource : `${resource.resource}/${subResource}`;
    const limits = limitsOf(change).filter(
      ({ of }) =>
        of.group === resource.group &&
        of.resource === name &&
        (!of.ifMarked || oldObject.immutable === true) &&
        !isOpen(of, oldObject, object),
    );
    const isKept = ({ of }: UpdateLimit) => keepsImmutable(oldObject, object, of);
    if (limits.some((limit) => limit.writes === 'whole' && isKept(limit))) return object;
    const changed = make();
    // A manifest may lack what the policy wrote on CREATE.
    const isAllowed = ({ of }: UpdateLimit) =>
      keepsImmutable(object, changed, of) || keepsImmutable(oldObject, changed, of);
    return limits.every(isAllowed) ? changed : object;
  };

const nameOf = (change: Change): string =>
  'change' in change ? `mutation ${change.name}` : `the default of ${change.path.text}`;

/** What the author of the policy should know: some changes do not apply to updates. */
export const updateNotes = (policy: CompiledPolicy): readonly string[] =>
  [...policy.defaults, ...policy.mutations].flatMap((change) => {
    const limits = updateLimits(policy, change).filter(({ of }) => !of.ifMarked);
    return [...Map.groupBy(limits, ({ writes }) => writes)].flatMap(([writes, some]) => {
      const kinds = some.map(({ of }) => groupResourceName(of)).join(', ');
      return writes === 'unknown' ? [] : [`${nameOf(change)} ${NOTES[writes](kinds)}`];
    });
  });

const NOTES = {
  whole: (kinds: string) =>
    `does not apply to updates of ${kinds}, because the API server refuses to change this part of existing objects: write it in a policy with operations: [CREATE]`,
  'in part': (kinds: string) =>
    `applies to an update of ${kinds} only if it leaves all immutable fields unchanged: write these fields in a policy with operations: [CREATE]`,
};

/** A policy that governs only updates would never make such a change. */
export function reportNeverApplied(
  policy: Pick<CompiledPolicy, 'match' | 'defaults' | 'mutations'>,
  report: Report,
): void {
  if (policy.match.operations.includes('CREATE')) return;
  for (const part of ['defaults', 'mutations'] as const)
    for (const [index, change] of policy[part].entries()) {
      const never = updateLimits(policy, change).find(({ of, writes }) => writes === 'whole' && !of.ifMarked);
      if (never !== undefined)
        report(
          `spec.${part}[${index}]`,
          `never applies to ${groupResourceName(never.of)}, because the API server refuses to change this part of existing objects: add CREATE to spec.match.operations`,
        );
    }
}
