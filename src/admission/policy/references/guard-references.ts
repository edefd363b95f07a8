/** Stores or holds the intents of a write with references, then checks that no deletion of their targets was admitted. */
import { quote } from '../../../json/printable.ts';
import { isJsonObject, uniqueBy } from '../../../json/json.ts';
import { mapConcurrent } from '../../../json/map-concurrent.ts';
import type { UniqueClaim } from '../../../api/unique-claim.ts';
import { TRY_AGAIN } from '../../review/decision.ts';
import type { AdmissionRequest } from '../../review/request.ts';
import {
  deferringWindow,
  defers,
  isInitiallyDeferred,
  knownRestore,
  mayDefer,
  type RestoreLookup,
} from '../deferral/deferral.ts';
import { deferredReference, type Findings, NO_FINDINGS, undecidedReference } from '../findings.ts';
import { describeRef, requestedObject, targetKey } from '../object-ref.ts';
import { hasDeletionTimestamp } from '../object-metadata.ts';
import { admittedRequest, busyMs, isHeldBy, renewed } from '../unique/claim-state.ts';
import type { Violation } from '../violation.ts';
import type { AdmissionContext, Holding } from '../world.ts';
import {
  deletionIntentName,
  missingTarget,
  newIntent,
  referenceIntentName,
  targetLabel,
  type UnresolvedReference,
} from './check-references.ts';

/** Concurrent calls for one request. */
const AT_ONCE = 8;
/** Limit for new targets of one write: each is a label of the intent. */
const MOST_TARGETS = 256;

type Obstacle = { readonly reference: UnresolvedReference } & (
  | { readonly kind: 'missing' | 'being-deleted' | 'deletion-pending' }
  | { readonly kind: 'unknown'; readonly cause: unknown }
);

/** A dry run and a deferred reference store no intent. */
export async function guardReferences(
  found: readonly UnresolvedReference[],
  request: AdmissionRequest,
  context: AdmissionContext,
  restoring: RestoreLookup,
): Promise<Findings> {
  const { world } = context;
  const { intents } = world;
  const isKnown = defers(knownRestore(request, world), request.operation, 'references');
  const guarded = found.filter(
    ({ policy }) => !isInitiallyDeferred(policy, request) && !(isKnown && mayDefer(policy, 'references')),
  );
  const [first] = guarded;
  if (intents === undefined || first === undefined) return NO_FINDINGS;
  // Of the references to one target, the last one decides: one that cannot be deferred, if there is one.
  const strictLast = guarded.toSorted((a, b) => rankOf(b) - rankOf(a));
  const targets = uniqueBy(strictLast, ({ target }) => targetKey(target));
  if (targets.length > MOST_TARGETS) return violating(tooMany(first));
  if (request.dryRun) {
    const obstacles = await obstaclesOf(targets, context);
    return await findingsOf(obstacles, request, restoring);
  }
  const guard: Guard = { first, targets, request, context, restoring };
  const holding = intents.hold?.(targets);
  return holding === undefined ? await guardByOwnIntent(guard) : await guardByHeldIntents(guard, holding);
}

const rankOf = ({ policy }: UnresolvedReference): number => (mayDefer(policy, 'references') ? 1 : 0);

interface Guard {
  readonly first: UnresolvedReference;
  readonly targets: readonly UnresolvedReference[];
  readonly request: AdmissionRequest;
  readonly context: AdmissionContext;
  readonly restoring: RestoreLookup;
}

/** Doesn't call the API server if the intents of all targets are held already. */
async function guardByHeldIntents(
  { first, targets, request, context, restoring }: Guard,
  holding: Holding,
): Promise<Findings> {
  const { claims } = context.world;
  const self = requestedObject(request);
  const key = { policy: first.policy, claim: holding.name, self };
  const { refused, written } = claims.reserve([key], request.userInfo.username);
  let admitted: UniqueClaim | undefined;
  try {
    if (refused.length > 0) return violating(tooManyUnsettled(first, request.userInfo.username));
    await holding.stored();
    const unclear = targets.filter(({ target }) => !holding.isClear(target));
    const obstacles = await obstaclesOf(unclear, context);
    const obstructed = new Set(obstacles.map(({ reference }) => reference));
    for (const reference of unclear) holding.report(reference.target, !obstructed.has(reference));
    const findings = await findingsOf(obstacles, request, restoring);
    if (!isRefused(findings)) {
      const write = admittedRequest(request, context.now);
      admitted = newIntent(holding.name, specOf(first), self, [], write, context.now);
    }
    return findings;
  } catch (cause) {
    return { ...NO_FINDINGS, undecided: [undecidedReference(first)], cause };
  } finally {
    written(admitted === undefined ? [] : [holding.name]);
    holding.end(admitted);
  }
}

async function guardByOwnIntent(guard: Guard): Promise<Findings> {
  const { first, targets, request, context, restoring } = guard;
  const { claims } = context.world;
  const name = referenceIntentName(request);
  const key = { policy: first.policy, claim: name, self: requestedObject(request) };
  const { refused, written } = claims.reserve([key], request.userInfo.username);
  if (refused.length > 0) return violating(tooManyUnsettled(first, request.userInfo.username));
  let remaining = [name];
  try {
    const intent = await storeIntent(name, guard);
    // After the intent is stored: a deletion that does not see the intent is visible to these reads.
    const obstacles = await obstaclesOf(targets, context);
    const findings = await findingsOf(obstacles, request, restoring);
    // Best effort: the intent expires.
    if (
      isRefused(findings) &&
      (await claims.remove(intent, context.signal).catch(() => undefined)) === 'removed'
    )
      remaining = [];
    return findings;
  } catch (cause) {
    return { ...NO_FINDINGS, undecided: [undecidedReference(first)], cause };
  } finally {
    written(remaining);
  }
}

