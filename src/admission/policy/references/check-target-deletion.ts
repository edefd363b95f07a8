import type { KubeObject, ObjectRef } from '../../../json/kube-object.ts';
import { exemptionOf } from '../exceptions/exceptions.ts';
import { isBeingDeleted } from '../object-metadata.ts';
import { NO_NOTICES } from '../rules/notices.ts';

import type { Violation } from '../violation.ts';
import { NAMESPACES, describeRef, targetKey, requestedObject } from '../object-ref.ts';
import type { CompiledPolicy } from '../compiled-policy.ts';
import { ALLOWED, type Decision } from '../../review/decision.ts';
import { isGovernedNow } from '../match/object-scope.ts';

import { isJsonArray, isJsonObject, valueIn } from '../../../json/json.ts';
import { referencesOf, restrictingReferences } from './read-references.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import { createRestoreLookup } from '../deferral/deferral.ts';
import { shorten } from '../../../json/printable.ts';

import { toDecision, type Findings, type Undecided } from '../findings.ts';
import type { AdmissionContext } from '../world.ts';

/** A place that still names the target. */
interface Referral {
  readonly object: ObjectRef;
  /** e.g. `spec.disks[1].class` */
  readonly field: string;
  readonly reference: string;
}

/** Why one policy blocks a deletion. */
interface Objection {
  readonly policy: CompiledPolicy;
  readonly referrals: readonly Referral[];
  /** Known referrers that were not read. */
  readonly unread: number;
  /** The exceptions that exempt a referrer. */
  readonly exceptions: readonly string[];
}

/** Maximum number of referrers that a message names. */
const MOST_NAMED = 5;
/** Concurrent live reads for one request. */
const AT_ONCE = 8;

/**
 * Whether a target may be deleted: not while a remaining object names it through a restricting reference of these
 * policies.
 *
 * The stores supply candidates. Only objects that still name the target in a live read count. Objects that disappear
 * anyway do not count: those that are being deleted, those in a namespace that is being deleted with the target, and
 * those that only the target owns.
 */
export async function checkTargetDeletion(
  request: AdmissionRequest,
  policies: readonly CompiledPolicy[],
  circumstances: AdmissionContext,
): Promise<Decision> {
  const { operation, oldObject, name } = request;
  if (operation !== 'DELETE' || name === undefined) return ALLOWED;
  // An earlier request has deleted the target already.
  if (oldObject !== undefined && isBeingDeleted(oldObject)) return ALLOWED;
  const target = requestedObject(request);
  const suspects = circumstances.world.governed?.referrers(target, policies);
  if (suspects === undefined) return toDecision({ ...NO_FINDINGS, ...notListed(policies, target) });
  if (suspects.length === 0) return ALLOWED;

  const objections: Objection[] = [];
  const unknown: { readonly policy: CompiledPolicy; readonly cause: unknown }[] = [];
  for (const policy of policies) {
    try {
      objections.push(await objectionOf(policy, target, suspects, request, circumstances));
    } catch (cause) {
      unknown.push({ policy, cause });
    }
  }
  return await decide(request, target, objections, unknown, circumstances);
}

const NO_FINDINGS: Findings = {
  violations: [],
  undecided: [],
  unchecked: [],
  deferred: [],
  window: undefined,
  cause: undefined,
  notices: NO_NOTICES,
  exceptions: [],
};

async function decide(
  request: AdmissionRequest,
  target: ObjectRef,
  objections: readonly Objection[],
  unknown: readonly { readonly policy: CompiledPolicy; readonly cause: unknown }[],
  circumstances: AdmissionContext,
): Promise<Decision> {
  const standing = objections.filter(({ referrals }) => referrals.length > 0);
  const isDeferrable = ({ policy }: { readonly policy: CompiledPolicy }) =>
    policy.enforcement === 'Deny' && policy.restore.defersTargetDelete !== false;
  const doubtful = [...standing, ...unknown].some(isDeferrable);
  const restore = doubtful ? await createRestoreLookup(request, circumstances)() : undefined;
  // The sweep after the restore finds every reference whose target is still missing.
  const restoring = restore?.kind === 'restoring';
  const isDeferred = ({ policy }: { readonly policy: CompiledPolicy }) =>
    restoring &&
    policy.enforcement === 'Deny' &&
    (policy.restore.defersTargetDelete ?? restore.operations.includes('DELETE'));
  const deferred = standing.filter(isDeferred);
  const undecided = [
    ...unknown.filter((one) => !isDeferred(one)),
    ...(restore?.kind === 'unknown' ? standing.filter(isDeferrable) : []),
  ];
  const isStrict = ({ policy }: { readonly policy: CompiledPolicy }) => policy.enforcement === 'Deny';
  return toDecision({
    ...NO_FINDINGS,
    violations: standing
      .filter((one) => !deferred.includes(one) && !undecided.includes(one))
      .map((one) => toViolation(target, one)),
    undecided: undecided.filter(isStrict).map(({ policy }) => toUndecided(policy, target)),
    unchecked: undecided.filter((one) => !isStrict(one)).map(({ policy }) => toUndecided(policy, target)),
    deferred: deferred.map((one) => ({
      message: describe(target, one),
      auditRef: spell(one.policy, target),
      again: { kind: 'restore' },
    })),
    window: restoring && deferred.length > 0 ? restore.window : undefined,
    cause: unknown[0]?.cause ?? (restore?.kind === 'unknown' ? restore.cause : undefined),
    exceptions: [...new Set(objections.flatMap(({ exceptions }) => exceptions))],
  });
}

