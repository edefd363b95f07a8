import { fillDefaults } from './defaults/defaults.ts';
import { listsOf } from './mutations/list-types.ts';
import { applyMutations, MutationError } from './mutations/mutations.ts';
import { withinLimits } from './mutations/update-limits.ts';
import { governedBefore } from './match/object-scope.ts';
import { isFinalizerRemoval, withoutAddedFinalizers } from './deletion/deletion.ts';
import type { CompiledPolicy } from './compiled-policy.ts';
import { ALLOWED, denied, FORBIDDEN, type Decision } from '../review/decision.ts';
import { CEL_COST_LIMIT, createCelBudget } from '../../cel/values/values.ts';
import { createEvaluate, type CompiledExpression } from './expressions/expression.ts';
import { isEqual, type JsonObject } from '../../json/json.ts';
import { verifiedDiff } from '../../json/json-diff.ts';
import { mayRecordOwners } from '../../api/owner-kinds.ts';
import { keepOwners, linkOwners } from './owners/owners.ts';
import { writes, type AdmissionRequest } from '../review/request.ts';
import { createRestoreLookup, windowsFor } from './deferral/deferral.ts';
import { gather, NO_BINDINGS, changesRead, readsCluster, type Bindings } from './expressions/bindings.ts';
import { correctUids, targetUids } from './references/target-uids.ts';
import { paramsNotFound } from './object-ref.ts';
import { OutOfReachError, type AdmissionContext } from './world.ts';

type MutationContext = Pick<AdmissionContext, 'world' | 'signal' | 'turns'>;

/** Synchronous unless an expression reads the cluster or another review waits. */
export function mutate(
  request: AdmissionRequest,
  policies: readonly CompiledPolicy[],
  context: MutationContext,
): Decision | Promise<Decision> {
  const { operation, object } = request;
  if (!writes(operation)) return ALLOWED;
  // A change could make the API server reject the removal of the finalizers.
  if (object === undefined || isFinalizerRemoval(request)) return ALLOWED;
  return policies.some(isSkipped) && context.world.mayRestore(request.userInfo)
    ? mutateForRestorer(request, object, policies, context)
    : mutateInTurn(request, object, policies, context);
}

function mutateInTurn(...review: Parameters<typeof mutateObject>): Decision | Promise<Decision> {
  const turn = review[3].turns?.next();
  return turn === undefined ? mutateObject(...review) : turn.then(() => mutateObject(...review));
}

const retry = (problem: string, cause: unknown) =>
  ({ kind: 'retry', message: `${problem}: try again`, cause }) as const;

/** Objects in a backup have already been mutated. */
const isSkipped = ({ mutations, restore }: CompiledPolicy): boolean =>
  mutations.length > 0 && restore.skipsMutations;

async function mutateForRestorer(
  request: AdmissionRequest,
  object: JsonObject,
  policies: readonly CompiledPolicy[],
  context: MutationContext,
): Promise<Decision> {
  const restore = await createRestoreLookup(request, context)();
  if (restore.kind === 'unknown')
    return retry('could not find out whether a backup is being restored', restore.cause);
  // No sweep applies them later, so a window for some namespaces does not skip them.
  const restoring = windowsFor(restore, request.operation).some(({ clusterWide }) => clusterWide);
  const applied = restoring
    ? policies.map((policy) => (isSkipped(policy) ? { ...policy, mutations: [] } : policy))
    : policies;
  return await mutateInTurn(request, object, applied, context);
}

function mutateObject(
  request: AdmissionRequest,
  object: JsonObject,
  policies: readonly CompiledPolicy[],
  context: MutationContext,
): Decision | Promise<Decision> {
  const changing = policies.filter(({ defaults, mutations }) => defaults.length > 0 || mutations.length > 0);
  const changed = changing.some((policy) => readsCluster(changesRead(policy)))
    ? changeInCluster(request, object, changing, context)
    : change(request, object, new Map(changing.map((policy) => [policy, NO_BINDINGS])), context);
  // Last, because it records the owners of the mutated object.
  const finish = (made: Changed) =>
    made.kind === 'changed' && preservesOwners(request, policies)
      ? withOwnersKept(withTrustedRecord(request, policies), object, made.object, context)
      : toDecision(object, made);
  const correct = (made: Changed) => {
    if (made.kind !== 'changed' || context.world.owners === undefined || request.subResource !== '')
      return finish(made);
    const uids = targetUids(policies, made.object, request.namespace);
    if (uids.length === 0) return finish(made);
    return correctUids(request, made.object, uids, context).then((after) =>
      finish({ ...made, object: after }),
    );
  };
  return changed instanceof Promise ? changed.then(correct) : correct(changed);
}

type Changed =
  { readonly kind: 'changed'; readonly object: JsonObject } | Exclude<Decision, { kind: 'allow' }>;