const isRefused = ({ violations, undecided }: Findings): boolean => violations.length + undecided.length > 0;

const specOf = ({ policy, reference }: UnresolvedReference) => ({
  policy: policy.name,
  rule: `references/${reference.name}`,
});

async function storeIntent(
  name: string,
  { first, targets, request, context: { signal, now, world } }: Guard,
): Promise<UniqueClaim> {
  const { claims } = world;
  const self = requestedObject(request);
  const admitted = admittedRequest(request, now);
  const labels = targets.map(({ target }) => targetLabel(target));
  const made = await claims.create(newIntent(name, specOf(first), self, labels, admitted, now), signal);
  if (made !== 'taken') return made;
  // The API server repeats a call that got no answer. The new version cannot be removed by the first call.
  const earlier = await claims.read(name, signal);
  const again =
    earlier && isHeldBy(earlier, self) ? renewed(earlier, admitted, now, claims.settleMs) : undefined;
  const replaced = again === undefined ? 'changed' : await claims.replace(again, signal);
  if (replaced === 'changed') throw new Error(`another call of this request changes the intent ${name}`);
  return replaced;
}

const obstaclesOf = async (
  targets: readonly UnresolvedReference[],
  context: AdmissionContext,
): Promise<readonly Obstacle[]> =>
  (
    await mapConcurrent(targets, AT_ONCE, async (reference) =>
      obstacleOf(reference, context).catch((cause: unknown): Obstacle => ({
        kind: 'unknown',
        reference,
        cause,
      })),
    )
  ).filter((one) => one !== undefined);

async function obstacleOf(
  reference: UnresolvedReference,
  { world, signal, now }: AdmissionContext,
): Promise<Obstacle | undefined> {
  const { target } = reference;
  const { claims } = world;
  // The intent first: if it is gone by now, the deletion is over, and the read of the target shows its result.
  const deletion = await claims.read(deletionIntentName(target), signal);
  const live = await world.confirm(target, signal);
  if (live === undefined) return { kind: 'missing', reference };
  if (isJsonObject(live) && hasDeletionTimestamp(live)) return { kind: 'being-deleted', reference };
  const isPending = deletion !== undefined && busyMs(deletion, live, now, claims.settleMs) > 0;
  return isPending ? { kind: 'deletion-pending', reference } : undefined;
}

async function findingsOf(
  obstacles: readonly Obstacle[],
  { operation }: AdmissionRequest,
  restoring: RestoreLookup,
): Promise<Findings> {
  if (obstacles.length === 0) return NO_FINDINGS;
  const unknown = obstacles.filter((one) => one.kind === 'unknown');
  const refused = {
    ...NO_FINDINGS,
    violations: obstacles.flatMap((one) => violationOf(one) ?? []),
    undecided: unknown.map(({ reference }) => undecidedReference(reference)),
    cause: unknown[0]?.cause,
  };
  if (!obstacles.every(({ reference }) => mayDefer(reference.policy, 'references'))) return refused;
  const restore = await restoring();
  if (restore.kind === 'unknown') {
    const undecided = obstacles.map(({ reference }) => undecidedReference(reference));
    return { ...NO_FINDINGS, undecided, cause: restore.cause };
  }
  const window = deferringWindow(restore, operation, 'references');
  if (window === undefined) return refused;
  return { ...NO_FINDINGS, deferred: obstacles.map(({ reference }) => deferredReference(reference)), window };
}

function violationOf({ kind, reference: found }: Obstacle): Violation | undefined {
  const { policy, reference, field, target } = found;
  const common = { policy, check: reference.name, field } as const;
  const named = `(reference ${reference.name})`;
  switch (kind) {
    case 'missing':
      return missingTarget(found);
    case 'being-deleted': {
      const message = `${describeRef(target)} is being deleted: reference another object, or wait until it exists again ${named}`;
      return { ...common, reason: 'FieldValueInvalid', message };
    }
    case 'deletion-pending': {
      const message = `${describeRef(target)} may be about to be deleted: try again ${named}`;
      return { ...common, reason: 'FieldValueInvalid', message, refusal: TRY_AGAIN };
    }
    case 'unknown':
      return undefined;
  }
}

const violating = (violation: Violation): Findings => ({ ...NO_FINDINGS, violations: [violation] });

function tooMany({ policy, reference, field }: UnresolvedReference): Violation {
  const message = `adds more than ${MOST_TARGETS} targets in one write: add them in several writes (reference ${reference.name})`;
  return { policy, check: reference.name, field, reason: 'FieldValueTooLong', message };
}

function tooManyUnsettled({ policy, reference }: UnresolvedReference, username: string): Violation {
  const message = `too many writes of ${quote(username)} with new references are not stored: try again, and find out why those writes fail`;
  const check = reference.name;
  return { policy, check, field: '', reason: 'FieldValueInvalid', message, refusal: TRY_AGAIN };
}
