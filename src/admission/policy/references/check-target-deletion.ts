import { splitApiVersion, type KubeObject, type ObjectRef } from '../../../json/kube-object.ts';
import { exemptionOf } from '../exceptions/exceptions.ts';
import { hasDeletionTimestamp } from '../object-metadata.ts';
import type { Violation } from '../violation.ts';
import { describeRef, requestedObject, targetKey } from '../object-ref.ts';
import type { CompiledPolicy } from '../compiled-policy.ts';
import { ALLOWED, type Decision } from '../../review/decision.ts';
import { isGovernedNow } from '../match/object-scope.ts';
import { isJsonArray, isJsonObject, valueIn } from '../../../json/json.ts';
import { isInTerminatingNamespace, guardDeletion } from './guard-deletion.ts';
import { recordDeletion } from './record-deletion.ts';
import { referencesOf, restrictingReferences } from './read-references.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import { createRestoreLookup, windowsFor } from '../deferral/deferral.ts';
import { shorten } from '../../../json/printable.ts';
import { NO_FINDINGS, toDecision, type Undecided } from '../findings.ts';
import type { AdmissionContext } from '../world.ts';

interface Referral {
  readonly object: ObjectRef;
  /** e.g. `spec.disks[1].class` */
  readonly field: string;
  readonly reference: string;
}

type OfPolicy = Readonly<{ policy: CompiledPolicy }>;

interface Objection extends OfPolicy {
  readonly referrals: readonly Referral[];
  readonly unread: number;
  readonly exceptions: readonly string[];
}

type Unknown = OfPolicy & Readonly<{ cause: unknown }>;

const MOST_NAMED = 5;
/** Concurrent live reads for one request. */
const AT_ONCE = 8;

/** The deletionTimestamp of the target may be forged, so it is ignored. */
export async function checkTargetDeletion(
  request: AdmissionRequest,
  policies: readonly CompiledPolicy[],
  context: AdmissionContext,
): Promise<Decision> {
  const { operation, name } = request;
  if (operation !== 'DELETE' || name === undefined) return ALLOWED;
  const target = requestedObject(request);
  const restricting = policies.filter(({ references }) =>
    restrictingReferences(references).some(
      (one) => one.target.group === target.group && one.target.resource === target.resource,
    ),
  );
  const decision = await checkReferrers(request, target, restricting, context);
  return decision.kind === 'allow'
    ? await recordDeletion(request, target, policies, context, decision)
    : decision;
}

async function checkReferrers(
  request: AdmissionRequest,
  target: ObjectRef,
  policies: readonly CompiledPolicy[],
  context: AdmissionContext,
): Promise<Decision> {
  if (policies.length === 0) return ALLOWED;
  const known = context.world.governed.referrers(target, policies);
  const decision = await judgeReferrers(request, target, policies, known, context);
  if (decision.kind !== 'allow' || known === undefined) return decision;
  const judge = (candidates: readonly ObjectRef[]) =>
    judgeReferrers(request, target, policies, candidates, context);
  return (await guardDeletion(request, target, policies, context, judge)) ?? decision;
}

/** @param candidates may reference the target; undefined if the stores are not synced */
async function judgeReferrers(
  request: AdmissionRequest,
  target: ObjectRef,
  policies: readonly CompiledPolicy[],
  candidates: readonly ObjectRef[] | undefined,
  context: AdmissionContext,
): Promise<Decision> {
  if (candidates?.length === 0) return ALLOWED;
  if (candidates === undefined) {
    const unlisted = policies.map((policy) => ({ policy }));
    return toDecision({ ...NO_FINDINGS, ...undecidedOf(unlisted, target) });
  }
  const objections: Objection[] = [];
  const unknown: Unknown[] = [];
  for (const policy of policies) {
    try {
      objections.push(await objectionOf(policy, target, candidates, request, context));
    } catch (cause) {
      unknown.push({ policy, cause });
    }
  }
  return await decide(request, target, objections, unknown, context);
}

const isStrict = ({ policy }: OfPolicy): boolean => policy.enforcement === 'Deny';

async function decide(
  request: AdmissionRequest,
  target: ObjectRef,
  objections: readonly Objection[],
  unknown: readonly Unknown[],
  context: AdmissionContext,
): Promise<Decision> {
  const blocking = objections.filter(({ referrals }) => referrals.length > 0);
  const isDeferrable = (one: OfPolicy) => isStrict(one) && one.policy.restore.defersTargetDelete !== false;
  const dependsOnRestore = [...blocking, ...unknown].some(isDeferrable);
  const restore = dependsOnRestore ? await createRestoreLookup(request, context)() : undefined;
  const deleting = restore === undefined ? [] : windowsFor(restore, 'DELETE');
  // The sweep after the restore finds every reference whose target is still missing.
  const mayDelete = ({ policy }: OfPolicy) => {
    const { defersTargetDelete } = policy.restore;
    if (restore?.kind !== 'restoring' || defersTargetDelete === false) return [];
    return defersTargetDelete === true ? restore.windows : deleting;
  };
  const isDeferred = (one: Objection | Unknown) =>
    isStrict(one) && mayDelete(one).some(({ clusterWide }) => clusterWide || isWithin(one, target.namespace));
  const deferred = blocking.filter(isDeferred);
  const undecided: readonly OfPolicy[] = [
    ...unknown.filter((one) => !isDeferred(one)),
    ...(restore?.kind === 'unknown' ? blocking.filter(isDeferrable) : []),
  ];
  return toDecision({
    ...NO_FINDINGS,
    violations: blocking
      .filter((one) => !deferred.includes(one) && !undecided.includes(one))
      .map((one): Violation => {
        const message = describe(target, one);
        return { policy: one.policy, field: '', reason: 'FieldValueForbidden', message };
      }),
    ...undecidedOf(undecided, target),
    deferred: deferred.map((one) => ({
      message: describe(target, one),
      auditRef: auditRefOf(one.policy, target),
      again: { kind: 'restore' },
    })),
    window:
      restore?.kind === 'restoring' && deferred.length > 0
        ? [...deleting, ...restore.windows][0]?.window
        : undefined,
    cause: unknown[0]?.cause ?? (restore?.kind === 'unknown' ? restore.cause : undefined),
    exceptions: [...new Set(objections.flatMap(({ exceptions }) => exceptions))],
  });
}

