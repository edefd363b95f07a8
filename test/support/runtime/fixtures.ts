/** For controller tests: an API server in memory, and the dependencies that every controller takes. */
import { expect } from 'vitest';

import type { CompiledPolicy } from '../../../src/admission/policy/compile.ts';
import type { AdmissionPolicySpec } from '../../../src/api/admission-policy.ts';
import {
  groupResourceName,
  objectKey,
  type Condition,
  type KubeObject,
} from '../../../src/json/kube-object.ts';
import type { JsonObject } from '../../../src/json/json.ts';
import { mergeInto } from '../../../src/json/merge-patch.ts';
import { ApiError as KubeApiError } from '../../../src/kube/api-error.ts';
import type { KubeClient, ListOptions } from '../../../src/kube/client.ts';
import type { KubeList, NamedRef, Resource } from '../../../src/kube/object.ts';
import type { Log } from '../../../src/log.ts';
import type { Reconcile, ReconcileResult, RecordEvent } from '../../../src/runtime/controller.ts';
import { DATACENTER, policyOf } from '../admission/policy.ts';

export { DATACENTER, GROUP } from '../admission/policy.ts';

export class ApiError extends KubeApiError {
  constructor(code: number, message: string, reason = REASONS[code] ?? '') {
    super({ method: 'PUT', path: '/' }, { code, status: { reason, message } });
  }
}

const REASONS: Readonly<Record<number, string>> = {
  403: 'Forbidden',
  404: 'NotFound',
  409: 'Conflict',
  422: 'Invalid',
};

export type Objects<T extends KubeObject> = ReturnType<typeof createObjects<T>>;

/** The objects of one kind. Input and output are deep copies, as after a JSON round trip. */
export function createObjects<T extends KubeObject>() {
  const stored = new Map<string, T>();
  let version = 0;
  let writes = 0;
  let interruption: 'before' | 'after' | undefined;

  const store = (object: T): T => {
    const copy = copyOf(object);
    const next = { ...copy, metadata: { ...copy.metadata, resourceVersion: String(++version) } };
    stored.set(objectKey(next.metadata), next);
    return copyOf(next);
  };
  const write = async (object: T, check: (known: T | undefined) => void): Promise<T> => {
    writes++;
    const failing = interruption;
    interruption = undefined;
    await Promise.resolve(); // the store applies nothing before the request has been sent
    if (failing === 'before') throw new Error('the connection broke before the write');
    check(stored.get(objectKey(object.metadata ?? {})));
    const written = store(object);
    if (failing === 'after') throw new Error('the connection broke after the write');
    return written;
  };

  /** A change by another client; it does not count as a write. */
  const edit = (key: string, change: (object: T) => T) => {
    const object = stored.get(key);
    if (object === undefined) throw new Error(`there is no ${key} to edit`);
    store(change(copyOf(object)));
  };

  return {
    read: (key: string) => {
      const object = stored.get(key);
      return object === undefined ? undefined : copyOf(object);
    },
    list: (): readonly T[] => [...stored.values()].map(copyOf),
    create: (object: T) =>
      write(object, (known) => {
        if (known !== undefined) throw new ApiError(409, 'already exists', 'AlreadyExists');
      }),
    replace: (object: T) =>
      write(object, (known) => {
        if (known === undefined) throw new ApiError(404, 'not found');
        if (known.metadata?.resourceVersion !== object.metadata?.resourceVersion)
          throw new ApiError(409, 'the object has been modified');
      }),
    edit,
    patch: (key: string, patch: object) => edit(key, (object) => merged(object, patch)),
    add: (object: T) => void store(object),
    remove: (key: string) => void stored.delete(key),
    writes: () => writes,
    /** Makes the next write fail: before the API server applies it, or after, so that only the response is lost. */
    interrupt: (when: 'before' | 'after') => void (interruption = when),
    clear: () => {
      stored.clear();
      writes = 0;
      interruption = undefined;
    },
  };
}

/** An API server in memory. It serves every kind, without defaults, schemas or admission. */
export type Cluster = ReturnType<typeof createCluster>;

type Reads = 'get' | 'getMetadata' | 'list' | 'listAll' | 'pages';
type Writes = 'create' | 'replace' | 'replaceStatus' | 'patchMerge' | 'patchStatus' | 'delete';
type MemoryClient = Pick<KubeClient, Reads | Writes>;

