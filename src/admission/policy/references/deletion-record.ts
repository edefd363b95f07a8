/**
 * The record of an admitted deletion with `onTargetDelete: Cascade`, `SetNull` or `SetDefault`: a UniqueClaim that the target
 * holds. Admission stores it before the API server deletes the target. The leader deletes it when its work is done.
 */
import { createHash } from 'node:crypto';

import { OWN_LABELS } from '../../../api/group.ts';
import type { UniqueClaim } from '../../../api/unique-claim.ts';
import type { ObjectRef } from '../../../json/kube-object.ts';
import type { CompiledPolicy, CompiledReference, DeleteAction } from '../compiled-policy.ts';
import { targetKey } from '../object-ref.ts';
import { holderRef, holding } from '../unique/claim-state.ts';

/** The leader watches the claims with this label. */
export const DELETION_LABEL = 'gatehouse.dev/deletion';
/** A MAC over the spec of the record. Only Gatehouse has the key. */
export const PROOF_ANNOTATION = 'gatehouse.dev/proof';
const PREFIX = 'deleted.';
const RULE = 'references/';
const HASH_LENGTH = 40;
const ACTIONS: readonly string[] = ['Cascade', 'SetNull', 'SetDefault'] satisfies readonly DeleteAction[];
/** In milliseconds. A record whose age differs more from its time comes from a backup. */
const MOST_SKEW_MS = 10 * 60_000;

export const isDeletionRecord = (claim: string): boolean => claim.startsWith(PREFIX);

export type Prove = (text: string) => string | undefined;

export interface DeletionRecord {
  readonly policy: string;
  readonly reference: string;
  readonly action: DeleteAction;
  readonly target: ObjectRef;
  readonly uid: string;
  /** How many cascades led to this deletion; 0: a user deleted the target. */
  readonly depth: number;
  /** When the last deletion was admitted, in milliseconds since 1970. */
  readonly admittedAt: number;
  /** When a live read showed that the target is gone. Undefined: that is not known yet. */
  readonly goneAt: number | undefined;
}

type Order = Omit<DeletionRecord, 'admittedAt' | 'goneAt'>;

export const actingReferences = (
  { enforcement, references }: Pick<CompiledPolicy, 'enforcement' | 'references'>,
  { group, resource }: ObjectRef,
): readonly (CompiledReference & { readonly deleteAction: DeleteAction })[] =>
  enforcement === 'Deny'
    ? references.filter(
        (one): one is CompiledReference & { readonly deleteAction: DeleteAction } =>
          one.deleteAction !== undefined && one.target.group === group && one.target.resource === resource,
      )
    : [];

/** Includes the times: a user who can write UniqueClaims could otherwise reuse an old record. */
function signedText(claim: UniqueClaim): string {
  const { policy, rule, values, claimedAt, requests = [] } = claim.spec;
  const deletions = requests.map(({ uid, at }) => [uid, at]);
  const target = targetKey(holderRef(claim));
  return JSON.stringify(['deletion', policy, rule, values, target, claimedAt, deletions]);
}

/** Undefined while the key is not known. */
function signed(claim: UniqueClaim, prove: Prove): UniqueClaim | undefined {
  const proof = prove(signedText(claim));
  if (proof === undefined) return undefined;
  const { metadata } = claim;
  const annotations = { ...metadata.annotations, [PROOF_ANNOTATION]: proof };
  return { ...claim, metadata: { ...metadata, annotations } };
}

function nameOf({ policy, reference, target, uid }: Order): string {
  const text = JSON.stringify([policy, reference, targetKey(target), uid]);
  return PREFIX + createHash('sha256').update(text).digest('hex').slice(0, HASH_LENGTH);
}

export function newDeletionRecord(order: Order, now: number, prove: Prove): UniqueClaim | undefined {
  const { policy, reference, action, target, uid, depth } = order;
  const record: UniqueClaim = {
    metadata: { name: nameOf(order), labels: { ...OWN_LABELS, [DELETION_LABEL]: '' } },
    spec: {
      policy,
      rule: `${RULE}${reference}`,
      values: [action, String(depth)],
      ...holding(target, { uid, at: new Date(now).toISOString() }, now),
    },
  };
  return signed(record, prove);
}

/** The record after another deletion of the target was admitted. `requests` keeps the time of the first. */
export const readmitted = (
  earlier: UniqueClaim,
  { spec: { claimedAt } }: UniqueClaim,
  prove: Prove,
): UniqueClaim | undefined => signed({ ...earlier, spec: { ...earlier.spec, claimedAt } }, prove);

export function withGone(claim: UniqueClaim, now: number, prove: Prove): UniqueClaim | undefined {
  const values = [...claim.spec.values.slice(0, 2), new Date(now).toISOString()];
  return signed({ ...claim, spec: { ...claim.spec, values } }, prove);
}

/** Undefined if Gatehouse has not written this record, or if a backup tool has brought it back. */
export function readDeletionRecord(claim: UniqueClaim, prove: Prove): DeletionRecord | undefined {
  const { metadata, spec } = claim;
  const [action = '', depth = '', goneAt] = spec.values;
  const { uid = '', at = '' } = spec.requests?.[0] ?? {};
  if (!ACTIONS.includes(action) || !spec.rule.startsWith(RULE)) return undefined;
  const order: Order = {
    policy: spec.policy,
    reference: spec.rule.slice(RULE.length),
    action: action as DeleteAction, // one of ACTIONS
    target: holderRef(claim),
    uid,
    depth: Number(depth),
  };
  const admittedAt = Date.parse(spec.claimedAt);
  const skew = Math.abs(Date.parse(metadata.creationTimestamp ?? '') - Date.parse(at));
  const proof = prove(signedText(claim));
  const isOurs =
    proof !== undefined &&
    metadata.annotations?.[PROOF_ANNOTATION] === proof &&
    metadata.name === nameOf(order);
  if (!isOurs || uid === '' || Number.isNaN(admittedAt) || !(skew < MOST_SKEW_MS)) return undefined;
  return { ...order, admittedAt, goneAt: goneAt === undefined ? undefined : Date.parse(goneAt) };
}
