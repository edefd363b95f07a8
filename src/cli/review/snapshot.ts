/** A snapshot of a cluster, made from the input: kinds, Namespaces, objects, and what policies and handlers see of them. */
import { type JsonObject, uniqueBy } from '../../json/json.ts';
import { NAMESPACE_NAME_LABEL } from '../../json/label-selector.ts';
import { type ApiObject, ofJson, withMeta } from '../../machinery/api-object.ts';
import { ApiFailure } from '../../machinery/failure.ts';
import { decodeObject } from '../../machinery/objects/decode.ts';
import type { ResourceType } from '../../machinery/resource-type.ts';
import { createStorage } from '../../machinery/storage/storage.ts';
import { SILENT } from './api-server.ts';
import {
  type GroupResource,
  groupResourceName,
  keyOf,
  type KubeObject,
  objectKey,
  type ObjectRef,
  refOf,
} from '../../json/kube-object.ts';
import { describePlace, type PlacedObject } from './input.ts';
import { createKinds } from './kinds.ts';
import type { HandlerWorld } from '../../admission/handlers/handler-world.ts';
import type { Claims, GovernedIndex, RequestWorld } from '../../admission/policy/world.ts';
import type { RestoreWindow } from '../../api/restore-window.ts';
import { evidenceOfWindows } from '../../restore/detected-window.ts';
import { openedForCluster } from '../../restore/window.ts';
import type { CompiledPolicy } from '../../admission/policy/compiled-policy.ts';
import { type GovernedSummary, needsSummary, summarise } from '../../admission/policy/governed-summary.ts';
import { createStore } from '../../kube/store.ts';
import { targetKey } from '../../admission/policy/object-ref.ts';
import { governed } from '../../runtime/policies/policy-kinds.ts';
import { RESTORE_WINDOWS } from '../../runtime/resources.ts';

export interface SnapshotInput {
  readonly existing: readonly PlacedObject[];
  readonly reviewed: readonly PlacedObject[];
  readonly namespace: string;
}

export const NAMESPACES = { group: '', resource: 'namespaces' };

export function createSnapshot({ existing, reviewed, namespace }: SnapshotInput) {
  const storage = createStorage();
  const kinds = createKinds([...existing, ...reviewed], storage);
  const contents = createContents();

  const putNamespace = (object: ApiObject) => {
    const key = { namespace: '', name: object.metadata.name ?? '' };
    const before = storage.get(NAMESPACES, key);
    if (before !== undefined) storage.remove(NAMESPACES, key, before.metadata.resourceVersion ?? '');
    storage.create(NAMESPACES, object);
    contents.put({ ...NAMESPACES, namespace: undefined, name: key.name }, object);
  };
  const decode = (object: JsonObject, type: ResourceType, warn: (text: string) => void): ApiObject => {
    const parsed = decodeObject(object, type, 'Warn', { ...SILENT, warn });
    const isPlaced = (parsed.metadata.namespace ?? '') !== '';
    const decoded =
      isPlaced === type.namespaced
        ? parsed
        : withMeta(parsed, { namespace: type.namespaced ? namespace : undefined });
    const { namespace: name = '' } = decoded.metadata;
    if (type.namespaced && storage.get(NAMESPACES, { namespace: '', name }) === undefined) {
      const metadata = { name, labels: { [NAMESPACE_NAME_LABEL]: name } };
      putNamespace(ofJson({ apiVersion: 'v1', kind: 'Namespace', metadata }));
    }
    return decoded;
  };
  const put = ({ object, place }: PlacedObject): string | undefined => {
    const type = kinds.typeOf(object);
    if (typeof type === 'string') return `${describePlace(place)}: left out: ${type}`;
    try {
      const decoded = decode(object, type, SILENT.warn);
      if (isNamespace(type)) putNamespace(decoded);
      else contents.put(refOf(type, decoded), decoded);
      return undefined;
    } catch (error) {
      if (error instanceof ApiFailure) return `${describePlace(place)}: left out: ${error.message}`;
      throw error;
    }
  };
  const namespaces = reviewed.filter(({ object }) => isNamespace(kinds.typeOf(object)));
  const leftOut = [...existing, ...namespaces].map(put).filter((note) => note !== undefined);
  return {
    kinds,
    storage,
    contents,
    /** Prunes, sets defaults, and creates the namespace. @param warn called for each field that is dropped */
    decode,
    putNamespace,
    notes: [...kinds.notes, ...leftOut],
  };
}

const isNamespace = (type: ResourceType | string): boolean =>
  typeof type !== 'string' && type.group === '' && type.resource === 'namespaces';

export interface Contents {
  readonly find: (ref: ObjectRef) => KubeObject | undefined;
  readonly list: (kind: GroupResource) => readonly KubeObject[];
  readonly put: (ref: ObjectRef, object: KubeObject | undefined) => void;
}

