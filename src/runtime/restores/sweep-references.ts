/** References of a sweep. Pages show suspects; newer reads of the objects and then of their targets confirm them. */
import type { CompiledPolicy } from '../../admission/policy/compile.ts';
import { exemptionOfStored } from '../../admission/policy/exceptions/exceptions.ts';
import { type FoundReference, referencesOf } from '../../admission/policy/references/read-references.ts';
import type { Violation } from '../../api/restore-window.ts';
import { groupResourceName, objectKey, type GroupResource, type KubeObject } from '../../json/kube-object.ts';
import { mapConcurrent } from '../../json/map-concurrent.ts';
import { memoizeAsync } from '../../json/memoize-async.ts';
import type { SweptViolation } from '../../restore/attribution.ts';
import { type StoredKind, type StoredObjects, storedRef } from '../policies/stored-objects.ts';
import { about, CONCURRENT_READS, swept, type CheckSources, type SweptObject } from './sweep-checks.ts';

export type NamespaceMapping = Readonly<Record<string, string>>;

interface ReferenceChecks {
  readonly sources: CheckSources & Pick<StoredObjects, 'pages' | 'keys' | 'lists'>;
  readonly mapping: NamespaceMapping;
  readonly failures: Failures;
  readonly signal: AbortSignal;
}

interface Failures {
  readonly note: (resource: GroupResource, error: unknown) => void;
  readonly isAway: (resource: GroupResource) => boolean;
}

type Suspects = Map<
  string,
  { readonly ref: ReturnType<typeof storedRef>; policies: readonly CompiledPolicy[] }
>;

interface Kind {
  objects: number;
  readonly suspects: Suspects;
}

/** Up to this number of objects are read one by one. */
const FEW = 100;
/** A page with 500 objects costs the API server about as much as ten reads. */
const READS_PER_LIST = 50;

const isCheaperToList = (wanted: number, stored: number): boolean =>
  wanted > FEW && wanted * READS_PER_LIST > stored;

export function createReferenceChecks(checks: ReferenceChecks) {
  const { sources, mapping, failures, signal } = checks;
  const kinds = new Map<StoredKind, Kind>();
  const listed = memoizeAsync((kind: GroupResource) => sources.keys(kind, signal), groupResourceName);
  const kindOf = (resource: StoredKind) => {
    const kind: Kind = kinds.get(resource) ?? { objects: 0, suspects: new Map() };
    kinds.set(resource, kind);
    return kind;
  };
  const dangling = async ({ policy, object }: SweptObject): Promise<readonly FoundReference[]> => {
    const missing: FoundReference[] = [];
    for (const found of referencesOf(policy, object))
      if (!(await listed.read(found.target)).has(objectKey(found.target))) missing.push(found);
    return missing;
  };
  const check = async (one: SweptObject) => {
    const { covers } = exemptionOfStored(one.policy, one.resource, one.object, sources.now().getTime());
    const isChecked = ({ reference }: FoundReference) => !covers('references', reference.name);
    const found = (all: readonly FoundReference[], reason: ReferenceReason) =>
      swept(
        one,
        all.filter(isChecked).map((each) => toViolation(one, each, reason)),
      );
    return [
      ...found(await dangling(one), 'TargetMissing'),
      ...found(crossing(one, mapping), 'CrossesNamespaceMapping'),
    ];
  };
  return {
    count: (resource: StoredKind, objects: number): void => {
      kindOf(resource).objects += objects;
    },
    /** @throws when the targets cannot be listed */
    see: async (one: SweptObject): Promise<void> => {
      const { resource, policy, object } = one;
      if (crossing(one, mapping).length === 0 && (await dangling(one)).length === 0) return;
      const ref = storedRef(resource, object);
      const { suspects } = kindOf(resource);
      const { policies = [] } = suspects.get(objectKey(ref)) ?? {};
      suspects.set(objectKey(ref), { ref, policies: [...policies, policy] });
    },
    hasSuspects: () => [...kinds.values()].some(({ suspects }) => suspects.size > 0),
    confirmed: async (
      onPage: (resource: GroupResource) => Promise<unknown>,
    ): Promise<readonly SweptViolation[]> => {
      const violations: SweptViolation[] = [];
      for (const [resource, { objects, suspects }] of kinds) {
        try {
          for await (const page of liveObjects(resource, suspects, objects, checks)) {
            for (const object of page)
              for (const policy of suspects.get(objectKey(object.metadata ?? {}))?.policies ?? [])
                for (const one of await check({ policy, resource, object })) violations.push(one);
            await onPage(resource);
          }
        } catch (error) {
          failures.note(resource, error);
        }
      }
      return await withMissingTarget(violations, listed.read, checks);
    },
  };
}

