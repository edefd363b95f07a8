import { denied, FORBIDDEN, TRY_AGAIN, type Decision } from '../review/decision.ts';
import type { AdmissionRequest } from '../review/request.ts';
import type { CompiledPolicy } from './compiled-policy.ts';
import { isFinalizerRemoval } from './deletion/deletion.ts';

/**
 * Refuses a request for which a policy cannot be evaluated: the API server may still call Gatehouse for it, and allowing the
 * request would bypass the policy. Policies that only warn or audit refuse nothing.
 */
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
  const { message, isTemporary } = policy.undecidable;
  return denied(
    isTemporary ? TRY_AGAIN : FORBIDDEN,
    `policy ${policy.name} is in force but cannot be evaluated: ${message}`,
  );
}

/**
 * With `--namespaces`, Gatehouse reads no objects elsewhere. So it cannot evaluate policies there that read other objects,
 * and refuses their requests. Policies that need only the request apply everywhere.
 * @param namespaces undefined: all
 */
export function withinNamespaces(
  namespaces: readonly string[] | undefined,
  { namespace }: Pick<AdmissionRequest, 'namespace'>,
  policies: readonly CompiledPolicy[],
): readonly CompiledPolicy[] {
  if (namespaces === undefined || namespace === undefined || namespaces.includes(namespace)) return policies;
  const message =
    `it reads other objects, and Gatehouse does not read namespace ${namespace}: add it to --namespaces, ` +
    'or exclude it with spec.match.namespaceSelector';
  return policies.map((policy) =>
    policy.undecidable === undefined && readsObjects(policy)
      ? { ...policy, undecidable: { message, isTemporary: false } }
      : policy,
  );
}

const readsObjects = ({ targets, unique, preservesOwners }: CompiledPolicy): boolean =>
  targets.length > 0 || unique.length > 0 || preservesOwners;
