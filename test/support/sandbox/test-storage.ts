import { setImmediate } from 'node:timers/promises';

import type { OwnerReference } from '../../../src/json/kube-object.ts';
import {
  ofJson,
  withMeta,
  type ApiObject,
  type ObjectMeta,
} from '../../../src/sandbox/machinery/api-object.ts';
import { conflict, MODIFIED } from '../../../src/sandbox/machinery/failure.ts';
import { createStorage } from '../../../src/sandbox/machinery/storage/storage.ts';
import type { Key, Place } from '../../../src/sandbox/machinery/storage/stored.ts';
import type { DeletionOptions } from '../../../src/sandbox/server/controllers/garbage-collector.ts';

const KINDS: Readonly<Record<string, { readonly place: Place; readonly namespaced: boolean }>> = {
  ConfigMap: { place: { group: '', resource: 'configmaps' }, namespaced: true },
  Secret: { place: { group: '', resource: 'secrets' }, namespaced: true },
  Event: { place: { group: '', resource: 'events' }, namespaced: true },
  Namespace: { place: { group: '', resource: 'namespaces' }, namespaced: false },
  Server: { place: { group: 'infra.example.com', resource: 'servers' }, namespaced: true },
  CustomResourceDefinition: {
    place: { group: 'apiextensions.k8s.io', resource: 'customresourcedefinitions' },
    namespaced: false,
  },
};

export function kindOf(kind: string) {
  const found = KINDS[kind];
  if (found === undefined) throw new Error(`the test storage has no kind ${kind}`);
  return found;
}

const GONE_SINCE = '2026-01-01T00:00:00Z';

/** A storage with the API's rules of deletion, and nothing else of the API. */
export function createTestStorage() {
  const storage = createStorage();

  const apply = (place: Place, object: ApiObject): void => {
    const version = object.metadata.resourceVersion ?? '';
    const { deletionTimestamp, finalizers = [], name = '', namespace = '' } = object.metadata;
    const held = finalizers.length > 0 || JSON.stringify(object.spec ?? {}).includes('"kubernetes"');
    if (deletionTimestamp === undefined || held) storage.replace(place, object, version);
    else storage.remove(place, { namespace, name }, version);
  };

  const remove = (place: Place, key: Key, options: Partial<DeletionOptions> = {}): void => {
    const live = storage.get(place, key);
    if (live === undefined) return;
    const { uid, resourceVersion } = options.preconditions ?? live.metadata;
    if (uid !== live.metadata.uid || resourceVersion !== live.metadata.resourceVersion) {
      throw conflict(place, key.name, MODIFIED);
    }
    const asked = { Background: [], Orphan: ['orphan'], Foreground: ['foregroundDeletion'] };
    const finalizers = [
      ...(live.metadata.finalizers ?? []),
      ...asked[options.propagationPolicy ?? 'Background'],
    ];
    apply(place, withMeta(live, { finalizers, deletionTimestamp: GONE_SINCE }));
  };

  const find = (kind: string, name: string, namespace = 'shop') => {
    const { place, namespaced } = kindOf(kind);
    return storage.get(place, { namespace: namespaced ? namespace : '', name });
  };

  return {
    storage,
    find,
    replaceObject: apply,
    deleteObject: remove,
    /** Its uid is its kind and name, unless given. */
    add: (kind: string, name: string, meta: ObjectMeta = {}, rest: Readonly<Record<string, string>> = {}) => {
      const { place, namespaced } = kindOf(kind);
      const namespace = namespaced ? { namespace: 'shop' } : {};
      const object = ofJson({
        apiVersion: place.group === '' ? 'v1' : `${place.group}/v1`,
        kind,
        metadata: { name, ...namespace, uid: `${kind}-${name}` },
        ...rest,
      });
      return storage.create(place, withMeta(object, meta));
    },
    /** A deletion by a user. */
    delete: (kind: string, name: string, propagationPolicy: DeletionOptions['propagationPolicy']) => {
      const live = find(kind, name);
      if (live === undefined) throw new Error(`${kind} ${name} does not exist`);
      const { namespace = '', uid = '', resourceVersion = '' } = live.metadata;
      const preconditions = { uid, resourceVersion };
      remove(kindOf(kind).place, { namespace, name }, { propagationPolicy, preconditions });
    },
    /** An update of the metadata by a user. */
    change: (kind: string, name: string, changes: Parameters<typeof withMeta>[1]) => {
      const live = find(kind, name);
      if (live === undefined) throw new Error(`${kind} ${name} does not exist`);
      apply(kindOf(kind).place, withMeta(live, changes));
    },
  };
}

/** A reference to the object that `add` created with this kind and name. */
export function ownedBy(kind: string, name: string, more: Partial<OwnerReference> = {}): OwnerReference {
  const { group } = kindOf(kind).place;
  return {
    apiVersion: group === '' ? 'v1' : `${group}/v1`,
    kind,
    name,
    uid: `${kind}-${name}`,
    ...more,
  };
}

/** Lets controllers finish: each of their steps takes a turn of the event loop. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 30; turn += 1) await setImmediate();
}
