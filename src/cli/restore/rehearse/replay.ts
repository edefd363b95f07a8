/** The cluster of a rehearsal, an API server in memory, and how Velero writes the objects of a backup into it. */
import { randomUUID } from 'node:crypto';

import type { UserInfo } from '../../../admission/review/request.ts';
import type { RestoreWindow } from '../../../api/restore-window.ts';
import {
  isEqual,
  isJsonObject,
  type JsonObject,
  type JsonValue,
  listIn,
  objectIn,
  textIn,
} from '../../../json/json.ts';
import { refOf, toTimestamp, groupResourceName } from '../../../json/kube-object.ts';
import { RESTORE_WINDOWS } from '../../../runtime/resources.ts';
import { withMeta, type ApiObject } from '../../../machinery/api-object.ts';
import { ApiFailure } from '../../../machinery/failure.ts';
import type { ResourceType } from '../../../machinery/resource-type.ts';
import { SILENT, type Write } from '../../review/api-server.ts';
import { createRecording, toReviewResult } from '../../review/review-result.ts';
import {
  createGovernedIndex,
  handlerWorldOf,
  NAMESPACES,
  worldOf,
  type SnapshotInput,
} from '../../review/snapshot.ts';
import { createStage, type ReviewContext } from '../../review/stage.ts';
import type { BackupItem } from '../../../restore/backup/backup.ts';
import { describeItem } from '../../../restore/backup/selection.ts';
import { isServedBuiltIn } from '../../../restore/backup/built-in-versions.ts';
import {
  isBinding,
  mappedNamespace,
  mergeDiff,
  modifiedObject,
  restoredObject,
  restoreLabels,
  stripped,
  type RestoreNames,
} from '../../../restore/backup/restored-object.ts';
import { mergeInto } from '../../../json/merge-patch.ts';
import type { PermissionWrite } from '../../../restore/guard.ts';

type Written =
  | { readonly kind: 'stored'; readonly deferred: string }
  | { readonly kind: 'refused'; readonly message: string };

export interface StoredWrite extends PermissionWrite {
  readonly name: string;
}

export type Target = ReturnType<typeof createTarget>;

export function createTarget(
  input: SnapshotInput,
  context: ReviewContext,
  user: UserInfo,
  window: RestoreWindow | undefined,
) {
  const { snapshot, policies, api, calls } = createStage(input, context);
  const { contents, kinds, storage, decode } = snapshot;
  if (window !== undefined) contents.put(refOf(RESTORE_WINDOWS, window), window);
  const index = createGovernedIndex(policies, contents);
  const world = worldOf(contents, index, context.now);
  const view = { world, handlerWorld: handlerWorldOf(contents, kinds.resolve) };
  const namespaceOf = (name: string) => storage.get(NAMESPACES, { namespace: '', name });
  const hasNamespace = (name: string): boolean => namespaceOf(name) !== undefined;

  const store = (type: ResourceType, object: ApiObject, old: ApiObject | undefined): void => {
    const born = { uid: randomUUID(), creationTimestamp: toTimestamp(context.now) };
    const stored = old === undefined ? withMeta(object, born) : object;
    if (type.group === '' && type.resource === NAMESPACES.resource) snapshot.putNamespace(stored);
    else contents.put(refOf(type, stored), stored);
    index.add(type, stored);
  };
  const writes: StoredWrite[] = [];
  return {
    kinds,
    contents,
    writes,
    policies,
    world,
    hasNamespace,
    namespaceLabels: () =>
      new Map(
        storage.list(NAMESPACES).items.map(({ metadata }) => [metadata.name ?? '', metadata.labels ?? {}]),
      ),
    inVersion: api.inVersion,
    notes: snapshot.notes,
    /** Creates the object, or updates the one with its name. Throws nothing: a refusal is a result. */
    write: async (object: JsonObject, type: ResourceType): Promise<Written> => {
      const record = createRecording();
      try {
        const namespace = textIn(object, 'metadata', 'namespace');
        if (namespace !== '' && !hasNamespace(namespace))
          throw new ApiFailure(404, 'NotFound', `namespaces "${namespace}" not found`);
        if (namespaceOf(namespace)?.metadata.deletionTimestamp !== undefined)
          throw new ApiFailure(409, 'Conflict', terminating(namespace));
        const decoded = decode(object, type, SILENT.warn);
        const before = contents.find(refOf(type, decoded)) as ApiObject | undefined; // decoded by this machinery
        const old = before === undefined ? undefined : await api.inVersion(before, type);
        const operation = old === undefined ? 'CREATE' : 'UPDATE';
        const write: Write = { type, operation, user, object: decoded, old };
        const result = await api.mutate(write, calls(view, record));
        await api.validate(write, result?.prepared, calls(view, record));
        if (result !== undefined) {
          store(type, result.prepared, old);
          writes.push({ ...refOf(type, decoded), resource: type, object: result.prepared, oldObject: old });
        }
        return { kind: 'stored', deferred: [...(record.annotations.get('deferred') ?? [])].join(', ') };
      } catch (error) {
        if (!(error instanceof ApiFailure)) throw error;
        const { messages } = toReviewResult(record, error, undefined, undefined);
        return { kind: 'refused', message: messages.join('; ') };
      }
    },
  };
}