/** Whether all known referrers are in this namespace. */
const isWithin = (one: Objection | Unknown, namespace: string | undefined): boolean =>
  'referrals' in one &&
  one.unread === 0 &&
  one.referrals.every(({ object }) => object.namespace === namespace);

async function objectionOf(
  policy: CompiledPolicy,
  target: ObjectRef,
  candidates: readonly ObjectRef[],
  request: AdmissionRequest,
  context: AdmissionContext,
): Promise<Objection> {
  const { apiGroups, resources } = policy.match;
  const governed = candidates.filter(
    ({ group, resource }) => apiGroups.includes(group) && resources.includes(resource),
  );
  const referrals: Referral[] = [];
  const exceptions: string[] = [];
  let read = 0;
  while (read < governed.length && referrals.length < MOST_NAMED) {
    const batch = governed.slice(read, read + AT_ONCE);
    read += batch.length;
    const reads = await Promise.all(
      batch.map((candidate) => referralOf(policy, target, candidate, request, context)),
    );
    for (const found of reads) {
      if (found.referral !== undefined) referrals.push(found.referral);
      exceptions.push(...(found.exceptions ?? []));
    }
  }
  const unread = governed.length - read + Math.max(0, referrals.length - MOST_NAMED);
  return { policy, referrals: referrals.slice(0, MOST_NAMED), unread, exceptions };
}

async function referralOf(
  policy: CompiledPolicy,
  target: ObjectRef,
  candidate: ObjectRef,
  request: AdmissionRequest,
  context: AdmissionContext,
): Promise<{ readonly referral?: Referral; readonly exceptions?: readonly string[] }> {
  if (targetKey(candidate) === targetKey(target)) return {};
  const { world, signal } = context;
  const live = await world.read(candidate, signal, policy.match.apiVersions);
  if (!isJsonObject(live) || hasDeletionTimestamp(live)) return {};
  const { namespace, name, group, resource } = candidate;
  const restricting = { references: restrictingReferences(policy.references) };
  const naming = referencesOf(restricting, live, namespace).filter(
    (found) => targetKey(found.target) === targetKey(target),
  );
  if (naming.length === 0 || isCollectedWithTarget(live, candidate, request)) return {};
  // Exceptions can match the user or the referring object. Exempt objects may lose their target.
  const kind = { group, version: '', resource };
  const referrer = { ...request, resource: kind, object: live, oldObject: undefined, name, namespace };
  const { covers, names } = exemptionOf(policy, referrer, context);
  const blocking = naming.find(({ reference }) => !covers('references', reference.name));
  if (blocking === undefined) return { exceptions: names.map((each) => `${policy.name}/${each}`) };
  if (!(await isGovernedNow(policy, live, world, signal))) return {};
  if (await isInTerminatingNamespace(candidate, target, world, signal)) return {};
  return { referral: { object: candidate, field: blocking.field, reference: blocking.reference.name } };
}

/** The garbage collector finds an owner by kind, namespace and name: an owner reference with only the right uid is not enough. */
function isCollectedWithTarget(
  { metadata }: KubeObject,
  { namespace }: ObjectRef,
  request: AdmissionRequest,
): boolean {
  const { kind, oldObject, options } = request;
  const uid = valueIn(oldObject, 'metadata', 'uid');
  const owners = metadata?.ownerReferences ?? [];
  if (typeof uid !== 'string' || owners.length === 0) return false;
  if (request.namespace !== undefined && request.namespace !== namespace) return false;
  const isTarget = (owner: (typeof owners)[number]) =>
    owner.uid === uid &&
    owner.name === request.name &&
    owner.kind === kind.kind &&
    splitApiVersion(owner.apiVersion).group === kind.group;
  if (!owners.every(isTarget)) return false;
  const finalizers = valueIn(oldObject, 'metadata', 'finalizers');
  const orphans =
    valueIn(options, 'propagationPolicy') === 'Orphan' ||
    valueIn(options, 'orphanDependents') === true ||
    (isJsonArray(finalizers) && finalizers.includes('orphan'));
  return !orphans;
}

function describe(target: ObjectRef, { referrals, unread }: Objection): string {
  const named = referrals.map(({ object, field }) => `${describeRef(object)} (${shorten(field, 256)})`);
  const more = unread > 0 ? `, and perhaps ${unread} more` : '';
  const references = [...new Set(referrals.map(({ reference }) => reference))].join(', ');
  return `${describeRef(target)} is still referenced by ${named.join(', ')}${more}: delete them or change their references first (reference ${references})`;
}

function undecidedOf(all: readonly OfPolicy[], target: ObjectRef) {
  const message = `could not find out whether ${describeRef(target)} is still referenced`;
  const toUndecided = ({ policy }: OfPolicy): Undecided => ({
    policy,
    message,
    auditRef: auditRefOf(policy, target),
  });
  return {
    undecided: all.filter(isStrict).map(toUndecided),
    unchecked: all.filter((one) => !isStrict(one)).map(toUndecided),
  };
}

const auditRefOf = (policy: CompiledPolicy, target: ObjectRef): string =>
  `${policy.name}=${targetKey(target)}`;
