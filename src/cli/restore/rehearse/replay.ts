/** Writes the objects of a backup into the cluster of a rehearsal, in the order and in the way of Velero. */
import type { BackupItem } from '../../../restore/backup/backup.ts';
import { isServedBuiltIn } from '../../../restore/backup/built-in-versions.ts';
import {
  mappedNamespace,
  mergeDiff,
  restoredObject,
  restoreLabels,
  stripped,
  type RestoreNames,
} from '../../../restore/backup/restored-object.ts';
import { isEqual, objectIn, textIn, type JsonObject } from '../../../json/json.ts';
import { groupResourceName, objectKey, refOf } from '../../../json/kube-object.ts';
import { mergeInto } from '../../../json/merge-patch.ts';
import type { ResourceType } from '../../../machinery/resource-type.ts';
import type { Target, Written } from './target.ts';

export interface ReplayOptions extends RestoreNames {
  readonly existingResourcePolicy: 'none' | 'update';
  /** The minor version of the target's Kubernetes; undefined: the newest that is known here. */
  readonly minor?: number | undefined;
  /** The Namespaces of the backup by name: Velero reads them also if they are not selected. */
  readonly namespaces: ReadonlyMap<string, BackupItem>;
}

export const namespacesIn = (items: readonly BackupItem[]): ReadonlyMap<string, BackupItem> =>
  new Map(
    items
      .filter(({ resource }) => groupResourceName(resource) === 'namespaces')
      .map((one) => [one.name, one]),
  );

/** What happens to one object of the backup. */
export interface Outcome {
  readonly item: BackupItem;
  /** Where it is restored; undefined for cluster-scoped objects. */
  readonly namespace: string | undefined;
  /**
   * `exists`: an equal object exists. `different`: one exists that differs, and stays. `incomplete`: the object is
   * restored, and its second write, which restores managedFields, is refused.
   */
  readonly result: 'restored' | 'refused' | 'unserved' | 'exists' | 'different' | 'incomplete';
  readonly message: string;
  /** The checks that are deferred, e.g. `servers/datacenter=datacenters.infra.example.com/fra1`; empty: none. */
  readonly deferred: string;
}

/**
 * @param items in the order of Velero
 * @param onProgress called before each object with the number of objects before it
 */
export async function replay(
  target: Target,
  items: readonly BackupItem[],
  options: ReplayOptions,
  onProgress: (done: number, item: BackupItem) => void,
): Promise<readonly Outcome[]> {
  const { namespaces } = options;
  const outcomes: Outcome[] = [];
  const written = new Map<string, BackupItem>();
  for (const [done, item] of items.entries()) {
    onProgress(done, item);
    if (namespaces.get(item.name) === item)
      outcomes.push(await writeNamespace(target, item.name, item, options));
    else {
      if (item.namespace !== undefined)
        await writeNamespace(target, item.namespace, namespaces.get(item.namespace), options);
      const outcome = await writeObject(target, item, options);
      const name = describeOutcome(outcome);
      const first = written.get(name);
      if (first === undefined) written.set(name, item);
      outcomes.push(first === undefined || isSameObject(first, item, options) ? outcome : collision(outcome));
    }
  }
  return outcomes;
}

/** Whether two objects with the same name after the mapping are copies. */
function isSameObject(first: BackupItem, second: BackupItem, names: RestoreNames): boolean {
  const [a, b] = [first, second].map((item) =>
    mergeInto(restoredObject(item, names), { metadata: { managedFields: null } }),
  );
  return isEqual(a, b);
}

const collision = ({ item, namespace }: Outcome): Outcome =>
  outcomeOf(
    item,
    namespace,
    'refused',
    'another object of the backup has this name after the mapping of namespaces: one of the two is lost',
  );

/** Velero creates a missing Namespace without labels of its own, also if the backup does not contain it. */
async function writeNamespace(
  target: Target,
  from: string,
  item: BackupItem | undefined,
  names: ReplayOptions,
): Promise<Outcome> {
  const name = mappedNamespace(from, names) ?? from;
  const { labels = {}, annotations = {} } = objectIn(item?.object, 'metadata');
  const object = { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels, annotations } };
  const known = {
    resource: { group: '', resource: 'namespaces' },
    namespace: undefined,
    name,
    object: item?.object ?? object,
  };
  const type = target.kinds.typeOf(object);
  if (target.hasNamespace(name) || typeof type === 'string') return outcomeOf(known, undefined, 'exists');
  return ofWrite(known, undefined, await target.write(object, type));
}

