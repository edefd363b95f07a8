/** The cluster of a rehearsal: an API server in memory, with the policies and a restorer. */
import { randomUUID } from 'node:crypto';

import type { CompiledPolicy } from '../../../admission/policy/compiled-policy.ts';
import { needsSummary, summarise } from '../../../admission/policy/governed-summary.ts';
import { targetKey } from '../../../admission/policy/object-ref.ts';
import type { GovernedIndex } from '../../../admission/policy/world.ts';
import type { UserInfo } from '../../../admission/review/request.ts';
import type { RestoreWindow } from '../../../api/restore-window.ts';
import { textIn, type JsonObject } from '../../../json/json.ts';
import {
  groupResourceName,
  refOf,
  toTimestamp,
  type GroupResource,
  type KubeObject,
  type ObjectRef,
} from '../../../json/kube-object.ts';
import { governed } from '../../../runtime/policies/policy-kinds.ts';
import { withMeta, type ApiObject } from '../../../machinery/api-object.ts';
import { ApiFailure } from '../../../machinery/failure.ts';
import type { ResourceType } from '../../../machinery/resource-type.ts';
import { SILENT, type Write } from '../../review/api-server.ts';
import { createRecording, toReviewResult } from '../../review/review-result.ts';
import { NAMESPACES, type SnapshotInput } from '../../review/snapshot.ts';
import { createStage, type ReviewContext } from '../../review/stage.ts';
import { handlerWorldOf, RESTORE_WINDOWS, worldOf } from '../../review/world.ts';

/** What the API server answers to one write. */
export type Written =
  | { readonly kind: 'stored'; readonly deferred: string }
  | { readonly kind: 'refused'; readonly message: string };

export type Target = ReturnType<typeof createTarget>;

/**
 * @param window of the restore; undefined: nothing is deferred
 * @throws UnusableInput with all problems of CRDs and policies
 */
export function createTarget(
  input: SnapshotInput,
  context: ReviewContext,
  user: UserInfo,
  window: RestoreWindow | undefined,
) {
  const { snapshot, policies, api, calls } = createStage(input, context);
  const { contents, kinds, storage, decode } = snapshot;
  if (window !== undefined) contents.put(windowRef(window), window);
  const index = createHolders(policies, contents.list);
  const world = worldOf(contents, index, context.now);
  const view = { world, handlerWorld: handlerWorldOf(contents, kinds.resolve) };
  const hasNamespace = (name: string): boolean =>
    storage.get(NAMESPACES, { namespace: '', name }) !== undefined;

  const store = (type: ResourceType, object: ApiObject, old: ApiObject | undefined): void => {
    const born = { uid: randomUUID(), creationTimestamp: toTimestamp(context.now) };
    const stored = old === undefined ? withMeta(object, born) : object;
    if (type.group === '' && type.resource === NAMESPACES.resource) snapshot.putNamespace(stored);
    else contents.put(refOf(type, stored), stored);
    index.add(type, stored);
  };
  return {
    ...{ kinds, contents, policies, world, hasNamespace },
    /** The labels of all Namespaces. */
    namespaceLabels: () =>
      new Map(
        storage.list(NAMESPACES).items.map(({ metadata }) => [metadata.name ?? '', metadata.labels ?? {}]),
      ),
    /** An object in the version of `type`. */
    inVersion: api.inVersion,
    notes: snapshot.notes,
    /** Creates the object, or updates the one with its name. Throws nothing: a refusal is a result. */
    write: async (object: JsonObject, type: ResourceType): Promise<Written> => {
      const record = createRecording();
      try {
        const namespace = textIn(object, 'metadata', 'namespace');
        if (namespace !== '' && !hasNamespace(namespace))
          throw new ApiFailure(404, 'NotFound', `namespaces "${namespace}" not found`);
        const decoded = decode(object, type, SILENT.warn);
        const before = contents.find(refOf(type, decoded)) as ApiObject | undefined; // decoded by this machinery
        const old = before === undefined ? undefined : await api.inVersion(before, type);
        const operation = old === undefined ? 'CREATE' : 'UPDATE';
        const write: Write = { type, operation, user, object: decoded, old };
        const result = await api.mutate(write, calls(view, record));
        await api.validate(write, result?.prepared, calls(view, record));
        if (result !== undefined) store(type, result.prepared, old);
        return { kind: 'stored', deferred: [...(record.annotations.get('deferred') ?? [])].join(', ') };
      } catch (error) {
        if (!(error instanceof ApiFailure)) throw error;
        const { messages } = toReviewResult(record, error, undefined, undefined);
        return { kind: 'refused', message: messages.join('; ') };
      }
    },
  };
}

const windowRef = ({ metadata }: RestoreWindow): ObjectRef => ({
  ...RESTORE_WINDOWS,
  namespace: undefined,
  name: metadata.name ?? '',
});

/** The holders of unique values, as objects are written. A rehearsal deletes nothing, so it needs no referrers. */
function createHolders(
  policies: readonly CompiledPolicy[],
  list: (kind: GroupResource) => readonly KubeObject[],
): GovernedIndex & { readonly add: (kind: GroupResource, object: KubeObject) => void } {
  const indexes = new Map(policies.filter(needsSummary).map((policy) => [policy.name, indexOf(policy)]));
  for (const policy of policies)
    for (const kind of governed(policy))
      for (const object of list(kind)) indexes.get(policy.name)?.add(kind, object);
  return {
    add: (kind, object) => {
      for (const { add } of indexes.values()) add(kind, object);
    },
    referrers: () => [],
    holders: (claim, { name }) => indexes.get(name)?.holders(claim) ?? [],
  };
}

function indexOf(policy: CompiledPolicy) {
  const kinds = new Set(governed(policy).map(groupResourceName));
  const holders = new Map<string, Map<string, ObjectRef>>();
  const held = new Map<string, readonly string[]>();
  return {
    add: (kind: GroupResource, object: KubeObject): void => {
      if (!kinds.has(groupResourceName(kind))) return;
      const ref = refOf(kind, object);
      const key = targetKey(ref);
      for (const claim of held.get(key) ?? []) holders.get(claim)?.delete(key);
      const { claims } = summarise([policy], kind, object);
      held.set(key, claims);
      for (const claim of claims)
        holders.set(claim, (holders.get(claim) ?? new Map<string, ObjectRef>()).set(key, ref));
    },
    holders: (claim: string): readonly ObjectRef[] => [...(holders.get(claim)?.values() ?? [])],
  };
}
