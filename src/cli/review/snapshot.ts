/** A snapshot of a cluster, made from the input: kinds, Namespaces and objects. */
import type { JsonObject } from '../../json/json.ts';
import { NAMESPACE_NAME_LABEL } from '../../json/label-selector.ts';
import { ofJson, withMeta, type ApiObject } from '../../machinery/api-object.ts';
import { ApiFailure } from '../../machinery/failure.ts';
import { decodeObject } from '../../machinery/objects/decode.ts';
import type { ResourceType } from '../../machinery/resource-type.ts';
import { createStorage } from '../../machinery/storage/storage.ts';
import { SILENT } from './api-server.ts';
import { refOf } from '../../json/kube-object.ts';
import { describePlace, type PlacedObject } from './documents.ts';
import { createKinds } from './kinds.ts';
import { createContents } from './world.ts';

export interface SnapshotInput {
  /** The existing objects. */
  readonly existing: readonly PlacedObject[];
  /** The objects to review. Their kinds and Namespaces become part of the snapshot too. */
  readonly reviewed: readonly PlacedObject[];
  /** The namespace of objects without one. */
  readonly namespace: string;
}

export const NAMESPACES = { group: '', resource: 'namespaces' };

/** @throws UnusableInput when the API server would reject a CRD */
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
    const decoded = decodeIn(namespace, object, type, warn);
    const { namespace: name = '' } = decoded.metadata;
    if (type.namespaced && storage.get(NAMESPACES, { namespace: '', name }) === undefined) {
      const metadata = { name, labels: { [NAMESPACE_NAME_LABEL]: name } };
      putNamespace(ofJson({ apiVersion: 'v1', kind: 'Namespace', metadata }));
    }
    return decoded;
  };
  /** Returns a note if the object is invalid. */
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
    /** The CRDs and Namespaces, for the API server only. */
    storage,
    contents,
    /**
     * Decodes an object like the API server, and creates its namespace.
     * @param warn called for each field that is dropped
     * @throws ApiFailure when the object does not fit the type
     */
    decode,
    /** Creates or replaces a Namespace. */
    putNamespace,
    /** Assumptions, and the objects that were skipped. */
    notes: [...kinds.notes, ...leftOut],
  };
}

/** Prunes an object, and sets the defaults of its CRD. @param namespace of namespaced objects without one */
function decodeIn(
  namespace: string,
  object: JsonObject,
  type: ResourceType,
  warn: (text: string) => void,
): ApiObject {
  const decoded = decodeObject(object, type, 'Warn', { ...SILENT, warn });
  const isPlaced = (decoded.metadata.namespace ?? '') !== '';
  if (isPlaced === type.namespaced) return decoded;
  return withMeta(decoded, { namespace: type.namespaced ? namespace : undefined });
}

const isNamespace = (type: ResourceType | string): boolean =>
  typeof type !== 'string' && type.group === '' && type.resource === 'namespaces';