async function objectionOf(
  policy: CompiledPolicy,
  target: ObjectRef,
  suspects: readonly ObjectRef[],
  request: AdmissionRequest,
  circumstances: AdmissionContext,
): Promise<Objection> {
  const { apiGroups, resources } = policy.match;
  const governed = suspects.filter(
    ({ group, resource }) => apiGroups.includes(group) && resources.includes(resource),
  );
  const referrals: Referral[] = [];
  const exceptions: string[] = [];
  let read = 0;
  while (read < governed.length && referrals.length < MOST_NAMED) {
    const batch = governed.slice(read, read + AT_ONCE);
    read += batch.length;
    const looked = await Promise.all(
      batch.map((suspect) => referralOf(policy, target, suspect, request, circumstances)),
    );
    for (const found of looked) {
      if (found.referral !== undefined) referrals.push(found.referral);
      exceptions.push(...found.exceptions);
    }
  }
  const unread = governed.length - read + Math.max(0, referrals.length - MOST_NAMED);
  return { policy, referrals: referrals.slice(0, MOST_NAMED), unread, exceptions };
}

interface Looked {
  readonly referral: Referral | undefined;
  readonly exceptions: readonly string[];
}

const NOTHING: Looked = { referral: undefined, exceptions: [] };

/** Checks in a live read whether the candidate still names the target. */
async function referralOf(
  policy: CompiledPolicy,
  target: ObjectRef,
  suspect: ObjectRef,
  request: AdmissionRequest,
  { world, signal, now }: AdmissionContext,
): Promise<Looked> {
  if (targetKey(suspect) === targetKey(target)) return NOTHING;
  const live = await world.read(suspect, signal, policy.match.apiVersions);
  if (!isJsonObject(live) || isBeingDeleted(live)) return NOTHING;
  const naming = referencesOf(
    { references: restrictingReferences(policy.references) },
    live,
    suspect.namespace,
  ).filter((found) => targetKey(found.target) === targetKey(target));
  if (naming.length === 0 || goesWith(live, request)) return NOTHING;
  // Exceptions can match the user or the referring object. Exempt objects may lose their target.
  const { spares, names } = exemptionOf(
    policy,
    { ...request, object: live, oldObject: undefined, name: suspect.name, namespace: suspect.namespace },
    now,
  );
  const standing = naming.find(({ reference }) => !spares('references', reference.name));
  if (standing === undefined)
    return { referral: undefined, exceptions: names.map((name) => `${policy.name}/${name}`) };
  if (!(await isGovernedNow(policy, live, world, signal))) return NOTHING;
  if (await sharesDoomedNamespace(suspect, target, world, signal)) return NOTHING;
  return {
    referral: { object: suspect, field: standing.field, reference: standing.reference.name },
    exceptions: [],
  };
}

/** The garbage collector deletes an object after its only owner, unless the deletion orphans dependents. */
function goesWith({ metadata }: KubeObject, { oldObject, options }: AdmissionRequest): boolean {
  const uid = valueIn(oldObject, 'metadata', 'uid');
  const owners = metadata?.ownerReferences ?? [];
  if (typeof uid !== 'string' || owners.length === 0 || !owners.every((owner) => owner.uid === uid))
    return false;
  const finalizers = valueIn(oldObject, 'metadata', 'finalizers');
  const orphans =
    valueIn(options, 'propagationPolicy') === 'Orphan' ||
    valueIn(options, 'orphanDependents') === true ||
    (isJsonArray(finalizers) && finalizers.includes('orphan'));
  return !orphans;
}

/**
 * The namespace controller deletes the objects of a namespace in any order, so a reference between them must not block
 * it.
 */
async function sharesDoomedNamespace(
  { namespace }: ObjectRef,
  target: ObjectRef,
  { read }: AdmissionContext['world'],
  signal: AbortSignal,
): Promise<boolean> {
  if (namespace === undefined || namespace !== target.namespace) return false;
  const found = await read({ ...NAMESPACES, namespace: undefined, name: namespace }, signal);
  return found === undefined || found.metadata?.deletionTimestamp !== undefined;
}

function toViolation(target: ObjectRef, objection: Objection): Violation {
  return {
    policy: objection.policy,
    field: '',
    reason: 'FieldValueForbidden',
    message: describe(target, objection),
  };
}

function describe(target: ObjectRef, { referrals, unread }: Objection): string {
  const named = referrals.map(({ object, field }) => `${describeRef(object)} (${shorten(field, 256)})`);
  const more = unread > 0 ? `, and perhaps ${unread} more` : '';
  const references = [...new Set(referrals.map(({ reference }) => reference))].join(', ');
  return `${describeRef(target)} is still named by ${named.join(', ')}${more}: delete them or have them name another one first (reference ${references})`;
}

function toUndecided(policy: CompiledPolicy, target: ObjectRef): Undecided {
  const message = `could not find out whether something still names ${describeRef(target)}`;
  return { policy, message, auditRef: spell(policy, target) };
}

function notListed(
  policies: readonly CompiledPolicy[],
  target: ObjectRef,
): Pick<Findings, 'undecided' | 'unchecked'> {
  const { strict = [], lenient = [] } = Object.groupBy(policies, ({ enforcement }) =>
    enforcement === 'Deny' ? 'strict' : 'lenient',
  );
  return {
    undecided: strict.map((policy) => toUndecided(policy, target)),
    unchecked: lenient.map((policy) => toUndecided(policy, target)),
  };
}

/** e.g. `servers=datacenters.infra.example.com/fra1` */
function spell(policy: CompiledPolicy, target: ObjectRef): string {
  return `${policy.name}=${targetKey(target)}`;
}