async function writeObject(target: Target, item: BackupItem, options: ReplayOptions): Promise<Outcome> {
  const namespace = mappedNamespace(item.namespace, options);
  const type = target.kinds.typeOf(item.object);
  const served = builtInAnswer(item, options);
  if (served === false) return outcomeOf(item, namespace, 'unserved', unservedIn(item, options));
  if (typeof type === 'string')
    return served === true
      ? outcomeOf(item, namespace, 'restored') // an old version, whose fields are not known here
      : outcomeOf(item, namespace, 'unserved', type);
  if (type.namespaced !== (item.namespace !== undefined))
    return outcomeOf(item, namespace, 'unserved', otherScope(type));
  const wanted = restoredObject(item, options);
  const ref = { ...item.resource, namespace, name: item.name };
  const existing = target.contents.find(ref);
  if (existing !== undefined)
    return await meetExisting(
      target,
      { item, namespace, type, wanted },
      existing as unknown as JsonObject,
      options,
    );
  const { managedFields, ...others } = objectIn(wanted, 'metadata');
  const created = await target.write({ ...wanted, metadata: others }, type);
  if (created.kind === 'refused' || managedFields === undefined) return ofWrite(item, namespace, created);
  const stored = target.contents.find(refOf(type, wanted)) as unknown as JsonObject; // just written
  const second = { ...stored, metadata: { ...objectIn(stored, 'metadata'), managedFields } };
  const patched = await target.write(second, type);
  if (patched.kind === 'refused')
    return { ...outcomeOf(item, namespace, 'incomplete', patched.message), deferred: created.deferred };
  return ofWrite(item, namespace, created);
}

const builtInAnswer = ({ object }: BackupItem, { minor }: ReplayOptions): boolean | undefined =>
  minor === undefined
    ? undefined
    : isServedBuiltIn(textIn(object, 'apiVersion'), textIn(object, 'kind'), minor);

const unservedIn = ({ object }: BackupItem, { minor = 0 }: ReplayOptions): string =>
  `Kubernetes 1.${minor} does not serve ${textIn(object, 'apiVersion')} ${textIn(object, 'kind')}: back it up in a version that both serve`;

/** Velero writes an object to the path of its scope in the backup. */
const otherScope = ({ kind, namespaced }: ResourceType): string =>
  namespaced
    ? `${kind} is namespaced in the target, and the object has no namespace`
    : `${kind} is cluster-scoped in the target, and the object has a namespace`;

interface Wanted {
  readonly item: BackupItem;
  readonly namespace: string | undefined;
  readonly type: ResourceType;
  readonly wanted: JsonObject;
}

/** Velero writes an object that exists only if the policy says so; if that is refused, it tries its labels alone. */
async function meetExisting(
  target: Target,
  { item, namespace, type, wanted }: Wanted,
  existing: JsonObject,
  options: ReplayOptions,
): Promise<Outcome> {
  const current = stripped(existing);
  const labels = { metadata: { labels: restoreLabels(options) } };
  const isSame = mergeDiff(mergeInto(current, labels), wanted) === undefined;
  if (options.existingResourcePolicy === 'none')
    return isSame
      ? outcomeOf(item, namespace, 'exists')
      : outcomeOf(item, namespace, 'different', 'an object with this name exists, and stays as it is');
  const patch = isSame ? labels : (mergeDiff(current, wanted) ?? labels);
  const patched = await target.write(mergeInto(existing, patch), type);
  if (patched.kind === 'refused') await target.write(mergeInto(existing, labels), type);
  return ofWrite(item, namespace, patched);
}

const ofWrite = (item: BackupItem, namespace: string | undefined, written: Written): Outcome =>
  written.kind === 'refused'
    ? outcomeOf(item, namespace, 'refused', written.message)
    : { ...outcomeOf(item, namespace, 'restored'), deferred: written.deferred };

const outcomeOf = (
  item: BackupItem,
  namespace: string | undefined,
  result: Outcome['result'],
  message = '',
): Outcome => ({ item, namespace, result, message, deferred: '' });

/** e.g. `servers.infra.example.com shop/db` */
export const describeOutcome = ({ item: { resource, name }, namespace }: Outcome): string =>
  `${groupResourceName(resource)} ${objectKey({ namespace, name })}`;
