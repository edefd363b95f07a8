import { checkSchema } from './schema/schema.ts';
import { exemptionOf, type Exemption } from './exceptions/exceptions.ts';
import { checkImmutable } from './immutable/immutable.ts';
import { checkReferences, type UnresolvedReference } from './references/check-references.ts';
import { NO_NOTICES, evaluateNotices, type Notices } from './rules/notices.ts';
import { checkRules } from './rules/check-rules.ts';
import { checkUniqueLimits } from './unique/check-unique.ts';
import type { Violation } from './violation.ts';
import type { CompiledPolicy } from './compiled-policy.ts';
import { createEvaluate, type CompiledExpression } from './expressions/expression.ts';
import { type AdmissionRequest } from '../review/request.ts';
import {
  gather,
  NO_BINDINGS,
  readsCluster,
  type ClusterReads,
  type Bindings,
} from './expressions/bindings.ts';
import type { AdmissionContext, World } from './world.ts';

/** The result of one policy for a request, before unique values are claimed and missing targets confirmed. */
export interface Judgement {
  readonly policy: CompiledPolicy;
  readonly exemption: Exemption;
  readonly violations: readonly Violation[];
  /** References whose target the store does not hold. */
  readonly unseen: readonly UnresolvedReference[];
  readonly notices: Notices;
  /** Why the cluster objects that its expressions need could not be read. */
  readonly unreadable: unknown;
}

/** Runs the checks of a policy in the order of their messages. Synchronous unless an expression reads the cluster. */
export function judge(
  policy: CompiledPolicy,
  request: AdmissionRequest,
  circumstances: AdmissionContext,
): Judgement | Promise<Judgement> {
  const exemption = exemptionOf(policy, request, circumstances.now);
  const { violations, unseen } = ownChecks(policy, request, exemption, circumstances.world);
  const base = { policy, exemption, unseen, unreadable: undefined };
  if (!hasExpressions(policy)) return { ...base, violations, notices: NO_NOTICES };

  const finish = (bindings: Bindings): Judgement => {
    const said = say(policy, request, exemption, bindings);
    return { ...base, violations: [...violations, ...said.violations], notices: said.notices };
  };
  const reads = clusterReads(policy);
  if (!readsCluster(reads)) return finish(NO_BINDINGS);
  const unreadable = (cause: unknown): Judgement => ({
    ...base,
    violations,
    notices: NO_NOTICES,
    unreadable: cause ?? new Error('no reason was given'),
  });
  return judgeInCluster(policy, reads, request, circumstances, { finish, unreadable });
}

/** Cached objects may allow. Before a denial, everything is read live. */
async function judgeInCluster(
  policy: CompiledPolicy,
  reads: ClusterReads,
  request: AdmissionRequest,
  { world, signal }: AdmissionContext,
  { finish, unreadable }: Ends,
): Promise<Judgement> {
  const look = (from: 'store' | 'api') =>
    gather(policy, reads, request, world, from, signal).catch((cause: unknown) => ({ cause }));
  const near = await look('store');
  if ('cause' in near) return unreadable(near.cause);
  const judgement = finish(near);
  const refused = judgement.violations.some(({ readsCluster: fromCluster }) => fromCluster === true);
  if (!near.fromCache || !refused) return judgement;
  const live = await look('api');
  return 'cause' in live ? unreadable(live.cause) : finish(live);
}

/** What to return after the cluster has been read, or could not be read. */
interface Ends {
  readonly finish: (bindings: Bindings) => Judgement;
  readonly unreadable: (cause: unknown) => Judgement;
}

function ownChecks(
  policy: CompiledPolicy,
  request: AdmissionRequest,
  exemption: Exemption,
  { find }: World,
): { readonly violations: readonly Violation[]; readonly unseen: readonly UnresolvedReference[] } {
  const immutable = exemption.spares('immutable') ? [] : checkImmutable(policy, request);
  const schema = exemption.spares('schema') ? [] : checkSchema(policy, request);
  const unique = checkUniqueLimits(policy, request, exemption);
  const references = checkReferences(policy, request, find);
  const spared = (name: string) => exemption.spares('references', name);
  return {
    violations: [
      ...immutable,
      ...schema,
      ...unique,
      ...references.violations.filter(({ check = '' }) => !spared(check)),
    ],
    unseen: references.unseen.filter(({ reference }) => !spared(reference.name)),
  };
}

function say(
  policy: CompiledPolicy,
  request: AdmissionRequest,
  exemption: Exemption,
  bindings: Bindings,
): { readonly violations: readonly Violation[]; readonly notices: Notices } {
  const { object, oldObject } = request;
  const evaluate = createEvaluate(policy.variables, { ...bindings.inputs, request, object, oldObject });
  const { violations, errors } = checkRules(policy, request, bindings, evaluate, exemption);
  const notices = evaluateNotices(policy, bindings, evaluate);
  return { violations, notices: { ...notices, errors: [...errors, ...notices.errors] } };
}

const hasExpressions = ({ rules, warnings, auditAnnotations }: CompiledPolicy): boolean =>
  rules.length > 0 || warnings.length > 0 || auditAnnotations.length > 0;

const known = new WeakMap<CompiledPolicy, ClusterReads>();

function clusterReads(policy: CompiledPolicy): ClusterReads {
  const before = known.get(policy);
  if (before !== undefined) return before;
  const all: readonly (CompiledExpression | undefined)[] = [
    ...policy.rules.flatMap(({ expression, messageExpression }) => [expression, messageExpression]),
    ...policy.warnings.flatMap(({ condition, messageExpression }) => [condition, messageExpression]),
    ...policy.auditAnnotations.map(({ value }) => value),
  ];
  const reads = {
    namespaceObject: all.some((one) => one?.reads.namespaceObject === true),
    params: all.some((one) => one?.reads.params === true),
    refs: all.some((one) => one?.reads.refs === true),
  };
  known.set(policy, reads);
  return reads;
}
