/** Stores the intent of a deletion, then looks for writes that reference the target and are not in the stores yet. */
import type { UniqueClaim } from '../../../api/unique-claim.ts';
import type { ObjectRef } from '../../../json/kube-object.ts';
import { uniqueBy } from '../../../json/json.ts';
import { quote } from '../../../json/printable.ts';
import { TRY_AGAIN, type Decision } from '../../review/decision.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import type { CompiledPolicy } from '../compiled-policy.ts';
import { knownRestore, windowsFor } from '../deferral/deferral.ts';
import { NO_FINDINGS, toDecision } from '../findings.ts';
import { canGovern } from '../match/object-scope.ts';
import { describeRef, targetKey, namespaceRefOf } from '../object-ref.ts';
import { admittedRequest, busyMs, holderRef, renewed } from '../unique/claim-state.ts';
import type { AdmissionContext, Claims, Intents, ObjectReads } from '../world.ts';
import {
  DELETION_INTENT_LABEL,
  deletionIntentName,
  isHeldIntent,
  newIntent,
  serializableReferences,
  targetLabel,
} from './check-references.ts';

/** How often a deletion looks whether a pending write is stored. Nearly all are within milliseconds. */
const MOST_LOOKS = 10;

/** Decides whether these objects block the deletion, by live reads. */
type Judge = (candidates: readonly ObjectRef[]) => Promise<Decision>;

interface Guard {
  readonly request: AdmissionRequest;
  readonly target: ObjectRef;
  readonly policies: readonly [CompiledPolicy, ...CompiledPolicy[]];
  readonly context: AdmissionContext;
  readonly claims: Claims;
  readonly intents: Intents;
  readonly judge: Judge;
}

/** Undefined if no policy guarantees references to the target. */
export async function guardDeletion(
  request: AdmissionRequest,
  target: ObjectRef,
  all: readonly CompiledPolicy[],
  context: AdmissionContext,
  judge: Judge,
): Promise<Decision | undefined> {
  const { claims, intents } = context.world;
  const restore = knownRestore(request, context.world);
  const [first, ...others] = all.filter(
    (policy) => guards(policy, target) && !isDeferred(policy, restore, request),
  );
  if (intents === undefined || first === undefined) return undefined;
  const policies = [first, ...others] as const;
  const guard: Guard = { request, target, policies, context, claims, intents, judge };
  if (request.dryRun) return await lookedOrRetry(guard);

  const name = deletionIntentName(target);
  const { username } = request.userInfo;
  const { refused, written } = claims.reserve([{ policy: first, claim: name, self: target }], username);
  if (refused.length > 0) return tryAgain(guard, `too many deletions by ${quote(username)} are not finished`);
  let remaining = [name];
  try {
    const stored = await storeIntent(name, guard);
    const decision = await lookedOrRetry(guard);
    if (decision.kind !== 'allow' && (await withdraw(stored, guard))) remaining = [];
    return decision;
  } catch (cause) {
    return unknown(guard, cause);
  } finally {
    written(remaining);
  }
}

const guards = (policy: CompiledPolicy, { group, resource }: ObjectRef): boolean =>
  serializableReferences(policy).some(({ target }) => target.group === group && target.resource === resource);

function isDeferred(
  { restore: { defersTargetDelete } }: CompiledPolicy,
  restore: ReturnType<typeof knownRestore>,
  { operation }: AdmissionRequest,
): boolean {
  if (restore.kind !== 'restoring' || defersTargetDelete === false) return false;
  return defersTargetDelete === true || windowsFor(restore, operation).length > 0;
}

async function lookedOrRetry(guard: Guard): Promise<Decision> {
  try {
    return await looked(guard);
  } catch (cause) {
    return unknown(guard, cause);
  }
}

interface StoredIntent {
  readonly intent: UniqueClaim;
  readonly earlier: UniqueClaim | undefined;
}

async function storeIntent(
  name: string,
  { request, target, policies, context: { now, signal }, claims }: Guard,
): Promise<StoredIntent> {
  const [policy] = policies;
  const admitted = admittedRequest(request, now);
  const rule = `references/${serializableReferences(policy)[0]?.name ?? ''}`;
  const made = await claims.create(
    newIntent(name, { policy: policy.name, rule }, target, [DELETION_INTENT_LABEL], admitted, now),
    signal,
  );
  if (made !== 'taken') return { intent: made, earlier: undefined };
  const earlier = await claims.read(name, signal);
  const intent = earlier && (await claims.replace(renewed(earlier, admitted, now, claims.settleMs), signal));
  if (intent === undefined || intent === 'changed')
    throw new Error(`another deletion of ${describeRef(target)} changes the intent ${name}`);
  return { intent, earlier };
}

/** Leaves the intents of other deletions. Best effort: an intent expires. */
async function withdraw(
  { intent, earlier }: StoredIntent,
  { claims, context: { signal } }: Guard,
): Promise<boolean> {
  try {
    if (earlier === undefined) return (await claims.remove(intent, signal)) === 'removed';
    await claims.replace({ ...intent, spec: earlier.spec }, signal);
  } catch {
    // The intent expires.
  }
  return false;
}

