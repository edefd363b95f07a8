/**
 * What a UniqueClaim says, and what becomes of it.
 *
 * A claim is made while a write is judged, before that write is stored, and Gatehouse never learns whether it is. So a claim whose
 * holder does not have the values may be that of a write under way. It is free once that cannot be any more:
 *
 * - A creation is stored once at most, with the uid that it was judged with. When an object of that uid has been seen, it is over.
 * - An update is stored only if the object still has the resourceVersion with which it was judged: the API server compares, and
 *   asks again otherwise. When the object has another one, or has gone, it is over.
 * - Whatever it was, it is over when the API server must have given up on it.
 */
import { metadataText } from '../object-metadata.ts';
import { EXCLUDE_FROM_BACKUP_LABEL } from '../../../api/group.ts';
import type { KubeObject, ObjectRef } from '../../../json/kube-object.ts';
import { MOST_REQUESTS, type AdmittedRequest, type UniqueClaim } from '../../../api/unique-claim.ts';
import { isSecret } from '../object-ref.ts';
import { toJsonText } from '../../../json/json-text.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import { shorten } from '../../../json/printable.ts';
import type { HeldKey } from './unique-key.ts';

/** For `kubectl get uniqueclaims -l`. */
export const CLAIM_POLICY_LABEL = 'gatehouse.dev/policy';
const LONGEST_LABEL = 63;
const LONGEST_VALUE = 64;

/** A new claim. `admitted`: the write for which it is made; none when the values are stored already. */
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
      labels: {
        'app.kubernetes.io/managed-by': 'gatehouse',
        [EXCLUDE_FROM_BACKUP_LABEL]: 'true',
        ...(policy.length <= LONGEST_LABEL ? { [CLAIM_POLICY_LABEL]: policy } : {}),
      },
    },
    spec: {
      policy,
      rule: key.rule.name,
      values: isSecret(self) ? [] : key.values.map((value) => shorten(toJsonText(value), LONGEST_VALUE)),
      holder: holderOf(self),
      claimedAt: new Date(now).toISOString(),
      ...(admitted === undefined ? {} : { requests: [admitted] }),
    },
  };
}

/** The claim after one more write of its holder was admitted. */
export function renewed(
  claim: UniqueClaim,
  admitted: AdmittedRequest,
  now: number,
  settleMs: number,
): UniqueClaim {
  const earlier = (claim.spec.requests ?? []).filter(
    (request) => timeOf(request) + settleMs > now && !isSameWrite(request, admitted),
  );
  // Over the limit, keep only the newest: it expires last.
  const requests = earlier.length < MOST_REQUESTS ? [...earlier, admitted] : [{ at: admitted.at }];
  return { ...claim, spec: { ...claim.spec, claimedAt: new Date(now).toISOString(), requests } };
}

/** The claim after another object has got it. */
export function passedOn(
  claim: UniqueClaim,
  self: ObjectRef,
  admitted: AdmittedRequest | undefined,
  now: number,
): UniqueClaim {
  const { policy, rule, values } = claim.spec;
  return {
    ...claim,
    spec: {
      policy,
      rule,
      values,
      holder: holderOf(self),
      claimedAt: new Date(now).toISOString(),
      ...(admitted === undefined ? {} : { requests: [admitted] }),
    },
  };
}

/** A write as a claim remembers it: with what tells later whether it is over. */
export function admittedRequest(
  { operation, object, oldObject }: Pick<AdmissionRequest, 'operation' | 'object' | 'oldObject'>,
  now: number,
): AdmittedRequest {
  const at = new Date(now).toISOString();
  const uid = metadataText(oldObject ?? object, 'uid');
  if (operation === 'CREATE') return { ...(uid === undefined ? {} : { uid }), at };
  const resourceVersion = metadataText(oldObject, 'resourceVersion');
  return uid === undefined || resourceVersion === undefined ? { at } : { uid, resourceVersion, at };
}

/** The object that has a claim. */
export function holderRef({ spec: { holder } }: UniqueClaim): ObjectRef {
  return {
    group: holder.group ?? '',
    resource: holder.resource,
    namespace: holder.namespace,
    name: holder.name,
  };
}

/** When a write with this claim was last admitted, in milliseconds since 1970. */
export function claimedAtMs({ spec: { claimedAt } }: UniqueClaim): number {
  return timeOf({ at: claimedAt });
}

/** By name, not by uid: a creation that failed and is tried again has another uid. */
export function isHeldBy(claim: UniqueClaim, self: ObjectRef): boolean {
  const holder = holderRef(claim);
  return (
    holder.group === self.group &&
    holder.resource === self.resource &&
    (holder.namespace ?? '') === (self.namespace ?? '') &&
    holder.name === self.name
  );
}

/**
 * For how long a claim may still be that of a write under way, in milliseconds; 0: it is free.
 *
 * @param live the object of the holder's name, which does not hold the key; undefined: there is none
 * @param wasStored whether an object of this uid is known to have been stored
 */
export function busyMs(
  { spec: { requests = [] } }: UniqueClaim,
  live: KubeObject | undefined,
  now: number,
  settleMs: number,
  wasStored: (uid: string) => boolean = () => false,
): number {
  const open = requests.filter((request) => !isOver(request, live, wasStored));
  return Math.max(0, ...open.map((request) => timeOf(request) + settleMs - now));
}

function isOver(
  { uid, resourceVersion }: AdmittedRequest,
  live: KubeObject | undefined,
  wasStored: (uid: string) => boolean,
): boolean {
  if (uid === undefined) return false;
  if (resourceVersion === undefined) return live?.metadata?.uid === uid || wasStored(uid);
  return live?.metadata?.uid !== uid || live.metadata.resourceVersion !== resourceVersion;
}

/** An invalid time counts as past: a user edited the claim by hand. */
function timeOf({ at }: AdmittedRequest): number {
  const time = Date.parse(at);
  return Number.isNaN(time) ? 0 : time;
}

function isSameWrite(a: AdmittedRequest, b: AdmittedRequest): boolean {
  return a.uid !== undefined && a.uid === b.uid && a.resourceVersion === b.resourceVersion;
}

function holderOf({ group, resource, namespace, name }: ObjectRef): UniqueClaim['spec']['holder'] {
  return { group, resource, ...(namespace === undefined ? {} : { namespace }), name };
}
