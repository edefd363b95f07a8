/** From a change of another kind to the objects that need a pass. */
import { listIn, objectIn, textIn } from '../json/json.ts';
import { objectKey, splitApiVersion, type KubeObject } from '../json/kube-object.ts';
import type { ReadableKind, Frozen, UntypedObject } from '../admission/handlers/handler.ts';
import type { LabelSelector } from '../json/label-selector.ts';
import type { TypeOf } from './kinds.ts';

/** The name of an object of the kind in `watch`. */
export interface ObjectRef {
  readonly name: string;
  /** Default: the namespace of the changed object. Ignored for cluster-scoped kinds. */
  readonly namespace?: string | undefined;
}

export interface WatchLookup {
  /** The objects of the kind in `watch` for which the function in `indexes` returned this value. */
  readonly byIndex: (index: string, value: string) => readonly ObjectRef[];
  /** All objects of the kind in `watch`. */
  readonly all: () => readonly ObjectRef[];
  /** The kind in `watch`. */
  readonly watched: { readonly group: string; readonly kind: string };
}

/** Another kind whose changes cause passes. */
export interface WatchSource<Found extends object = UntypedObject> {
  /** Like an entry of `reads`, which it replaces. */
  readonly kind: ReadableKind;
  readonly labelSelector?: LabelSelector;
  /**
   * Whether a change causes passes. Not asked about new and deleted objects, and after a restart each object gets a pass anyway.
   * Default: every change.
   */
  when?(object: Frozen<Found>, before: Frozen<Found>): boolean;
  /**
   * The objects that need a pass. Called with the object before a change, too: what it referred to gets a pass. Synchronous,
   * without side effects. If it throws, all objects get a pass.
   */
  map(object: Frozen<Found>, lookup: WatchLookup): readonly ObjectRef[];
}

/** An entry of `watches` whose functions have the type of the kind. */
export const watching = <Kind extends ReadableKind>(
  kind: Kind,
  source: Omit<WatchSource<TypeOf<Kind>>, 'kind'>,
): WatchSource => ({ ...source, kind });

/** For `map`: the owners of the kind in `watch`. */
export function ownersOf(object: object, { watched }: WatchLookup): readonly ObjectRef[] {
  const namespace = namespaceOf(object);
  return listIn(object, 'metadata', 'ownerReferences').flatMap((reference) =>
    textIn(reference, 'kind') === watched.kind &&
    splitApiVersion(textIn(reference, 'apiVersion')).group === watched.group
      ? [{ name: textIn(reference, 'name'), namespace }]
      : [],
  );
}

/** For `map`: the object that a label names, in the namespace of a second label or of the object itself. */
export const byLabel =
  (label: string, namespaceLabel?: string) =>
  (object: object): readonly ObjectRef[] => {
    const labels = objectIn(object, 'metadata', 'labels');
    const name = textIn(labels, label);
    const namespace = namespaceLabel === undefined ? undefined : textIn(labels, namespaceLabel) || undefined;
    return name === '' ? [] : [{ name, namespace: namespace ?? namespaceOf(object) }];
  };

const namespaceOf = (object: object): string | undefined =>
  textIn(object, 'metadata', 'namespace') || undefined;

/** Users write what `map` reads: no object may cause more passes than this, unless there are more objects. */
const MOST_KEYS = 10_000;

/** The keys of what `map` returned, each once. @param existing how many objects there are. @throws TypeError */
export function keysOf(
  refs: unknown,
  object: KubeObject,
  isNamespaced: boolean,
  existing = () => 0,
): readonly string[] {
  if (!Array.isArray(refs)) {
    const instead = refs instanceof Promise ? ', not a promise' : '';
    throw new TypeError(`map: return a list of { name, namespace }${instead}`);
  }
  const keys = new Set(refs.map((ref: unknown) => keyIn(ref, object, isNamespaced)));
  if (keys.size > MOST_KEYS && keys.size > existing())
    throw new TypeError(`map: ${keys.size} objects are too many; the limit is ${MOST_KEYS}`);
  return [...keys];
}

function keyIn(ref: unknown, object: KubeObject, isNamespaced: boolean): string {
  const name = textIn(ref, 'name');
  if (name === '') throw new TypeError('map: each item needs a name');
  if (name.includes('/')) throw new TypeError(`map: ${JSON.stringify(name)} is not a name`);
  const namespace = isNamespaced ? textIn(ref, 'namespace') || object.metadata?.namespace : undefined;
  if (namespace?.includes('/') === true)
    throw new TypeError(`map: ${JSON.stringify(namespace)} is not a namespace`);
  if (isNamespaced && namespace === undefined)
    throw new TypeError(
      `map: ${name} needs a namespace, because ${object.kind ?? 'the changed object'} has none`,
    );
  return objectKey({ namespace, name });
}

/** Whether an object has these values of indexes. @param onError gets what an index throws */
export const isIndexed = (
  indexes: Readonly<Record<string, (object: object) => readonly string[]>>,
  wanted: readonly (readonly [name: string, value: string])[],
  object: object,
  onError: (error: unknown) => void,
): boolean =>
  wanted.every(([name, value]) => {
    const index = indexes[name];
    return index !== undefined && valuesOf(index, object, onError).includes(value);
  });

/** The values of an index. Authors' functions must not break a store: @param onError gets what they throw */
export function valuesOf(
  index: (object: object) => readonly string[],
  object: object,
  onError: (error: unknown) => void,
): readonly string[] {
  try {
    const values: unknown = index(object);
    if (Array.isArray(values)) return values.filter((value) => typeof value === 'string');
    throw new TypeError('return a list of strings');
  } catch (error) {
    onError(error);
    return [];
  }
}
