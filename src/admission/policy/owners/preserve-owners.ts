/**
 * Computes the record of an object's owners after a write. Only Gatehouse writes the record: users, and backup tools
 * that patch restored objects, can neither remove nor forge it.
 */
import {
  encodeOwnerRecord,
  isRecordOf,
  missingOwners,
  OWNER_RECORD_ANNOTATION,
  parseOwnerRecord,
  type OwnerRecord,
} from '../../../api/owner-record.ts';
import { type OwnerReference, groupResourceName } from '../../../json/kube-object.ts';
import type { JsonObject } from '../../../json/json.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import { hasRoom, ownersOf, recordTextOf, selfOf, withRecord } from './owner-annotation.ts';
import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import { mayRecordOwners } from '../../../api/owner-kinds.ts';
import type { CompiledMatch } from '../compiled-policy.ts';
import { governedResources } from '../match/compile-match.ts';
import type { Report } from '../problem.ts';

const ANNOTATION = `metadata.annotations[${OWNER_RECORD_ANNOTATION}]`;

export type KeptOwners =
  | { readonly kind: 'kept'; readonly object: JsonObject; readonly warnings: readonly string[] }
  /** A new object has a record but no owners: allowed only in a restore. */
  | { readonly kind: 'unlinked'; readonly record: OwnerRecord };

/**
 * @param object the request's object with all earlier changes applied
 * @param isOurs whether Gatehouse itself writes: its sweep knows what it links
 */
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

/** Outside a restore, a new object with a record comes from a copied manifest. The copy has no owners. */
export function withoutRecord(object: JsonObject): Extract<KeptOwners, { kind: 'kept' }> {
  const message = `${ANNOTATION}: dropped, because it speaks of owners that a new object does not have; leave it out of manifests`;
  return kept(withRecord(object, undefined), [message]);
}

/** Recorded owners that are not linked yet stay recorded until the sweep links them or gives up. */
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

const UNCHANGED = `${ANNOTATION}: stays as it is, because Gatehouse writes it; leave it out of manifests`;

function record(object: JsonObject, refs: readonly OwnerReference[]): KeptOwners {
  if (refs.length === 0) return kept(withRecord(object, undefined));
  const text = encodeOwnerRecord({ self: selfOf(object), refs });
  if (text !== undefined && hasRoom(object, text)) return kept(withRecord(object, text));
  const message = `${ANNOTATION}: there is no room for ${refs.length} owner references, so a restore will not link them again`;
  return kept(withRecord(object, undefined), [message]);
}

const kept = (object: JsonObject, warnings: readonly string[] = []) =>
  ({ kind: 'kept', object, warnings }) as const;

/** Whether the policy preserves owners. Reports the problems that prevent it. */
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
    const message =
      'has to have CREATE and UPDATE for spec.owners, or users could forge what is recorded: add them';
    report('spec.match.operations', message);
  }
  return true;
}