const terminating = (namespace: string): string =>
  `the namespace ${namespace} is being deleted in the target: Velero waits 10 minutes, then omits its objects; restore after the deletion`;

interface ReplayOptions extends RestoreNames {
  readonly existingResourcePolicy: 'none' | 'update';
  readonly minor?: number | undefined;
  /** By name. Velero reads them even if they are not selected. */
  readonly namespaces: ReadonlyMap<string, BackupItem>;
}

export const namespacesIn = (items: readonly BackupItem[]): ReadonlyMap<string, BackupItem> =>
  new Map(
    items
      .filter(({ resource }) => groupResourceName(resource) === 'namespaces')
      .map((one) => [one.name, one]),
  );

export interface Outcome {
  readonly item: BackupItem;
  readonly namespace: string | undefined;
  readonly result: Result;
  readonly message: string;
  readonly deferred: string;
  /** As Velero writes it. */
  readonly object: JsonObject;
  /** Of an update. */
  readonly patch?: JsonObject;
  /** The resource modifiers that failed. */
  readonly failed: readonly string[];
}

/**
 * `labelled`, `exists`: Velero finds no difference, and writes at most its labels. `incomplete`: the write of managedFields
 * is refused. `different`: Velero keeps an existing object that differs. `kept`: its update is refused; `unlabelled`: its
 * labels are also refused. `omitted`: Velero leaves it to the cluster to create the object.
 */
type Result =
  | ('restored' | 'updated' | 'labelled' | 'incomplete')
  | ('exists' | 'different' | 'kept' | 'unlabelled' | 'refused' | 'unserved' | 'omitted');

const RESTORED: readonly Result[] = ['restored', 'updated', 'labelled', 'incomplete'];
export const isRestored = ({ result }: Pick<Outcome, 'result'>): boolean => RESTORED.includes(result);

/** As in `writtenOf` of the sweep: an object is not the restore's if Velero only changes labels or removes fields. */
export const setsFields = ({ patch }: Pick<Outcome, 'patch'>): boolean =>
  patch === undefined || setsValue(mergeInto(patch, { metadata: { labels: null, managedFields: null } }));

const setsValue = (patch: JsonValue): boolean =>
  isJsonObject(patch) ? Object.values(patch).some(setsValue) : patch !== null;

export async function replay(
  target: Target,
  items: readonly BackupItem[],
  options: ReplayOptions,
  onProgress: (done: number, item: BackupItem) => void,
): Promise<{ readonly outcomes: readonly Outcome[]; readonly added: readonly Outcome[] }> {
  const { namespaces } = options;
  const outcomes: Outcome[] = [];
  const added: Outcome[] = [];
  const omitted = new Set<string>();
  const written = new Map<string, BackupItem>();
  for (const [done, item] of items.entries()) {
    onProgress(done, item);
    if (namespaces.get(item.name) === item)
      outcomes.push(await writeNamespace(target, item.name, item, options));
    else {
      const from = item.namespace;
      const place = from && (await writeNamespace(target, from, namespaces.get(from), options));
      if (typeof place === 'object' && isRestored(place)) added.push(place);
      const outcome = await writeObject(target, { item: unbound(item, omitted), place }, options);
      if (outcome.result === 'omitted') omitted.add(item.name);
      const name = describeOutcome(outcome);
      const first = written.get(name);
      if (first === undefined) written.set(name, item);
      outcomes.push(
        first === undefined || isSameObject(first, item, options)
          ? outcome
          : { ...outcome, ...collision(first, item) },
      );
    }
  }
  return { outcomes, added };
}