export function createContents(base?: Pick<Contents, 'find' | 'list'>): Contents {
  const kinds = new Map<string, Map<string, KubeObject | undefined>>();
  return {
    find: (ref) => {
      const own = kinds.get(groupResourceName(ref));
      return own?.has(objectKey(ref)) === true ? own.get(objectKey(ref)) : base?.find(ref);
    },
    list: (kind) => {
      const own = kinds.get(groupResourceName(kind));
      const below = base?.list(kind) ?? [];
      if (own === undefined) return below;
      const others = below.filter((object) => !own.has(keyOf(object)));
      return [...others, ...own.values()].filter((object) => object !== undefined);
    },
    put: (ref, object) => {
      const name = groupResourceName(ref);
      const objects = kinds.get(name) ?? new Map<string, KubeObject | undefined>();
      kinds.set(name, objects.set(objectKey(ref), object));
    },
  };
}

/** The contents as policies see them: complete, so no read can be stale or fail. */
export function worldOf(
  { find, list }: Pick<Contents, 'find' | 'list'>,
  governed: GovernedIndex,
  now: Date,
): RequestWorld {
  const read = (ref: ObjectRef) => Promise.resolve(find(ref));
  return {
    find,
    confirm: read,
    read,
    claims: NO_CLAIMS,
    governed,
    mayRestore: () => false,
    knownRestore: () => undefined,
    restoreEvidence: ({ userInfo, resource: { group, resource }, namespace }) => {
      const windows = list(RESTORE_WINDOWS) as readonly RestoreWindow[]; // validated by their CRD
      const open = evidenceOfWindows(
        windows.map(openedForCluster),
        userInfo,
        { group, resource, namespace },
        now,
      );
      return Promise.resolve(open.length === 0 ? undefined : { windows: open });
    },
  };
}

export function handlerWorldOf(
  { find, list }: Pick<Contents, 'find' | 'list'>,
  resolve: (kind: GroupResource) => { readonly namespaced: boolean } | undefined,
): HandlerWorld {
  return {
    isNamespaced: (kind) => {
      const resolved = resolve(kind);
      if (resolved !== undefined) return Promise.resolve(resolved.namespaced);
      const message = `the CustomResourceDefinition of ${groupResourceName(kind)} is missing: add it with --crds`;
      return Promise.reject(new Error(message));
    },
    find: () => undefined,
    select: () => undefined,
    read: (kind, place) => Promise.resolve(find({ ...kind, ...place })),
    query: (kind, { namespace }) =>
      Promise.resolve(
        list(kind).filter(({ metadata }) => namespace === undefined || metadata?.namespace === namespace),
      ),
  };
}

/** Who refers to a target, and who holds a unique value: of the existing objects, and of those that are added. */
export function createGovernedIndex(
  policies: readonly CompiledPolicy[],
  { list }: Pick<Contents, 'list'>,
): GovernedIndex & { readonly add: (kind: GroupResource, object: KubeObject) => void } {
  const indexes = new Map(
    policies.filter(needsSummary).map((policy) => [policy.name, indexOf(policy, list)]),
  );
  return {
    add: (kind, object) => {
      for (const { add } of indexes.values()) add(kind, object);
    },
    referrers: (target, some) => {
      const found = some.flatMap(({ name }) => indexes.get(name)?.refs('targets', targetKey(target)) ?? []);
      return uniqueBy(found, targetKey);
    },
    holders: (claim, { name }) => indexes.get(name)?.refs('claims', claim) ?? [],
  };
}

type Summary = KubeObject & GovernedSummary & { readonly ref: ObjectRef };

function indexOf(policy: CompiledPolicy, list: Contents['list']) {
  const kinds = governed(policy);
  const names = new Set(kinds.map(groupResourceName));
  const indexes = { targets: ({ targets }: Summary) => targets, claims: ({ claims }: Summary) => claims };
  const store = createStore<Summary>({ indexes });
  const add = (kind: GroupResource, object: KubeObject): void => {
    if (!names.has(groupResourceName(kind))) return;
    const ref = refOf(kind, object);
    store.set(targetKey(ref), { ref, ...summarise([policy], kind, object) });
  };
  for (const kind of kinds) for (const object of list(kind)) add(kind, object);
  const refs = (index: keyof typeof indexes, value: string): readonly ObjectRef[] =>
    store.byIndex(index, value).map(({ ref }) => ref);
  return { add, refs };
}

/** Claims are not needed: the objects themselves show who holds a value. */
const NO_CLAIMS: Claims = {
  read: () => Promise.resolve(undefined),
  create: (claim) => Promise.resolve(claim),
  replace: (claim) => Promise.resolve(claim),
  remove: () => Promise.resolve('removed'),
  settleMs: 0,
  reserve: () => ({ refused: [], written: () => undefined }),
  hasNamespace: () => Promise.resolve(true),
};
