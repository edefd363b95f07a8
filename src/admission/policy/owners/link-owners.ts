/** A restored object that brings the record of its owners gets them back at once, where all of them are there. */
import type { OwnerReference } from '../../../json/kube-object.ts';
import { mayOwnAgain } from '../../../api/owner-kinds.ts';
import { encodeOwnerRecord, type OwnerRecord } from '../../../api/owner-record.ts';
import type { JsonObject } from '../../../json/json.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import { createRestoreLookup } from '../deferral/deferral.ts';
import type { AdmissionContext, LiveOwner, Owners } from '../world.ts';
import { dropped, type KeptOwners } from './preserve-owners.ts';
import { selfOf, withOwners, withRecord } from './owner-annotation.ts';

/** More owners than this are left to the sweep: each is a live read while a user waits. */
const MOST_READS = 8;

/**
 * All or nothing, so that no object is owned by halves until the sweep. What cannot be read stays recorded: a backup tool does
 * not ask again, and the sweep after the restore does.
 */
export async function linkOwners(
  request: AdmissionRequest,
  object: JsonObject,
  { refs }: OwnerRecord,
  { world, signal }: Pick<AdmissionContext, 'world' | 'signal'>,
): Promise<Extract<KeptOwners, { kind: 'kept' }>> {
  const restore = await createRestoreLookup(request, { world, signal })();
  const waiting = { kind: 'kept', object, warnings: [] } as const;
  // Whether this is a restore cannot be told now. The record stays, and the sweep links only what was restored.
  if (restore.kind === 'unknown') return waiting;
  if (restore.kind === 'none' || !restore.operations.includes('CREATE')) return dropped(object);
  if (world.owners === undefined || refs.length > MOST_READS) return waiting;
  if (!refs.every((ref) => mayOwnAgain(request.resource, ref))) return waiting;
  const linked = await findAll(refs, request.namespace, world.owners, signal);
  if (linked === undefined) return waiting;
  const text = encodeOwnerRecord({ self: selfOf(object), refs: linked });
  return { ...waiting, object: withRecord(withOwners(object, linked), text) };
}

/** The references with the uids of today; undefined unless each of them is there to stay. */
async function findAll(
  refs: readonly OwnerReference[],
  namespace: string | undefined,
  { read }: Owners,
  signal: AbortSignal,
): Promise<readonly OwnerReference[] | undefined> {
  const answers = await Promise.all(
    refs.map(async (ref) => {
      try {
        return toLinked(ref, await read(ref, namespace, signal));
      } catch {
        return undefined; // the sweep asks again, and says why it cannot
      }
    }),
  );
  const linked = answers.filter((ref) => ref !== undefined);
  if (linked.length !== refs.length) return undefined;
  // The API server takes one controller; which of two it is to be, the sweep finds out.
  if (linked.filter(({ controller }) => controller === true).length > 1) return undefined;
  return [...new Map(linked.map((ref) => [ref.uid, ref])).values()];
}

function toLinked(ref: OwnerReference, owner: LiveOwner | undefined): OwnerReference | undefined {
  if (owner === undefined || owner.deletionTimestamp !== undefined) return undefined;
  return { ...ref, apiVersion: owner.apiVersion, uid: owner.uid };
}
