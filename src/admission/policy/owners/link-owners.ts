/** Links the recorded owners of a restored object at its creation, if all of them exist. */
import type { OwnerReference } from '../../../json/kube-object.ts';
import { mayRelinkOwner } from '../../../api/owner-kinds.ts';
import { encodeOwnerRecord, type OwnerRecord } from '../../../api/owner-record.ts';
import type { JsonObject } from '../../../json/json.ts';
import { uniqueBy } from '../../../json/objects.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import { createRestoreLookup, windowsFor } from '../deferral/deferral.ts';
import type { AdmissionContext, Owners } from '../world.ts';
import { withoutRecord, type KeptOwners } from './preserve-owners.ts';
import { selfOf, withOwners, withRecord } from './owner-annotation.ts';

/** Leave objects with more owners to the sweep: each owner is a live read while a user waits. */
const MOST_READS = 8;

/**
 * Links all owners or none, so that no object has only some of its owners until the sweep. If a read fails, the record
 * stays: a backup tool does not retry, but the sweep after the restore does.
 */
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
  // The object belongs to each of these windows: the strictest one holds.
  if (!windows.every(({ links }) => links)) return waiting;
  if (world.owners === undefined || refs.length > MOST_READS) return waiting;
  if (!refs.every((ref) => mayRelinkOwner(request.resource, ref))) return waiting;
  const linked = await findAll(refs, request.namespace, world.owners, signal);
  if (linked === undefined) return waiting;
  const text = encodeOwnerRecord({ self: selfOf(object), refs: linked });
  return { ...waiting, object: withRecord(withOwners(object, linked), text) };
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
