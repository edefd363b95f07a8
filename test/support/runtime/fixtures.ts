/** For the tests of this room: an API server in memory, one kind at a time, and what else every controller is given. */
import { compilePolicy, type CompiledPolicy } from '../../../src/admission/policy/compile.ts';
import type { AdmissionPolicySpec } from '../../../src/api/admission-policy.ts';
import { objectKey, type KubernetesObject } from '../../../src/api/meta.ts';
import type { Log, Reconcile, ReconcileResult, RecordEvent } from '../../../src/runtime/reconcile.ts';

export class ApiError extends Error {
  override readonly name = 'ApiError';
  readonly code: number;

  constructor(code: number, message: string) {
    super(message);
    this.code = code;
  }
}

/** The objects of one kind. What goes in and out is copied, as JSON would be. */
export interface Objects<T extends KubernetesObject> {
  readonly read: (key: string) => T | undefined;
  /** Fails with 409 when the object exists. */
  readonly create: (object: T) => Promise<T>;
  /** Fails with 409 unless the object has the resourceVersion that is stored. */
  readonly replace: (object: T) => Promise<T>;
  /** What someone else does: no write of ours. */
  readonly edit: (key: string, change: (object: T) => T) => void;
  readonly add: (object: T) => void;
  readonly remove: (key: string) => void;
  /** How many writes were asked for, whatever came of them. */
  readonly writes: () => number;
  /** The next write fails: before it is applied, or after, so that only the answer is lost. */
  readonly interrupt: (when: 'before' | 'after') => void;
}

export function createObjects<T extends KubernetesObject>(): Objects<T> {
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
    await Promise.resolve(); // nothing is written before the request has left
    if (failing === 'before') throw new Error('the connection broke before the write');
    check(stored.get(objectKey(object.metadata ?? {})));
    const written = store(object);
    if (failing === 'after') throw new Error('the connection broke after the write');
    return written;
  };

  return {
    read: (key) => {
      const object = stored.get(key);
      return object === undefined ? undefined : copyOf(object);
    },
    create: (object) =>
      write(object, (known) => {
        if (known !== undefined) throw new ApiError(409, 'already exists');
      }),
    replace: (object) =>
      write(object, (known) => {
        if (known === undefined) throw new ApiError(404, 'not found');
        if (known.metadata?.resourceVersion !== object.metadata?.resourceVersion)
          throw new ApiError(409, 'the object has been modified');
      }),
    edit: (key, change) => {
      const object = stored.get(key);
      if (object === undefined) throw new Error(`there is no ${key} to edit`);
      store(change(copyOf(object)));
    },
    add: (object) => void store(object),
    remove: (key) => void stored.delete(key),
    writes: () => writes,
    interrupt: (when) => {
      interruption = when;
    },
  };
}

/** As it comes over the wire. */
function copyOf<T>(object: T): T {
  return JSON.parse(JSON.stringify(object)) as T;
}

export const NEVER = new AbortController().signal;

export const silent: Log = { debug: () => undefined, info: () => undefined, warn: () => undefined };

type Event = Parameters<RecordEvent>[0];

export function createEvents(): {
  readonly record: RecordEvent;
  readonly reasons: () => readonly string[];
  readonly all: readonly Event[];
} {
  const all: Event[] = [];
  return { record: (event) => void all.push(event), reasons: () => all.map(({ reason }) => reason), all };
}

/** As the workqueue does: what throws is tried again. */
export async function untilDone(reconcile: Reconcile, key: string): Promise<ReconcileResult> {
  for (let attempt = 1; ; attempt++) {
    try {
      return await reconcile(key, NEVER);
    } catch (error) {
      if (attempt === 5) throw error;
    }
  }
}

export const GROUP = 'infra.example.com';
export const OWN_NAMESPACE = 'gatehouse-system';

const KINDS: Readonly<Record<string, { readonly kind: string; readonly namespaced: boolean }>> = {
  datacenters: { kind: 'Datacenter', namespaced: false },
  racks: { kind: 'Rack', namespaced: true },
  servers: { kind: 'Server', namespaced: true },
};

export const datacenterReference = {
  name: 'datacenter',
  path: 'spec.datacenter',
  target: { apiGroup: GROUP, resource: 'datacenters' },
};

/** A policy over Servers, which name a Datacenter; compiled. */
export function compiled(
  spec: Partial<AdmissionPolicySpec> = {},
  metadata: { readonly name: string; readonly generation: number } = { name: 'servers', generation: 1 },
): CompiledPolicy {
  const result = compilePolicy(
    {
      metadata,
      spec: {
        match: { apiGroups: [GROUP], resources: ['servers'] },
        validate: { references: [datacenterReference] },
        ...spec,
      },
    },
    { ownNamespace: OWN_NAMESPACE, matchConditions: true, resolve: ({ resource }) => KINDS[resource] },
  );
  if (result.kind === 'rejected') throw new Error(JSON.stringify(result.problems));
  return result.policy;
}
