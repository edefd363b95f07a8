/** Records the owners of an object in an annotation that users and backup tools cannot forge, and links them at a restore. */
import {
  encodeOwnerRecord,
  isRecordOf,
  missingOwners,
  OWNER_RECORD_ANNOTATION,
  type OwnerRecord,
  parseOwnerRecord,
  toOwnerReferences,
} from '../../../api/owner-record.ts';
import { compileCel, onCelError } from '../../../cel/cel.ts';
import { groupResourceName, type OwnerReference } from '../../../json/kube-object.ts';
import {
  type JsonObject,
  type JsonValue,
  objectIn,
  stringifyJson,
  textIn,
  uniqueBy,
  valueIn,
} from '../../../json/json.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import { mayRecordOwners, mayRelinkOwner } from '../../../api/owner-kinds.ts';
import type { CompiledMatch } from '../compiled-policy.ts';
import { governedResources } from '../match/compile-match.ts';
import type { Report } from '../problem.ts';
import { annotationBytes, MOST_ANNOTATION_BYTES } from '../object-metadata.ts';
import { createRestoreLookup, windowsFor } from '../deferral/deferral.ts';
import type { AdmissionContext, Owners } from '../world.ts';

const ANNOTATION = `metadata.annotations[${OWNER_RECORD_ANNOTATION}]`;

/** Changes that no check sees. The API server makes some of them itself. */
const OF_OWNERS: readonly string[] = ['ownerReferences', 'managedFields', 'resourceVersion', 'generation'];

/** Whether an update of an object with a record changes only the owners, the record, and who manages them. In CEL. */
export const CHANGES_ONLY_OWNERS = [
  "request.operation == 'UPDATE' && request.?subResource.orValue('') == ''",
  `oldObject.metadata.?annotations[?'${OWNER_RECORD_ANNOTATION}'].hasValue()`,
  ...sameExcept('object', 'oldObject', ['metadata']),
  ...sameExcept('object.metadata', 'oldObject.metadata', ['annotations', ...OF_OWNERS]),
  ...sameExcept('object.metadata.?annotations.orValue({})', 'oldObject.metadata.annotations', [
    OWNER_RECORD_ANNOTATION,
  ]),
].join(' && ');

const changes = compileCel(CHANGES_ONLY_OWNERS, ['request', 'object', 'oldObject']);

export function changesOnlyOwners(request: AdmissionRequest): boolean {
  const { operation, subResource, object, oldObject } = request;
  if (object === undefined || oldObject === undefined) return false;
  const values = { request: { operation, subResource }, object, oldObject };
  return onCelError(
    () => changes.evaluate(values) === true,
    () => false,
  );
}

function sameExcept(now: string, before: string, keys: readonly string[]): readonly string[] {
  const ignored = `k in ${JSON.stringify(keys)}`;
  return [
    `${now}.all(k, ${ignored} || (k in ${before} && ${now}[k] == ${before}[k]))`,
    `${before}.all(k, ${ignored} || k in ${now})`,
  ];
}

type KeptOwners =
  | { readonly kind: 'kept'; readonly object: JsonObject; readonly warnings: readonly string[] }
  /** A new object has a record but no owners: allowed only in a restore. */
  | { readonly kind: 'unlinked'; readonly record: OwnerRecord };

/** @param isOurs whether Gatehouse itself writes: its sweep knows what it links */
export function keepOwners(
  { operation, oldObject }: Pick<AdmissionRequest, 'operation' | 'oldObject'>,
  object: JsonObject,
  isOurs: boolean,
): KeptOwners {
  const refs = ownersOf(object);
  if (refs === undefined) return kept(object);
  if (operation === 'UPDATE' && oldObject !== undefined)
    return isOurs ? kept(object) : keepOnUpdate(object, refs, oldObject);
  if (refs.length > 0) return record(object, refs);
  const recordText = recordTextOf(object);
  if (recordText === undefined) return kept(object);
  const read = parseOwnerRecord(recordText);
  return read === undefined || !isRecordOf(read, selfOf(object))
    ? withoutRecord(object)
    : { kind: 'unlinked', record: read };
}

/** Outside a restore, a new object with a record comes from a copied manifest. */
function withoutRecord(object: JsonObject): Extract<KeptOwners, { kind: 'kept' }> {
  const message = `${ANNOTATION}: dropped, because it lists owners that a new object does not have; leave it out of manifests`;
  return kept(withRecord(object, undefined), [message]);
}

/** Recorded owners remain recorded until the sweep links them or gives up. */
function keepOnUpdate(object: JsonObject, refs: readonly OwnerReference[], old: JsonObject): KeptOwners {
  const before = recordTextOf(old);
  const had = ownersOf(old) ?? [];
  const recorded = parseOwnerRecord(before)?.refs ?? [];
  const lacking = missingOwners(missingOwners(recorded, had), refs);
  if (refs.length === 0 && had.length === 0) {
    const text = typeof before === 'string' ? before : undefined;
    const isForged = ![undefined, before].includes(recordTextOf(object));
    return kept(withRecord(object, text), isForged ? [UNCHANGED] : []);
  }
  return record(object, [...refs, ...lacking]);
}

const UNCHANGED = `${ANNOTATION}: was not changed, because only Gatehouse writes it; leave it out of manifests`;