export function createCluster(change: Partial<MemoryClient> = {}) {
  const kinds = new Map<string, Objects<KubeObject>>();
  const objects = <T extends KubeObject>(kind: Pick<Resource, 'group' | 'resource'>): Objects<T> => {
    const name = groupResourceName(kind);
    const known = kinds.get(name) ?? createObjects();
    kinds.set(name, known);
    return known as unknown as Objects<T>; // each test knows the type of the kinds that it stores
  };
  const read = (kind: Resource, ref: NamedRef): KubeObject | undefined => objects(kind).read(objectKey(ref));
  const merge = async <T extends KubeObject>(kind: Resource, ref: NamedRef, patch: object): Promise<T> => {
    const before = read(kind, ref);
    if (before === undefined) throw new ApiError(404, 'not found');
    const { resourceVersion } = (patch as KubeObject).metadata ?? before.metadata ?? {};
    const after = merged(before as T, patch);
    return await objects<T>(kind).replace({ ...after, metadata: { ...after.metadata, resourceVersion } });
  };
  const list = <T extends KubeObject>(
    kind: Resource,
    { namespace, labelSelector }: ListOptions = {},
  ): KubeList<T> => ({
    metadata: {},
    items: objects<T>(kind)
      .list()
      .filter(
        ({ metadata }) =>
          (namespace === undefined || metadata?.namespace === namespace) &&
          (labelSelector === undefined || hasLabel(metadata?.labels ?? {}, labelSelector)),
      ),
  });
  const client: MemoryClient = {
    get: (async (kind: Resource, ref: NamedRef) =>
      await Promise.resolve(read(kind, ref))) as MemoryClient['get'], // as in `objects`
    getMetadata: async (kind, ref) => {
      const { metadata } = (await Promise.resolve(read(kind, ref))) ?? {};
      return metadata === undefined ? undefined : { metadata };
    },
    list: async (kind, options) => await Promise.resolve(list(kind, options)),
    listAll: async (kind, options) => await Promise.resolve(list(kind, options)),
    pages: async function* <T extends KubeObject>(kind: Resource, options?: ListOptions) {
      yield await Promise.resolve(list<T>(kind, options));
    },
    create: (kind, object) => objects<typeof object>(kind).create(object),
    replace: (kind, object) => objects<typeof object>(kind).replace(object),
    replaceStatus: (kind, object) => objects<typeof object>(kind).replace(object),
    patchMerge: merge,
    patchStatus: merge,
    delete: async (kind, ref, options) => {
      const preconditions = options?.preconditions ?? {};
      const { metadata } = (await Promise.resolve(read(kind, ref))) ?? {};
      if (metadata === undefined) return 'absent';
      const { uid = metadata.uid, resourceVersion = metadata.resourceVersion } = preconditions;
      if (uid !== metadata.uid || resourceVersion !== metadata.resourceVersion)
        throw new ApiError(409, 'the preconditions do not hold');
      objects(kind).remove(objectKey(ref));
      return 'deleted';
    },
    ...change,
  };
  const events = createEvents();
  /** Before each test of a file that shares one cluster. */
  const reset = () => {
    for (const one of kinds.values()) one.clear();
    events.all.length = 0;
  };
  return { client, objects, events, reset };
}

function hasLabel(labels: Readonly<Record<string, string>>, selector: string): boolean {
  const [name = '', value] = selector.split('=');
  return labels[name] === value;
}

function merged<T extends KubeObject>(object: T, patch: object): T {
  return mergeInto(object as unknown as JsonObject, copyOf(patch) as JsonObject) as unknown as T;
}

function copyOf<T>(object: T): T {
  return JSON.parse(JSON.stringify(object)) as T;
}

export const NEVER = new AbortController().signal;

const ignore = () => undefined;
export const silent: Log = { debug: ignore, info: ignore, warn: ignore, error: ignore };

export const containing = (part: string): string => expect.stringContaining(part) as string;

type Event = Parameters<RecordEvent>[0];

export function createEvents() {
  const all: Event[] = [];
  const record: RecordEvent = (event) => void all.push(event);
  return { record, reasons: () => all.map(({ reason }) => reason), all };
}

/** Retries after an error, as the workqueue does. */
export async function untilDone(reconcile: Reconcile, key: string): Promise<ReconcileResult> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await reconcile(key, NEVER);
    } catch (error) {
      if (attempt === 5) throw error;
    }
  }
}

export const OWN_NAMESPACE = 'gatehouse-system';

/** The conditions of kstatus that are true: see test/integration/kstatus.test.ts. */
export function standing(
  object: { readonly status?: { readonly conditions?: readonly Condition[] } } = {},
): string {
  const types = ['Ready', 'Reconciling', 'Stalled'];
  const found = object.status?.conditions?.filter(
    ({ type, status }) => types.includes(type) && status === 'True',
  );
  return found?.map(({ type }) => type).join() ?? '';
}

export function compiled(
  spec: Partial<AdmissionPolicySpec> = {},
  { name, generation } = { name: 'servers', generation: 1 },
): CompiledPolicy {
  return { ...policyOf({ validate: { references: [DATACENTER] }, ...spec }, name), generation };
}
