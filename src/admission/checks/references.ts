import { groupResourceName, type ObjectRef } from '../../api/meta.ts';
import type { CompiledPolicy } from '../compiled-policy.ts';
import { isEqual, isJsonObject, ownValue, type JsonObject } from '../json.ts';
import { readReferences, targetKey, type BrokenReference, type FoundReference } from '../references.ts';
import type { AdmissionRequest } from '../request.ts';
import { quote } from '../shown.ts';
import type { World } from '../world.ts';
import type { Violation } from './violation.ts';

/** A reference whose target the store does not hold: it may be missing, or the store may be late. */
export interface UnseenReference extends FoundReference {
  readonly policy: CompiledPolicy;
}

export interface ReferenceFindings {
  /** Wrong whatever there is in the cluster. */
  readonly violations: readonly Violation[];
  readonly unseen: readonly UnseenReference[];
}

/**
 * Every target that the object names newly has to exist. From the store alone: nothing here waits.
 *
 * A target that the object named before is not looked at again, nor any while it is being deleted: otherwise an object whose target
 * has gone could not be labelled any more, nor rid of its finalizers.
 */
export function checkReferences(
  policy: CompiledPolicy,
  request: AdmissionRequest,
  find: World['find'],
): ReferenceFindings {
  const { operation, object, oldObject, namespace } = request;
  if (policy.references.length === 0 || object === undefined) return { violations: [], unseen: [] };
  if ((operation !== 'CREATE' && operation !== 'UPDATE') || isBeingDeleted(object)) {
    return { violations: [], unseen: [] };
  }
  const now = readReferences(policy, object, namespace);
  const before =
    operation === 'UPDATE' && oldObject !== undefined
      ? readReferences(policy, oldObject, namespace)
      : { found: [], broken: [] };

  const named = new Set(before.found.map(({ target }) => targetKey(target)));
  const wasBroken = new Map(before.broken.map((broken) => [broken.field, broken]));
  return {
    violations: now.broken
      .filter((broken) => !isEqual(wasBroken.get(broken.field)?.value, broken.value))
      .map((broken) => toViolation(policy, broken)),
    unseen: now.found
      .filter(({ target }) => !named.has(targetKey(target)) && find(target) === undefined)
      .map((found) => ({ ...found, policy })),
  };
}

export function isBeingDeleted(object: JsonObject): boolean {
  const metadata = ownValue(object, 'metadata');
  return isJsonObject(metadata) && (ownValue(metadata, 'deletionTimestamp') ?? undefined) !== undefined;
}

/** The violation that an unseen reference is once its target is known to be missing. */
export function missingTarget({ policy, reference, field, target }: UnseenReference): Violation {
  const message = `${quote(target.name)} names no ${reference.targetKind}: there is no ${describeTarget(target)}; create it first, or correct the name (reference ${reference.name})`;
  return { policy, field, reason: 'FieldValueNotFound', message };
}

/** e.g. `datacenters.infra.example.com "fra1" in namespace "store"` */
export function describeTarget(target: ObjectRef): string {
  const where = target.namespace === undefined ? '' : ` in namespace ${quote(target.namespace)}`;
  return `${groupResourceName(target)} ${quote(target.name)}${where}`;
}

function toViolation(policy: CompiledPolicy, { reference, field, flaw }: BrokenReference): Violation {
  return { policy, field, reason: 'FieldValueInvalid', message: `${flaw} (reference ${reference.name})` };
}