function record(object: JsonObject, refs: readonly OwnerReference[]): KeptOwners {
  if (refs.length === 0) return kept(withRecord(object, undefined));
  const text = encodeOwnerRecord({ self: selfOf(object), refs });
  if (text !== undefined && hasRoom(object, text)) return kept(withRecord(object, text));
  const message = `${ANNOTATION}: the annotations are too large for a record of the owners (${refs.length}), so a restore will not link them again`;
  return kept(withRecord(object, undefined), [message]);
}

const kept = (object: JsonObject, warnings: readonly string[] = []) =>
  ({ kind: 'kept', object, warnings }) as const;

export function compileOwners(
  { owners }: AdmissionPolicySpec,
  match: CompiledMatch,
  report: Report,
): boolean {
  if (owners?.preserve !== true) return false;
  const adopted = governedResources(match).find((kind) => !mayRecordOwners(kind));
  if (adopted !== undefined) {
    const message = `spec.owners cannot preserve the owners of ${groupResourceName(adopted)}: their controllers adopt them by labels, and a reference from a backup would make the garbage collector delete them; govern them by a policy without spec.owners`;
    report('spec.match.resources', message);
  }
  if (!match.operations.includes('CREATE') || !match.operations.includes('UPDATE')) {
    const message = 'spec.owners requires CREATE and UPDATE, or users could forge the record: add them';
    report('spec.match.operations', message);
  }
  return true;
}

/** Undefined if they are malformed: the API server then rejects the object. */
function ownersOf(object: JsonObject): readonly OwnerReference[] | undefined {
  return toOwnerReferences(valueIn(object, 'metadata', 'ownerReferences'));
}

function recordTextOf(object: JsonObject): unknown {
  return valueIn(object, 'metadata', 'annotations', OWNER_RECORD_ANNOTATION);
}

function selfOf(object: JsonObject): string {
  // Without a name, the API server generates one after admission.
  return textIn(object, 'metadata', 'name') || `${textIn(object, 'metadata', 'generateName')}*`;
}

function withRecord(object: JsonObject, text: string | undefined): JsonObject {
  if (recordTextOf(object) === text) return object;
  const annotations: Record<string, JsonValue> = { ...annotationsOf(object) };
  if (text === undefined) Reflect.deleteProperty(annotations, OWNER_RECORD_ANNOTATION);
  else annotations[OWNER_RECORD_ANNOTATION] = text;
  return withMetadata(object, { annotations });
}

/** The annotation must not make the user's write fail. */
const hasRoom = (object: JsonObject, text: string): boolean =>
  annotationBytes({ ...annotationsOf(object), [OWNER_RECORD_ANNOTATION]: text }) <= MOST_ANNOTATION_BYTES;

function withMetadata(object: JsonObject, change: Readonly<Record<string, JsonValue>>): JsonObject {
  return { ...object, metadata: { ...objectIn(object, 'metadata'), ...change } };
}

const annotationsOf = (object: JsonObject) => objectIn(object, 'metadata', 'annotations');

/** The sweep links objects with more owners: each owner is a live read while a user waits. */
const MOST_READS = 8;

/** Links all recorded owners of a restored object or none. If a read fails, the sweep after the restore tries again. */
export async function linkOwners(
  request: AdmissionRequest,
  object: JsonObject,
  { refs }: OwnerRecord,
  { world, signal }: Pick<AdmissionContext, 'world' | 'signal'>,
): Promise<Extract<KeptOwners, { kind: 'kept' }>> {
  const restore = await createRestoreLookup(request, { world, signal })();
  const waiting = { kind: 'kept', object, warnings: [] } as const;
  // Whether this is a restore is unknown. Keep the record: the sweep links only restored objects.
  if (restore.kind === 'unknown') return waiting;
  const windows = windowsFor(restore, 'CREATE');
  if (windows.length === 0) return withoutRecord(object);
  // The strictest window applies.
  if (!windows.every(({ links }) => links)) return waiting;
  if (world.owners === undefined || refs.length > MOST_READS) return waiting;
  // The record says whose uid a field holds. The leader writes the fields first, then the link.
  const text = stringifyJson(objectIn(object, 'spec'));
  if (refs.some(({ uid }) => text.includes(uid))) return waiting;
  if (!refs.every((ref) => mayRelinkOwner(request.resource, ref))) return waiting;
  const linked = await findAll(refs, request.namespace, world.owners, signal);
  if (linked === undefined) return waiting;
  const record = encodeOwnerRecord({ self: selfOf(object), refs: linked });
  const ownerReferences = linked.map((ref) => ({ ...ref }));
  return { ...waiting, object: withRecord(withMetadata(object, { ownerReferences }), record) };
}

/** The references with the current uids; undefined if an owner is missing, is being deleted or cannot be read. */
async function findAll(
  refs: readonly OwnerReference[],
  namespace: string | undefined,
  { read }: Owners,
  signal: AbortSignal,
): Promise<readonly OwnerReference[] | undefined> {
  const answers = await Promise.all(
    refs.map(async (ref) => {
      // If a read fails, the sweep reads again and reports the failure.
      const owner = await read(ref, namespace, signal).catch(() => undefined);
      if (owner === undefined || owner.deletionTimestamp !== undefined) return undefined;
      return { ...ref, apiVersion: owner.apiVersion, uid: owner.uid };
    }),
  );
  const linked = answers.filter((ref) => ref !== undefined);
  if (linked.length !== refs.length) return undefined;
  // The API server accepts one controller. The sweep decides between several.
  if (linked.filter(({ controller }) => controller === true).length > 1) return undefined;
  return uniqueBy(linked, ({ uid }) => uid);
}
