import type { CompiledPolicy, CompiledReference } from '../compiled-policy.ts';
import { isEqual } from '../../../json/json.ts';
import { readReferences, referenceKey, type FoundReference, type ReadReferences } from './read-references.ts';
import { writes, type AdmissionRequest } from '../../review/request.ts';
import { quote } from '../../../json/printable.ts';
import { targetKey } from '../object-ref.ts';
import { governedBefore } from '../match/object-scope.ts';
import type { ObjectReads } from '../world.ts';
import type { Violation } from '../violation.ts';
import { memoizeAsync } from '../../../json/memoize-async.ts';
import type { ObjectRef } from '../../../json/kube-object.ts';

/** A reference whose target is not in the store, which may be late. */
export interface UnresolvedReference extends FoundReference {
  readonly policy: CompiledPolicy;
}

/**
 * Reads only the store. Targets that the governed old object already referenced are not checked again. Otherwise users
 * could not label an object with a dangling reference, and controllers could not remove its finalizers.
 */
export function checkReferences(
  policy: CompiledPolicy,
  request: AdmissionRequest,
  find: ObjectReads['find'],
): { readonly violations: readonly Violation[]; readonly unresolved: readonly UnresolvedReference[] } {
  const { operation, object, namespace } = request;
  const isChecked = policy.references.length > 0 && object !== undefined && writes(operation);
  if (!isChecked) return { violations: [], unresolved: [] };
  const now = readReferences(policy, object, namespace);
  const old = operation === 'UPDATE' ? governedBefore(policy, request) : undefined;
  const before = old && readReferences(policy, old, namespace);

  const named = before && new Set(before.found.map(referenceKey));
  const wasBroken = before && new Map(before.broken.map((broken) => [broken.field, broken]));
  return {
    violations: [
      ...now.broken
        .filter((broken) => !isEqual(wasBroken?.get(broken.field)?.value, broken.value))
        .map(({ reference: { name }, field, flaw }): Violation => {
          const message = `${flaw} (reference ${name})`;
          return { policy, check: name, field, reason: 'FieldValueInvalid', message };
        }),
      ...missingFields(policy, now, before),
    ],
    unresolved: now.found
      .filter((found) => named?.has(referenceKey(found)) !== true && find(found.target) === undefined)
      .map((found) => ({ ...found, policy })),
  };
}

export function targetNotFound({ reference, target: { name, namespace } }: FoundReference): string {
  const where = namespace === undefined ? '' : ` in namespace ${quote(namespace)}`;
  return `${reference.targetKind} ${quote(name)}${where} not found; create it or fix the name`;
}

export function missingTarget(found: UnresolvedReference): Violation {
  const { policy, field, reference } = found;
  const message = `${targetNotFound(found)} (reference ${reference.name})`;
  return { policy, check: reference.name, field, reason: 'FieldValueNotFound', message };
}

function missingFields(
  policy: CompiledPolicy,
  now: ReadReferences,
  before: ReadReferences | undefined,
): readonly Violation[] {
  const names = ({ found, broken }: ReadReferences, { name }: CompiledReference) =>
    [...found, ...broken].some(({ reference }) => reference.name === name);
  return policy.references
    .filter((one) => !one.optional && !names(now, one) && (before === undefined || names(before, one)))
    .map(({ name, path, targetKind }) => {
      const message = `is required: write the name of a ${targetKind} (reference ${name})`;
      return { policy, check: name, field: path.text, reason: 'FieldValueRequired', message };
    });
}

/** Concurrent live reads for one request. */
const AT_ONCE = 16;
/** After this many missing targets, the others are not read: an object can reference thousands. */
const ENOUGH_MISSING = 16;

export interface ConfirmedTargets {
  readonly missing: readonly UnresolvedReference[];
  readonly unknown: readonly UnresolvedReference[];
  /** Not read, because enough other targets are missing or a read failed. */
  readonly unread: readonly UnresolvedReference[];
  readonly cause: unknown;
}

type Answer = { readonly kind: 'found' | 'missing' } | { readonly kind: 'unknown'; readonly cause: unknown };

/** Reads each target once per request. */
export function createTargetConfirmer({ confirm }: Pick<ObjectReads, 'confirm'>, signal: AbortSignal) {
  const answers = memoizeAsync(
    (target: ObjectRef): Promise<Answer> =>
      confirm(target, signal).then(
        (found) => ({ kind: found === undefined ? 'missing' : 'found' }),
        (cause: unknown) => ({ kind: 'unknown', cause }),
      ),
    targetKey,
  );

  return async (references: readonly UnresolvedReference[]): Promise<ConfirmedTargets> => {
    const missing = new Set<UnresolvedReference>();
    const unknown: UnresolvedReference[] = [];
    let cause: unknown;
    const byTarget = [...Map.groupBy(references, ({ target }) => targetKey(target)).values()];
    let read = 0;
    while (read < byTarget.length && missing.size < ENOUGH_MISSING && unknown.length === 0) {
      const batch = byTarget.slice(read, read + AT_ONCE);
      read += batch.length;
      await Promise.all(
        batch.map(async (same) => {
          const [first] = same;
          const answer = first === undefined ? undefined : await answers.read(first.target);
          if (answer?.kind === 'missing') for (const one of same) missing.add(one);
          if (answer?.kind === 'unknown') {
            unknown.push(...same);
            cause = answer.cause;
          }
        }),
      );
    }
    // Reads finish in any order; messages keep the order of the policies and fields.
    const ordered = references.filter((reference) => missing.has(reference));
    return { missing: ordered, unknown, unread: byTarget.slice(read).flat(), cause };
  };
}
