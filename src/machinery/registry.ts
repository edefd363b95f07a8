import type { ApiObject } from './api-object.ts';
import { DEFINITIONS } from './crd/definition.ts';
import { storedTypeOf, typesOf } from './crd/types-of.ts';
import { apiVersionOf, type ResourceRegistry, type ResourceType, compareVersions } from './resource-type.ts';
import type { Storage } from './storage/stored.ts';

/** Types indexed by all lookup keys. */
interface Index {
  readonly types: readonly ResourceType[];
  readonly byResource: ReadonlyMap<string, ResourceType>;
  readonly byKind: ReadonlyMap<string, ResourceType>;
  readonly stored: ReadonlyMap<string, ResourceType>;
}

/** API names contain no spaces, so joined keys are unambiguous. */
const joined = (...parts: readonly string[]) => parts.join(' ');

/**
 * All served types: built-in kinds, and the kinds of the definitions currently in `storage`. A built-in kind takes
 * precedence over a definition of the same resource.
 */
export function createRegistry(builtIns: readonly ResourceType[], storage: Storage): ResourceRegistry {
  const builtIn = indexOf(
    builtIns,
    builtIns.filter(({ version, storageVersion }) => version === storageVersion),
  );
  let known: { readonly custom: Index; readonly all: readonly ResourceType[] } | undefined;

  const readDefinitions = () => {
    known ??= indexDefinitions(storage.list(DEFINITIONS).items, builtIns);
    return known;
  };
  storage.watch(DEFINITIONS, storage.revision(), () => {
    known = undefined;
  });

  return {
    find: (group, version, resource) => {
      const key = joined(group, version, resource);
      return builtIn.byResource.get(key) ?? readDefinitions().custom.byResource.get(key);
    },
    findKind: (apiVersion, kind) => {
      const key = joined(apiVersion, kind);
      return builtIn.byKind.get(key) ?? readDefinitions().custom.byKind.get(key);
    },
    stored: (group, resource) => {
      const key = joined(group, resource);
      return builtIn.stored.get(key) ?? readDefinitions().custom.stored.get(key);
    },
    all: () => readDefinitions().all,
  };
}

function indexDefinitions(definitions: readonly ApiObject[], builtIns: readonly ResourceType[]) {
  const custom = indexOf(
    definitions.flatMap(typesOf),
    definitions.map(storedTypeOf).filter((type) => type !== undefined),
  );
  return { custom, all: inDiscoveryOrder(builtIns, custom.types) };
}

function indexOf(types: readonly ResourceType[], stored: readonly ResourceType[]): Index {
  return {
    types,
    byResource: new Map(types.map((type) => [joined(type.group, type.version, type.resource), type])),
    byKind: new Map(types.map((type) => [joined(apiVersionOf(type), type.kind), type])),
    stored: new Map(stored.map((type) => [joined(type.group, type.resource), type])),
  };
}

/**
 * The core group first, then the other built-in groups, then custom groups, each by name. Within a group, the
 * preferred version first, then by resource.
 */
function inDiscoveryOrder(
  builtIns: readonly ResourceType[],
  custom: readonly ResourceType[],
): readonly ResourceType[] {
  const builtInGroups = new Set(builtIns.map(({ group }) => group));
  const rank = ({ group }: ResourceType) => (builtInGroups.has(group) ? 0 : 1);
  return [...builtIns, ...custom].sort(
    (left, right) =>
      rank(left) - rank(right) ||
      compareText(left.group, right.group) ||
      compareVersions(left.version, right.version) ||
      compareText(left.resource, right.resource),
  );
}

const compareText = (left: string, right: string) => (left < right ? -1 : Number(left > right));