/** The suspects as they are now. If there are many, all objects of the kind are listed again. */
async function* liveObjects(
  resource: StoredKind,
  suspects: Suspects,
  stored: number,
  { sources, failures, signal }: ReferenceChecks,
): AsyncGenerator<readonly KubeObject[], void, undefined> {
  if (isCheaperToList(suspects.size, stored)) {
    for await (const page of sources.pages(resource, signal))
      yield page.filter(({ metadata = {} }) => suspects.has(objectKey(metadata)));
    return;
  }
  const live = await mapConcurrent([...suspects.values()], CONCURRENT_READS, async ({ ref }) => {
    if (failures.isAway(resource)) return [];
    try {
      return (await sources.read(ref, signal)) ?? [];
    } catch (error) {
      failures.note(resource, error);
      return [];
    }
  });
  yield live.flat();
}

/** Without violations whose target exists by now. A listed target that cannot be read counts as missing. */
async function withMissingTarget(
  violations: readonly SweptViolation[],
  listedBefore: (kind: GroupResource) => Promise<ReadonlySet<string>>,
  { sources: { keys, lists, read }, failures, signal }: ReferenceChecks,
): Promise<readonly SweptViolation[]> {
  const targets = violations.flatMap(({ violation: { reason, target } }) =>
    reason === 'TargetMissing' && target !== undefined ? [{ ...target, namespace: target.namespace }] : [],
  );
  const present = new Map<string, ReadonlySet<string>>();
  for (const [name, same] of Map.groupBy(targets, groupResourceName)) {
    const wanted = [...new Map(same.map((ref) => [objectKey(ref), ref])).values()];
    const [kind] = wanted;
    if (kind === undefined) continue;
    const readOne = async (ref: typeof kind) => {
      // Only the list of the targets showed that they are missing.
      const unknown = lists(ref) ? [] : [objectKey(ref)];
      if (failures.isAway(kind)) return unknown;
      try {
        return (await read(ref, signal)) === undefined ? [] : [objectKey(ref)];
      } catch (error) {
        failures.note(kind, error);
        return unknown;
      }
    };
    try {
      const isListed = wanted.every(lists) && isCheaperToList(wanted.length, (await listedBefore(kind)).size);
      const found = isListed
        ? await keys(kind, signal)
        : new Set((await mapConcurrent(wanted, CONCURRENT_READS, readOne)).flat());
      present.set(name, found);
    } catch (error) {
      failures.note(kind, error);
    }
  }
  return violations.filter(
    ({ violation: { reason, target } }) =>
      reason !== 'TargetMissing' ||
      target === undefined ||
      present.get(groupResourceName(target))?.has(objectKey(target)) !== true,
  );
}

type ReferenceReason = 'TargetMissing' | 'CrossesNamespaceMapping';

function toViolation(
  one: SweptObject,
  { reference, field, target: { group, resource, name, namespace } }: FoundReference,
  reason: ReferenceReason,
): Violation {
  return {
    ...about(one, field),
    reference: reference.name,
    reason,
    target: { group, resource, name, ...(namespace === undefined ? {} : { namespace }) },
  };
}

function crossing({ policy, object }: SweptObject, mapping: NamespaceMapping): readonly FoundReference[] {
  return referencesOf(policy, object).filter(({ target }) =>
    crossesMapping(mapping, object.metadata?.namespace, target.namespace),
  );
}

/** Whether a copied object still names an object in its source namespace: backup tools do not rewrite references. */
export function crossesMapping(
  mapping: NamespaceMapping,
  from: string | undefined,
  to: string | undefined,
): boolean {
  if (from === undefined || to === undefined || from === to) return false;
  const isCopy = Object.entries(mapping).some(([source, target]) => source !== target && target === from);
  return isCopy && Object.hasOwn(mapping, to) && mapping[to] !== to;
}