function isSameObject(first: BackupItem, second: BackupItem, names: RestoreNames): boolean {
  const [a, b] = [first, second].map((item) =>
    mergeInto(restoredObject(item, names), { metadata: { managedFields: null } }),
  );
  return isEqual(a, b);
}

type Answer = Pick<Outcome, 'result' | 'message' | 'deferred' | 'patch'>;

const answer = (result: Outcome['result'], message = ''): Answer => ({ result, message, deferred: '' });

const ofWrite = (written: Written): Answer =>
  written.kind === 'refused'
    ? answer('refused', written.message)
    : { ...answer('restored'), deferred: written.deferred };

const collision = (first: BackupItem, { namespace }: BackupItem): Answer =>
  answer(
    'refused',
    `another object of the backup has this name${first.namespace === namespace ? '' : ' after the mapping of namespaces'}: one of the two is lost`,
  );

/** Velero creates missing Namespaces, even if the backup does not contain them. */
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
  const exists = target.hasNamespace(name) || typeof type === 'string';
  const answered = exists ? answer('exists') : ofWrite(await target.write(object, type));
  return { item: known, namespace: undefined, object, failed: [], ...answered };
}

async function writeObject(
  target: Target,
  { item, place }: { readonly item: BackupItem; readonly place: Outcome | '' | undefined },
  options: ReplayOptions,
): Promise<Outcome> {
  const namespace = mappedNamespace(item.namespace, options);
  const object = restoredObject(item, options);
  const type = target.kinds.typeOf(object);
  const written = {
    ...item,
    resource: typeof type === 'string' ? item.resource : { group: type.group, resource: type.resource },
    name: textIn(object, 'metadata', 'name'),
  };
  const { failed } = modifiedObject(item, options);
  const outcome = { item: written, namespace, object, failed };
  if (typeof place === 'object' && place.result === 'refused')
    return { ...outcome, ...answer('refused', `its Namespace is refused: ${place.message}`) };
  return { ...outcome, ...(await write(target, outcome, options)) };
}

async function write(
  target: Target,
  { item, namespace, object: wanted }: Pick<Outcome, 'item' | 'namespace' | 'object'>,
  options: ReplayOptions,
): Promise<Answer> {
  const type = target.kinds.typeOf(wanted);
  const served = builtInAnswer(wanted, options);
  if (served === false) return answer('unserved', unservedIn(wanted, options));
  if (typeof type === 'string')
    return served === true
      ? answer('restored') // an old version, whose fields are not known here
      : answer('unserved', type);
  if (type.namespaced !== (item.namespace !== undefined)) return answer('unserved', otherScope(type));
  if (isLeftToCluster(item)) return answer('omitted');
  const existing = target.contents.find({ ...item.resource, namespace, name: item.name });
  if (existing !== undefined)
    return await meetExisting(target, type, wanted, existing as unknown as JsonObject, options);
  if (hasTakenPort(target, wanted)) return answer('refused', 'provided port is already allocated');
  const { managedFields, ...others } = objectIn(wanted, 'metadata');
  const created = await target.write({ ...wanted, metadata: others }, type);
  if (created.kind === 'refused' || managedFields === undefined) return ofWrite(created);
  const stored = target.contents.find(refOf(type, wanted)) as unknown as JsonObject; // just written
  const second = { ...stored, metadata: { ...objectIn(stored, 'metadata'), managedFields } };
  const patched = await target.write(second, type);
  return patched.kind === 'refused'
    ? { ...ofWrite(created), result: 'incomplete', message: patched.message }
    : ofWrite(created);
}

const builtInAnswer = (object: JsonObject, { minor }: ReplayOptions): boolean | undefined =>
  minor === undefined
    ? undefined
    : isServedBuiltIn(textIn(object, 'apiVersion'), textIn(object, 'kind'), minor);

const unservedIn = (object: JsonObject, { minor = 0 }: ReplayOptions): string =>
  `Kubernetes 1.${minor} does not serve ${textIn(object, 'apiVersion')} ${textIn(object, 'kind')}: back it up in a version that both serve`;

const otherScope = ({ kind, namespaced }: ResourceType): string =>
  namespaced
    ? `${kind} is namespaced in the target, but the object lacks a namespace`
    : `${kind} is cluster-scoped in the target, but the object has a namespace`;

