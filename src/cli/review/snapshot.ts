/** A snapshot of a cluster, made from the input: kinds, Namespaces and objects. */
import type { JsonObject } from '../../json/json.ts';
import { ofJson, type ApiObject } from '../../sandbox/machinery/api-object.ts';
import { ApiFailure } from '../../sandbox/machinery/failure.ts';
import type { ResourceType } from '../../sandbox/machinery/resource-type.ts';
import { createStorage } from '../../sandbox/machinery/storage/storage.ts';
import type { Storage } from '../../sandbox/machinery/storage/stored.ts';
import { decode, refOf } from './api-server.ts';
import { describePlace, type PlacedObject } from './documents.ts';
import { createKinds, type Kinds } from './kinds.ts';
import { createContents, namespaceNamed, type Contents } from './world.ts';

export interface Snapshot {
  readonly kinds: Kinds;
  /** The CRDs and Namespaces, for the API server only. */
  readonly storage: Storage;
  readonly contents: Contents;
  /**
   * Decodes an object like the API server, and creates its namespace.
   * @param warn called for each field that is dropped
   * @throws ApiFailure when the object does not fit the type
   */
  readonly decode: (object: JsonObject, type: ResourceType, warn: (text: string) => void) => ApiObject;
  /** Assumptions, and the objects that were skipped. */
  readonly notes: readonly string[];
}

export interface SnapshotParts {
  /** The existing objects. */
  readonly existing: readonly PlacedObject[];
  /** The objects to review. Their kinds and Namespaces become part of the snapshot too. */
  readonly reviewed: readonly PlacedObject[];
  /** The namespace of objects without one. */
  readonly namespace: string;
}

const NAMESPACES = { group: '', resource: 'namespaces' };
const ignore = () => undefined;

/** @throws UnusableInput when the API server would reject a CRD */
export function createSnapshot({ existing, reviewed, namespace }: SnapshotParts): Snapshot {
  const storage = createStorage();
  const kinds = createKinds([...existing, ...reviewed], storage);
  const contents = createContents();

  const ensureNamespace = (name: string) => {
    if (storage.get(NAMESPACES, { namespace: '', name }) !== undefined) return;
    putNamespace(ofJson({ ...namespaceNamed(name) } as unknown as JsonObject)); // labels are JSON
  };
  const putNamespace = (object: ApiObject) => {
    const key = { namespace: '', name: object.metadata.name ?? '' };
    const before = storage.get(NAMESPACES, key);
    if (before !== undefined) storage.remove(NAMESPACES, key, before.metadata.resourceVersion ?? '');
    storage.create(NAMESPACES, object);
    contents.put({ ref: { ...NAMESPACES, namespace: undefined, name: key.name }, object });
  };
  const decodeHere: Snapshot['decode'] = (object, type, warn) => {
    const decoded = decode(object, type, namespace, warn);
    if (type.namespaced) ensureNamespace(decoded.metadata.namespace ?? '');
    return decoded;
  };
  /** Returns a note if the object is invalid. */
  const put = ({ object, place }: PlacedObject): string | undefined => {
    const type = kinds.typeOf(object);
    if (typeof type === 'string') return `${describePlace(place)}: left out: ${type}`;
    try {
      const decoded = decodeHere(object, type, ignore);
      if (isNamespace(type)) putNamespace(decoded);
      else contents.put({ ref: refOf(type, decoded), object: decoded });
      return undefined;
    } catch (error) {
      if (error instanceof ApiFailure) return `${describePlace(place)}: left out: ${error.message}`;
      throw error;
    }
  };
  const leftOut = existing.map(put);
  for (const placed of reviewed) {
    const type = kinds.typeOf(placed.object);
    if (typeof type !== 'string' && isNamespace(type)) leftOut.push(put(placed));
  }
  const notes = [...kinds.notes, ...leftOut.filter((note) => note !== undefined)];
  return { kinds, storage, contents, decode: decodeHere, notes };
}

const isNamespace = ({ group, resource }: ResourceType): boolean => group === '' && resource === 'namespaces';