/** After the intent is stored: a write that does not see the intent is visible to these reads. */
async function looked(guard: Guard): Promise<Decision> {
  const { target, intents, judge, request } = guard;
  const { signal } = guard.context;
  // The intents first: if one is gone by now, its writes are over, and the list shows the result.
  const found = await intents.list(targetLabel(target), signal);
  let writing = found.filter((intent) => !isHeld(intent));
  // A dry run stores no intent, so no replica removes what it holds.
  let held = request.dryRun ? [] : found.filter((intent) => isHeld(intent) && mayHaveWrites(intent, guard));
  // The objects that were written under held intents are unknown. All are stored once the last intent is gone.
  let candidates: readonly ObjectRef[] =
    held.length === 0 ? await listedReferrers(guard) : knownReferrers(guard);
  for (let look = 1; ; look++) {
    // Before the objects are read: a write that is over by now is visible to that read.
    const pending = await pendingAmong(writing, guard);
    const decision = await judge(uniqueBy([...candidates, ...writing.map(holderRef)], targetKey));
    if (decision.kind !== 'allow' || pending.length + held.length === 0) return decision;
    if (look === MOST_LOOKS) return stillPending(guard, pending);
    await intents.pause(signal);
    // Intents that have arrived since belong to writes that see the intent of this deletion.
    const present = new Set(
      (await intents.list(targetLabel(target), signal)).map(({ metadata }) => metadata.name),
    );
    const isPresent = ({ metadata }: UniqueClaim) => present.has(metadata.name);
    candidates = pending.map(holderRef);
    writing = pending.filter(isPresent);
    if (held.length === 0) continue;
    held = held.filter(isPresent);
    const referrers = held.length === 0 ? await listedReferrers(guard) : knownReferrers(guard);
    candidates = [...candidates, ...referrers];
  }
}

const isHeld = ({ metadata: { name = '' } }: UniqueClaim): boolean => isHeldIntent(name);

const mayHaveWrites = (intent: UniqueClaim, { context: { now }, claims }: Guard): boolean =>
  busyMs(intent, undefined, now, claims.settleMs) > 0;

function knownReferrers({ target, policies, context: { world } }: Guard): readonly ObjectRef[] {
  const known = world.governed.referrers(target, policies);
  if (known === undefined) throw new Error('the objects that the policies govern have not been listed yet');
  return known;
}

async function listedReferrers(guard: Guard): Promise<readonly ObjectRef[]> {
  const { policies, context, intents } = guard;
  const unseen = await Promise.all(policies.map((policy) => intents.unseen(policy, context.signal)));
  return [...knownReferrers(guard), ...unseen.flat()];
}

async function pendingAmong(
  writing: readonly UniqueClaim[],
  { target, policies, context: { world, signal, now }, claims }: Guard,
): Promise<readonly UniqueClaim[]> {
  const pending = await Promise.all(
    writing.map(async (intent) => {
      const holder = holderRef(intent);
      // A forged claim could reference an object that cannot be read.
      const isGoverned = policies.some((policy) => canGovern(policy, holder));
      if (!isGoverned || targetKey(holder) === targetKey(target)) return [];
      const live = await world.confirm(holder, signal);
      if (busyMs(intent, live, now, claims.settleMs) === 0) return [];
      return (await isInTerminatingNamespace(holder, target, world, signal)) ? [] : [intent];
    }),
  );
  return pending.flat();
}

function stillPending(guard: Guard, [first]: readonly UniqueClaim[]): Decision {
  const by = first === undefined ? 'an object' : describeRef(holderRef(first));
  const problem = `${describeRef(guard.target)} was referenced a moment ago by ${by}, which may be about to be stored`;
  return tryAgain(guard, problem);
}

function tryAgain({ policies: [policy] }: Guard, problem: string): Decision {
  const message = `${problem}: try again`;
  return toDecision({
    ...NO_FINDINGS,
    violations: [{ policy, field: '', reason: 'FieldValueForbidden', message, refusal: TRY_AGAIN }],
  });
}

const unknown = ({ target, policies: [policy] }: Guard, cause: unknown): Decision => ({
  kind: 'retry',
  message: `could not find out whether ${describeRef(target)} is still referenced (policy ${policy.name}): try again`,
  cause,
});

/** Its objects go in any order, so a reference between them must not block that. */
export async function isInTerminatingNamespace(
  { namespace }: ObjectRef,
  target: ObjectRef,
  { read }: Pick<ObjectReads, 'read'>,
  signal: AbortSignal,
): Promise<boolean> {
  if (namespace === undefined || namespace !== target.namespace) return false;
  const found = await read(namespaceRefOf(namespace), signal);
  return found === undefined || found.metadata?.deletionTimestamp !== undefined;
}
