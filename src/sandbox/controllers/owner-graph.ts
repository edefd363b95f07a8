import type { ApiObject } from '../api-object.ts';
import type { Place, StoredEvent } from '../storage/stored.ts';

export interface Stored {
  readonly place: Place;
  readonly object: ApiObject;
}

/** Who owns whom, by uid. An owner need not be there. */
export interface OwnerGraph {
  readonly observe: (place: Place, event: Pick<StoredEvent, 'type' | 'object'>) => void;
  readonly get: (uid: string) => Stored | undefined;
  readonly dependentsOf: (uid: string) => readonly Stored[];
}

export const ownersOf = ({ metadata }: ApiObject): readonly string[] =>
  (metadata.ownerReferences ?? []).map(({ uid }) => uid);

export function createOwnerGraph(): OwnerGraph {
  const objects = new Map<string, Stored>();
  const dependents = new Map<string, Set<string>>();

  const unlink = (uid: string, owner: string) => {
    const linked = dependents.get(owner);
    linked?.delete(uid);
    if (linked?.size === 0) dependents.delete(owner);
  };
  const link = (uid: string, owner: string) => {
    const linked = dependents.get(owner);
    if (linked === undefined) dependents.set(owner, new Set([uid]));
    else linked.add(uid);
  };

  return {
    observe: (place, { type, object }) => {
      const { uid } = object.metadata;
      if (uid === undefined) return;
      const before = objects.get(uid);
      if (before !== undefined) for (const owner of ownersOf(before.object)) unlink(uid, owner);
      if (type === 'DELETED') {
        objects.delete(uid);
        return;
      }
      objects.set(uid, { place, object });
      for (const owner of ownersOf(object)) link(uid, owner);
    },
    get: (uid) => objects.get(uid),
    dependentsOf: (uid) => [...(dependents.get(uid) ?? [])].flatMap((each) => objects.get(each) ?? []),
  };
}
