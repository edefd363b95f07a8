/** What somebody who restores a backup is let off for now, and what is said about it. */
import { isAmong } from '../../../api/principals.ts';
import type { Violation } from '../violation.ts';
import type { CompiledPolicy } from '../compiled-policy.ts';
import type { AdmissionRequest, Operation } from '../../review/request.ts';
import type { Restore } from './restore-lookup.ts';
import { shorten } from '../../../json/printable.ts';

/** Checks that can wait, because what is stored shows later whether they hold; and immutability, which it does not. */
export type DeferrableCheck = 'references' | 'unique' | 'schema' | 'rules' | 'immutable';

/** Something wrong that is let in all the same. */
export interface Deferral {
  /** e.g. `spec.datacenter: datacenters.infra.example.com "fra1" is not there yet` */
  readonly message: string;
  /** For programs, e.g. `servers/datacenter=datacenters.infra.example.com/fra1`. */
  readonly spelled: string;
  /** When it is looked at again: after the restore, so long after the object was created, or never. */
  readonly again: { readonly kind: 'restore' | 'never' } | { readonly kind: 'grace'; readonly ms: number };
}

/** Whether the policy has this check wait for the end of a restore. One that refuses nothing anyway has nothing to wait for. */
export function waits({ enforcement, restore }: CompiledPolicy, check: DeferrableCheck): boolean {
  if (enforcement !== 'Deny') return false;
  return check === 'immutable' ? restore.skipsImmutable : restore.defers[check];
}

/** Whether this restore has it wait, too. */
export function defers(restore: Restore, operation: Operation, check: DeferrableCheck): boolean {
  if (restore.kind !== 'restoring' || !restore.operations.includes(operation)) return false;
  return !(check === 'references' || check === 'unique') || !restore.enforced.includes(check);
}

/** Whether the policy lets this requester write objects before what they name, restore or not. */
export function isStanding(
  { enforcement, initiallyDeferred }: CompiledPolicy,
  { userInfo }: Pick<AdmissionRequest, 'userInfo'>,
): boolean {
  return (
    enforcement === 'Deny' &&
    initiallyDeferred !== undefined &&
    isAmong(initiallyDeferred.principals, userInfo)
  );
}

/** A violation that can wait, if its policy lets it. */
export function isWaiting({ policy, deferrable }: Violation): boolean {
  return deferrable !== undefined && waits(policy, deferrable);
}

export function deferredViolation({ policy, field, message, check, deferrable }: Violation): Deferral {
  return {
    message: `${field === '' ? '' : `${shorten(field, 256)}: `}${message}`,
    spelled: `${policy.name}/${check ?? deferrable ?? ''}=${field}`,
    again: { kind: deferrable === 'immutable' ? 'never' : 'restore' },
  };
}
