import { createHash } from 'node:crypto';

import type { CompiledPolicy, CompiledReference } from '../compiled-policy.ts';
import { isEqual } from '../../../json/json.ts';
import {
  type FoundReference,
  readReferences,
  type ReadReferences,
  referenceKey,
  referencesOf,
} from './read-references.ts';
import { type AdmissionRequest, writes } from '../../review/request.ts';
import { quote } from '../../../json/printable.ts';
import { targetKey } from '../object-ref.ts';
import { governedBefore } from '../match/object-scope.ts';
import type { ObjectReads } from '../world.ts';
import type { Violation } from '../violation.ts';
import { memoizeAsync } from '../../../json/memoize-async.ts';
import type { ObjectRef } from '../../../json/kube-object.ts';
import { OWN_LABELS } from '../../../api/group.ts';
import type { AdmittedRequest, UniqueClaim } from '../../../api/unique-claim.ts';
import type { Exemption } from '../exceptions/exceptions.ts';
import { holding } from '../unique/claim-state.ts';

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

/**
 * The intents of references with `guarantee: Serializable`. A write that references a target stores a reference intent, and
 * a deletion of the target stores a deletion intent. Each side stores its intent before it reads the intents of the other
 * side and the objects. So of two requests that race, at least one sees the other. Intents are UniqueClaims: their life is
 * described in `unique/claim-state.ts`.
 *
 * A held intent is a reference intent that a replica shares among writes. Only the first of these writes has to read the
 * deletion intent and the target. A deletion waits until the last of these writes is over.
 */

const HASH_LENGTH = 40;
/** Names of unique claims contain no dot. */
const REFERENCE = 'reference.';
const HELD = 'held.';
const HELD_WRITE = `${REFERENCE}held-`;
const DELETION = 'deletion.';

const hash = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, HASH_LENGTH);

export const isIntent = (claim: string): boolean => claim.startsWith(REFERENCE) || isDeletionIntent(claim);

export const isDeletionIntent = (claim: string): boolean => claim.startsWith(DELETION);

/** One intent for each write, so writes that reference the same target never wait for each other. */
export const referenceIntentName = ({ uid }: Pick<AdmissionRequest, 'uid'>): string => REFERENCE + hash(uid);

/** @param id unique for each intent: a removed intent never returns */
export const heldIntentName = (id: string): string => HELD + hash(id);

export const isHeldIntent = (claim: string): boolean => claim.startsWith(HELD);

/** The name of a write under held intents, for the ledger. No claim has it. */
export const heldWriteName = (id: string): string => HELD_WRITE + id;

export const isHeldWrite = (claim: string): boolean => claim.startsWith(HELD_WRITE);

export const deletionIntentName = (target: ObjectRef): string => DELETION + hash(targetKey(target));

/** The label of the intents of deletions: replicas watch them, to remove the intents that they hold. */
export const DELETION_INTENT_LABEL = 'gatehouse.dev/deletion-intent';

export const targetLabel = (target: ObjectRef): string => `gatehouse.dev/target-${hash(targetKey(target))}`;

/** @param labels in addition to those of every intent */
export function newIntent(
  name: string,
  { policy, rule }: Pick<UniqueClaim['spec'], 'policy' | 'rule'>,
  self: ObjectRef,
  labels: readonly string[],
  admitted: AdmittedRequest,
  now: number,
): UniqueClaim {
  return {
    metadata: { name, labels: { ...OWN_LABELS, ...Object.fromEntries(labels.map((label) => [label, ''])) } },
    spec: { policy, rule, values: [], ...holding(self, admitted, now) },
  };
}

/** The new references of a request, which need an intent. */
export function guardedReferences(
  policy: CompiledPolicy,
  request: AdmissionRequest,
  { covers }: Pick<Exemption, 'covers'>,
): readonly UnresolvedReference[] {
  const { operation, object, namespace } = request;
  const references = serializableReferences(policy);
  if (references.length === 0 || object === undefined || !writes(operation)) return [];
  const old = operation === 'UPDATE' ? governedBefore(policy, request) : undefined;
  const before = new Set(
    old === undefined ? [] : referencesOf({ references }, old, namespace).map(referenceKey),
  );
  return referencesOf({ references }, object, namespace)
    .filter((found) => !before.has(referenceKey(found)) && !covers('references', found.reference.name))
    .map((found) => ({ ...found, policy }));
}

/** A policy that only warns or audits guarantees nothing. */
export const serializableReferences = ({
  enforcement,
  references,
}: Pick<CompiledPolicy, 'enforcement' | 'references'>): readonly CompiledReference[] =>
  enforcement === 'Deny' ? references.filter(({ serializable }) => serializable) : [];
