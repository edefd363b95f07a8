import { checkSchema } from './schema/json-schema.ts';
import { type Exemption, exemptionOf } from './exceptions/exceptions.ts';
import { splitExisting } from './existing/existing.ts';
import { checkImmutable } from './immutable/immutable.ts';
import { checkReferences, type UnresolvedReference } from './references/check-references.ts';
import { checkRules, evaluateNotices, NO_NOTICES, type Notices } from './rules/rules.ts';
import { checkUniqueLimits } from './unique/check-unique.ts';
import type { Violation } from './violation.ts';
import type { CompiledPolicy } from './compiled-policy.ts';
import type { CelBudget } from '../../cel/values/values.ts';
import {
  type Bindings,
  checksRead,
  createEvaluation,
  gather,
  NO_BINDINGS,
  readsCluster,
} from './expressions/bindings.ts';
import type { AdmissionRequest } from '../review/request.ts';
import type { Authorizations } from './expressions/authorizations.ts';
import type { AuditContext, ObjectReads } from './world.ts';

/** The result of one policy for a request, before unique values are claimed and missing targets confirmed. */
export interface Judgement {
  readonly policy: CompiledPolicy;
  readonly exemption: Exemption;
  readonly violations: readonly Violation[];
  /** Violations that the update keeps, under `existingViolations: Allow`. */
  readonly existing: readonly Violation[];
  /** References whose target the store does not hold. */
  readonly unresolved: readonly UnresolvedReference[];
  readonly notices: Notices;
  /** Why its expressions were not evaluated: a live read failed, or the time to answer is over. */
  readonly unreadable: unknown;
}

export type JudgeContext = AuditContext & {
  readonly budget: CelBudget;
  /** Absent where there is no API server to ask. */
  readonly authorizations?: Authorizations | undefined;
};

/** Synchronous unless an expression reads the cluster. Before a denial, everything is read live. */
export function judge(
  policy: CompiledPolicy,
  request: AdmissionRequest,
  context: JudgeContext,
): Judgement | Promise<Judgement> {
  const { world, signal, budget, turns } = context;
  const exemption = exemptionOf(policy, request, context);
  const { violations: checked, unresolved } = checkFields(policy, request, exemption, world);
  const judgementOf = (found: readonly Violation[], notices: Notices, unreadable?: unknown): Judgement => {
    const { violations, existing } = splitExisting(policy, request, found, context);
    return { policy, exemption, violations, existing, unresolved, notices, unreadable };
  };
  const { rules, warnings, auditAnnotations } = policy;
  if (rules.length + warnings.length + auditAnnotations.length === 0) return judgementOf(checked, NO_NOTICES);

  const unevaluated = (cause: unknown) =>
    judgementOf(checked, NO_NOTICES, cause ?? new Error('no reason was given'));
  const evaluateAll = (bindings: Bindings): Judgement => {
    if (signal.aborted) return unevaluated(signal.reason);
    const left = budget.time;
    const evaluation = createEvaluation(policy, request, bindings, budget);
    const violations = checkRules(policy, bindings, evaluation, exemption);
    const notices = evaluateNotices(policy, bindings, evaluation.evaluate);
    turns?.charge(left - budget.time);
    return judgementOf([...checked, ...violations], notices);
  };
  const reads = checksRead(policy);
  if (!readsCluster(reads)) return evaluateAll(NO_BINDINGS);
  if (reads.authorizer && context.authorizations === undefined)
    return unevaluated(new Error('there is no API server to ask what users may do'));
  return evaluateInCluster(policy, request, context, { evaluateAll, unevaluated });
}

interface Evaluator {
  readonly evaluateAll: (bindings: Bindings) => Judgement;
  readonly unevaluated: (cause: unknown) => Judgement;
}

async function evaluateInCluster(
  policy: CompiledPolicy,
  request: AdmissionRequest,
  context: JudgeContext,
  evaluator: Evaluator,
  from: 'store' | 'api' = 'store',
): Promise<Judgement> {
  const { world, signal, budget, turns, authorizations } = context;
  const reads = checksRead(policy);
  let gathered: Bindings;
  try {
    gathered = await gather(policy, reads, request, world, from, signal);
  } catch (cause) {
    return evaluator.unevaluated(cause);
  }
  const asking = reads.authorizer ? authorizations?.begin(from) : undefined;
  const bindings = { ...gathered, inputs: { ...gathered.inputs, authorize: asking?.authorize } };
  for (;;) {
    const turn = turns?.next(true);
    // Don't await `undefined`: other reviews could pass the check before this one has counted.
    if (turn !== undefined) await turn;
    const { remaining } = budget;
    const judgement = evaluator.evaluateAll(bindings);
    if (asking?.isWaiting() === true) {
      budget.remaining = remaining; // the API server evaluates only once; the time is spent
      try {
        await asking.answer(signal);
        continue;
      } catch (cause) {
        return evaluator.unevaluated(cause);
      }
    }
    const fromCache = gathered.fromCache || asking?.fromCache() === true;
    if (!fromCache || !judgement.violations.some((one) => one.readsCluster)) return judgement;
    return await evaluateInCluster(policy, request, context, evaluator, 'api');
  }
}

function checkFields(
  policy: CompiledPolicy,
  request: AdmissionRequest,
  exemption: Exemption,
  { find }: ObjectReads,
): Pick<Judgement, 'violations' | 'unresolved'> {
  const references = checkReferences(policy, request, find);
  const isExempt = (name: string) => exemption.covers('references', name);
  return {
    violations: [
      ...(exemption.covers('immutable') ? [] : checkImmutable(policy, request)),
      ...(exemption.covers('schema') ? [] : checkSchema(policy, request)),
      ...checkUniqueLimits(policy, request, exemption),
      ...references.violations.filter(({ check = '' }) => !isExempt(check)),
    ],
    unresolved: references.unresolved.filter(({ reference }) => !isExempt(reference.name)),
  };
}
