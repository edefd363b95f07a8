import { groupResourceName } from '../../api/meta.ts';
import { isJsonObject, ownValue } from '../../json/json.ts';
import { copyJson } from './draft.ts';
import { deepFreeze } from './frozen.ts';
import type { ReadKind } from './compile-handler.ts';
import type { HandlerWorld } from './handler-world.ts';

/** A cluster of the objects given, by kind such as `datacenters.infra.example.com`: every kind is served, and nothing is cached. */
export function worldOf(objects: Readonly<Record<string, readonly object[]>>): HandlerWorld {
  const byKind = new Map(
    Object.entries(objects).map(([kind, list]) => [kind, list.map((object) => deepFreeze(copyJson(object)))]),
  );
  const all = (kind: ReadKind): readonly object[] => byKind.get(groupResourceName(kind)) ?? [];
  const isIn = (namespace: string | undefined) => (object: object) =>
    namespace === undefined || metaOf(object, 'namespace') === namespace;
  return {
    isNamespaced: (kind) =>
      Promise.resolve(all(kind).some((object) => metaOf(object, 'namespace') !== undefined)),
    find: () => undefined,
    select: () => undefined,
    read: (kind, { namespace, name }) =>
      Promise.resolve(all(kind).find((object) => metaOf(object, 'name') === name && isIn(namespace)(object))),
    query: (kind, { namespace }) => Promise.resolve(all(kind).filter(isIn(namespace))),
  };
}

function metaOf(object: object, field: string): unknown {
  const metadata = ownValue(object, 'metadata');
  return isJsonObject(metadata) ? ownValue(metadata, field) : undefined;
}