function toDecision(before: JsonObject, changed: Changed, warnings: readonly string[] = []): Decision {
  if (changed.kind !== 'changed') return changed;
  if (changed.object === before && warnings.length === 0) return ALLOWED;
  return { ...ALLOWED, patch: verifiedDiff(before, changed.object), warnings };
}

function preservesOwners(
  { resource, subResource }: AdmissionRequest,
  policies: readonly CompiledPolicy[],
): boolean {
  // The API server ignores changes to metadata through a subresource.
  return subResource === '' && mayRecordOwners(resource) && policies.some((policy) => policy.preservesOwners);
}

/** While no policy selects an object, any user can write its record. */
function withTrustedRecord(request: AdmissionRequest, policies: readonly CompiledPolicy[]): AdmissionRequest {
  const wasSelected = policies.some(
    (policy) => policy.preservesOwners && governedBefore(policy, request) !== undefined,
  );
  return wasSelected ? request : { ...request, oldObject: undefined };
}

function withOwnersKept(
  request: AdmissionRequest,
  before: JsonObject,
  object: JsonObject,
  context: MutationContext,
): Decision | Promise<Decision> {
  const isOurs = context.world.owners?.isOurs(request.userInfo.username) ?? false;
  const kept = keepOwners(request, object, isOurs);
  const finish = ({ object: after, warnings }: Extract<typeof kept, { kind: 'kept' }>) =>
    toDecision(before, { kind: 'changed', object: after }, warnings);
  return kept.kind === 'kept' ? finish(kept) : linkOwners(request, object, kept.record, context).then(finish);
}

async function changeInCluster(
  request: AdmissionRequest,
  object: JsonObject,
  policies: readonly CompiledPolicy[],
  context: MutationContext,
): Promise<Changed> {
  const { world, signal, turns } = context;
  const bindings = new Map<CompiledPolicy, Bindings>();
  for (const policy of policies) {
    try {
      const gathered = await gather(policy, changesRead(policy), request, world, 'store', signal);
      const { params } = gathered.missing;
      if (params !== undefined && policy.params?.whenMissing === 'Allow') {
        bindings.set(withoutParams(policy), gathered);
        continue;
      }
      if (params !== undefined) {
        return refusal(new MutationError(paramsNotFound(params), policy.name));
      }
      bindings.set(policy, gathered);
    } catch (cause) {
      const problem = `could not read what policy ${policy.name} needs to know of the cluster`;
      if (cause instanceof OutOfReachError) return denied(FORBIDDEN, `${problem}: ${cause.message}`);
      return retry(problem, cause);
    }
  }
  const turn = turns?.next(true);
  if (turn !== undefined) await turn; // as in judge.ts
  return change(request, object, bindings, context);
}

function withoutParams(policy: CompiledPolicy): CompiledPolicy {
  const reads = (expression: CompiledExpression | undefined) => expression?.reads.params === true;
  return {
    ...policy,
    defaults: policy.defaults.filter((rule) => rule.kind === 'value' || !reads(rule.expression)),
    mutations: policy.mutations.filter(({ condition, change }) => !reads(condition) && !reads(change)),
  };
}

function change(
  request: AdmissionRequest,
  object: JsonObject,
  bindings: ReadonlyMap<CompiledPolicy, Bindings>,
  { signal, turns }: MutationContext,
): Changed {
  if (signal.aborted) return retry('could not apply the mutations before the answer was due', signal.reason);
  const budget = createCelBudget();
  const make = withinLimits(request);
  const once = (before: JsonObject) =>
    [...bindings].reduce((current, [policy, { inputs }]) => {
      const evaluateOn = (seen: JsonObject) =>
        createEvaluate(
          policy.variables,
          { ...inputs, request, object: seen, oldObject: request.oldObject },
          budget,
        );
      const making = { evaluateOn, make, lists: listsOf(policy, request.resource) };
      return applyMutations(policy, fillDefaults(policy, current, making), making);
    }, before);
  try {
    const changed = once(object);
    const mutating = [...bindings.keys()].find(({ mutations }) => mutations.length > 0);
    if (changed !== object && mutating !== undefined && !isEqual(once(changed), changed))
      throw new MutationError(UNSTABLE, mutating.name);
    return { kind: 'changed', object: withoutAddedFinalizers(request, changed) };
  } catch (error) {
    if (!(error instanceof MutationError)) throw error;
    return refusal(error);
  } finally {
    turns?.charge(CEL_COST_LIMIT - budget.time);
  }
}

const UNSTABLE =
  'its mutations change their own result again, and the API server may ask twice: add a condition, or set values instead of adding to them';

/** Applies all changes or none: a partly changed object would break what the policies guarantee. */
const refusal = ({ message, policy }: MutationError) => denied(FORBIDDEN, `${message} (policy ${policy})`);
