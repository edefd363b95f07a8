/**
 * The intents of references with `guarantee: Serializable`. A write that references a target stores a reference intent, and
 * a deletion of the target stores a deletion intent. Each side stores its intent before it reads the intents of the other
 * side and the objects. So of two requests that race, at least one sees the other. Intents are UniqueClaims: their life is
 * described in `unique/claim-state.ts`.
 *
 * A held intent is a reference intent that a replica shares among writes. Only the first of these writes has to read the
 * deletion intent and the target. A deletion waits until the last of these writes is over.
 */
import { createHash } from 'node:crypto';

import { OWN_LABELS } from '../../../api/group.ts';
import type { AdmittedRequest, UniqueClaim } from '../../../api/unique-claim.ts';
import type { ObjectRef } from '../../../json/kube-object.ts';
import { type AdmissionRequest, writes } from '../../review/request.ts';
import type { CompiledPolicy, CompiledReference } from '../compiled-policy.ts';
import type { Exemption } from '../exceptions/exceptions.ts';
import { governedBefore } from '../match/object-scope.ts';
import { targetKey } from '../object-ref.ts';
import { holding } from '../unique/claim-state.ts';
import type { UnresolvedReference } from './check-references.ts';
import { referenceKey, referencesOf } from './read-references.ts';

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
