/**
 * Gatehouse creates a claim before the API server stores the write, and never learns whether the write was stored. If the
 * holder lacks the values, the claim is free once the write cannot be stored anymore:
 *
 * - The API server stores a creation at most once, with the uid that admission saw. Once an object with that uid has
 *   existed, the creation is over.
 * - The API server stores an update only if the object still has the resourceVersion that admission saw; otherwise it
 *   calls the webhook again. Once the object has another resourceVersion, or is gone, the update is over.
 * - Any write is over once its request must have timed out in the API server.
 */
import { OWN_LABELS } from '../../../api/group.ts';
import type { KubeObject, ObjectRef } from '../../../json/kube-object.ts';
import { MAX_REQUESTS, type AdmittedRequest, type UniqueClaim } from '../../../api/unique-claim.ts';
import { isSecret, targetKey } from '../object-ref.ts';
import { textIn } from '../../../json/json.ts';
import { toJsonText } from '../../../json/json-text.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import { shorten } from '../../../json/printable.ts';
import type { HeldKey } from './unique-key.ts';

/** For `kubectl get uniqueclaims -l`. */
export const CLAIM_POLICY_LABEL = 'gatehouse.dev/policy';
const LONGEST_LABEL = 63;
const LONGEST_VALUE = 64;
/** The clocks of API servers differ by less, in milliseconds. */
const MOST_AHEAD_MS = 10 * 60_000;

/** @param admitted the write that needs the claim; undefined if the values are already stored */
export function newClaim(
  policy: string,
  key: HeldKey,
  self: ObjectRef,
  admitted: AdmittedRequest | undefined,
  now: number,
): UniqueClaim {
  return {
    metadata: {
      name: key.claim,
      labels: { ...OWN_LABELS, ...(policy.length <= LONGEST_LABEL ? { [CLAIM_POLICY_LABEL]: policy } : {}) },
    },
    spec: {
      policy,
      rule: key.rule.name,
      values: isSecret(self) ? [] : key.values.map((value) => shorten(toJsonText(value), LONGEST_VALUE)),
      ...holding(self, admitted, now),
    },
  };
}

export function holding(
  { group, resource, namespace, name }: ObjectRef,
  admitted: AdmittedRequest | undefined,
  now: number,
): Pick<UniqueClaim['spec'], 'holder' | 'claimedAt' | 'requests'> {
  return {
    holder: { group, resource, ...(namespace === undefined ? {} : { namespace }), name },
    claimedAt: new Date(now).toISOString(),
    ...(admitted === undefined ? {} : { requests: [admitted] }),
  };
}

export function renewed(
  claim: UniqueClaim,
  admitted: AdmittedRequest,
  now: number,
  settleMs: number,
): UniqueClaim {
  const earlier = (claim.spec.requests ?? []).filter(
    (request) => timeOf(request, now) + settleMs > now && !isSameWrite(request, admitted),
  );
  // Over the limit, keep only the newest: it expires last.
  const requests = earlier.length < MAX_REQUESTS ? [...earlier, admitted] : [{ at: admitted.at }];
  return { ...claim, spec: { ...claim.spec, claimedAt: new Date(now).toISOString(), requests } };
}

export function passedOn(
  claim: UniqueClaim,
  self: ObjectRef,
  admitted: AdmittedRequest | undefined,
  now: number,
): UniqueClaim {
  const { policy, rule, values } = claim.spec;
  return { ...claim, spec: { policy, rule, values, ...holding(self, admitted, now) } };
}

export function admittedRequest(
  { operation, object, oldObject }: Pick<AdmissionRequest, 'operation' | 'object' | 'oldObject'>,
  now: number,
): AdmittedRequest {
  const at = new Date(now).toISOString();
  const uid = textIn(oldObject ?? object, 'metadata', 'uid');
  if (operation === 'CREATE') return { ...(uid === '' ? {} : { uid }), at };
  const resourceVersion = textIn(oldObject, 'metadata', 'resourceVersion');
  return uid === '' || resourceVersion === '' ? { at } : { uid, resourceVersion, at };
}

export function holderRef({ spec: { holder } }: UniqueClaim): ObjectRef {
  const { group, resource, namespace, name } = holder;
  return { group, resource, namespace, name };
}

/** When admission last allowed a write with this claim, in milliseconds since 1970. */
export function claimedAtMs({ spec: { claimedAt } }: UniqueClaim, now: number): number {
  return timeOf({ at: claimedAt }, now);
}

/** Compares by name, not by uid: a creation that fails and is retried gets another uid. */
export function isHeldBy(claim: UniqueClaim, self: ObjectRef): boolean {
  return targetKey(holderRef(claim)) === targetKey(self);
}

/** In milliseconds; 0: the claim is free. @param live the object with the name of the holder, which lacks the key */
export function busyMs(
  { spec: { requests = [] } }: UniqueClaim,
  live: KubeObject | undefined,
  now: number,
  settleMs: number,
  wasStored: (uid: string) => boolean = () => false,
): number {
  const open = requests.filter((request) => !isOver(request, live, wasStored));
  return settlesInMs({ spec: { requests: open } }, now, settleMs);
}

/** When all writes of the claim must be over, regardless of the object; in milliseconds from now. */
export const settlesInMs = (
  { spec: { requests = [] } }: { readonly spec: Pick<UniqueClaim['spec'], 'requests'> },
  now: number,
  settleMs: number,
): number => Math.max(0, ...requests.map((request) => timeOf(request, now) + settleMs - now));

function isOver(
  { uid, resourceVersion }: AdmittedRequest,
  live: KubeObject | undefined,
  wasStored: (uid: string) => boolean,
): boolean {
  if (uid === undefined) return false;
  if (resourceVersion === undefined) return live?.metadata?.uid === uid || wasStored(uid);
  return live?.metadata?.uid !== uid || live.metadata.resourceVersion !== resourceVersion;
}

/** An invalid or far future time counts as past: no admitted write has it, and it would block the values. */
function timeOf({ at }: AdmittedRequest, now: number): number {
  const time = Date.parse(at);
  return Number.isNaN(time) || time > now + MOST_AHEAD_MS ? 0 : time;
}

function isSameWrite(a: AdmittedRequest, b: AdmittedRequest): boolean {
  return a.uid !== undefined && a.uid === b.uid && a.resourceVersion === b.resourceVersion;
}
