import { shorten } from '../../json/printable.ts';
import { denied, FORBIDDEN, TRY_AGAIN, type Decision } from '../review/decision.ts';
import type { AdmissionRequest } from '../review/request.ts';
import type { CompiledPolicy } from './compiled-policy.ts';
import { isFinalizerRemoval } from './deletion/deletion.ts';
import { changesRead, readsCluster } from './expressions/bindings.ts';
import { LONGEST_ANNOTATION } from './findings.ts';

/** Refuses a request that would bypass a policy. A policy that only warns or audits refuses only in `mutate`. */
export function refuseUndecidable(
  phase: 'mutate' | 'validate',
  request: AdmissionRequest,
  policies: readonly CompiledPolicy[],
): Decision | undefined {
  const policy = policies.find(
    ({ undecidable, enforcement }) =>
      undecidable !== undefined && (phase === 'mutate' || enforcement === 'Deny'),
  );
  if (policy?.undecidable === undefined || isFinalizerRemoval(request)) return undefined;
  return denied(policy.undecidable.isTemporary ? TRY_AGAIN : FORBIDDEN, describe(policy));
}

const describe = ({ name, undecidable }: CompiledPolicy): string =>
  `policy ${name} is in force but cannot be evaluated: ${undecidable?.message ?? ''}`;

/** Adds to a decision about the request which policies that only warn or audit were not evaluated. */
export function withUnevaluated(decision: Decision, policies: readonly CompiledPolicy[]): Decision {
  if (decision.kind === 'retry') return decision;
  const by = (wanted: CompiledPolicy['enforcement']) =>
    policies.filter(({ undecidable, enforcement }) => undecidable !== undefined && enforcement === wanted);
  const { warnings, auditAnnotations } = decision;
  const { unchecked } = auditAnnotations;
  const unaudited = [...(unchecked === undefined ? [] : [unchecked]), ...by('Audit').map(({ name }) => name)];
  return {
    ...decision,
    warnings: [...warnings, ...by('Warn').map(describe)],
    auditAnnotations:
      unaudited.length === 0
        ? auditAnnotations
        : { ...auditAnnotations, unchecked: shorten(unaudited.join(','), LONGEST_ANNOTATION) },
  };
}

/** Gatehouse doesn't read objects outside `--namespaces`, so it cannot evaluate policies that read others there. */
export function withinNamespaces(
  phase: 'mutate' | 'validate',
  namespaces: readonly string[] | undefined,
  { namespace }: Pick<AdmissionRequest, 'namespace'>,
  policies: readonly CompiledPolicy[],
): readonly CompiledPolicy[] {
  if (namespaces === undefined || namespace === undefined || namespaces.includes(namespace)) return policies;
  const message =
    `it reads other objects, and Gatehouse does not read namespace ${namespace}: add it to --namespaces, ` +
    'or exclude it with spec.match.namespaceSelector';
  const reads = phase === 'mutate' ? changesReadObjects : readsObjects;
  return policies.map((policy) =>
    policy.undecidable === undefined && reads(policy)
      ? { ...policy, undecidable: { message, isTemporary: false } }
      : policy,
  );
}

const readsObjects = ({ targets, unique, preservesOwners }: CompiledPolicy): boolean =>
  targets.length > 0 || unique.length > 0 || preservesOwners;

const changesReadObjects = (policy: CompiledPolicy): boolean =>
  policy.preservesOwners || readsCluster(changesRead(policy));