/** Node ports are one pool for the cluster. A dry run in a namespace that does not exist yet cannot tell. */
function hasTakenPort({ contents }: Target, wanted: JsonObject): boolean {
  const portsOf = (one: unknown) =>
    listIn(one, 'spec', 'ports').flatMap((port) => objectIn(port).nodePort ?? []);
  const ports = textIn(wanted, 'kind') === 'Service' ? portsOf(wanted) : [];
  if (ports.length === 0) return false;
  const taken = new Set(contents.list({ group: '', resource: 'services' }).flatMap(portsOf));
  return ports.some((port) => taken.has(port));
}

/** A volume without a snapshot is provisioned again. */
const isLeftToCluster = ({ resource, object }: BackupItem): boolean =>
  groupResourceName(resource) === 'persistentvolumes'
    ? textIn(object, 'spec', 'persistentVolumeReclaimPolicy') === 'Delete'
    : groupResourceName(resource) === 'apiservices.apiregistration.k8s.io' &&
      'kube-aggregator.kubernetes.io/automanaged' in objectIn(object, 'metadata', 'labels');

/** A claim of such a volume. Volumes come before claims. */
const unbound = (item: BackupItem, omitted: ReadonlySet<string>): BackupItem =>
  groupResourceName(item.resource) === 'persistentvolumeclaims' &&
  omitted.has(textIn(item.object, 'spec', 'volumeName'))
    ? { ...item, object: mergeInto(item.object, { spec: { volumeName: null } }) }
    : item;

/** Velero decodes these kinds and adds empty fields, so it always finds a difference. */
const DECODED = ['services', 'pods', 'jobs.batch', 'persistentvolumeclaims'];

/** Velero updates existing objects only with the policy `update`. If the update is refused, it writes only its labels. */
async function meetExisting(
  target: Target,
  type: ResourceType,
  wanted: JsonObject,
  existing: JsonObject,
  options: ReplayOptions,
): Promise<Answer> {
  const kind = groupResourceName(type);
  if (kind === 'serviceaccounts') return await mergeAccount(target, type, wanted, existing, options);
  const current = stripped(existing);
  const labels = { metadata: { labels: restoreLabels(options) } };
  const isDecoded =
    DECODED.includes(kind) || (isBinding(kind) && Object.keys(options.namespaceMapping).length > 0);
  const isSame = !isDecoded && mergeDiff(mergeInto(current, labels), wanted) === undefined;
  if (options.existingResourcePolicy === 'none')
    return isSame
      ? answer('exists')
      : answer('different', 'a different object with this name exists, and Velero keeps it');
  const patch = isSame ? labels : (mergeDiff(current, wanted) ?? labels);
  const patched = await target.write(mergeInto(existing, patch), type);
  if (patched.kind === 'stored')
    return { ...ofWrite(patched), result: isSame ? 'labelled' : 'updated', patch };
  if (isSame) return ofWrite(patched);
  const labelled = await target.write(mergeInto(existing, labels), type);
  return answer(labelled.kind === 'stored' ? 'kept' : 'unlabelled', patched.message);
}

/** Velero adds what the existing ServiceAccount lacks, with any policy. */
async function mergeAccount(
  target: Target,
  type: ResourceType,
  wanted: JsonObject,
  existing: JsonObject,
  { existingResourcePolicy }: ReplayOptions,
): Promise<Answer> {
  const merged = (list: string) => {
    const known = listIn(existing, list);
    const names = known.map((one) => textIn(one, 'name'));
    const missing = listIn(wanted, list).filter((one) => !names.includes(textIn(one, 'name')));
    return missing.length === 0 ? {} : { [list]: [...known, ...missing] };
  };
  const lacking = (field: string) => {
    const known = objectIn(existing, 'metadata', field);
    const missing = Object.entries(objectIn(wanted, 'metadata', field)).filter(
      ([key]) => !Object.hasOwn(known, key) && !key.startsWith('velero.io/'),
    );
    return missing.length === 0 ? {} : { [field]: Object.fromEntries(missing) };
  };
  const metadata = { ...lacking('labels'), ...lacking('annotations') };
  const patch = { ...merged('secrets'), ...merged('imagePullSecrets'), metadata };
  if (Object.keys(patch).length === 1 && Object.keys(metadata).length === 0) return answer('exists');
  const patched = await target.write(mergeInto(existing, patch), type);
  return patched.kind === 'stored'
    ? { ...ofWrite(patched), result: 'updated', patch }
    : answer(existingResourcePolicy === 'none' ? 'kept' : 'unlabelled', patched.message);
}

export const describeOutcome = ({ item, namespace }: Outcome): string => describeItem({ ...item, namespace });
