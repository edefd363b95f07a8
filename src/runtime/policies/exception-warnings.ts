/** Tells authors of PolicyExceptions at once, in the answer to their write, why the exception exempts nothing. */
import { isDeepStrictEqual } from 'node:util';

import { grantState } from '../../admission/policy/exceptions/grants.ts';
import { ALLOWED, type Decision } from '../../admission/review/decision.ts';
import { writes, type AdmissionRequest } from '../../admission/review/request.ts';
import type { PolicyException } from '../../api/policy-exception.ts';
import type { PolicyRegistry } from './policy-registry.ts';

/** @param now by the clock of the API server */
export const createExceptionWarnings =
  (registry: Pick<PolicyRegistry, 'get'>, now: () => Date) =>
  ({ operation, object, oldObject, subResource }: AdmissionRequest): Decision => {
    if (!writes(operation) || object === undefined || subResource !== '') return ALLOWED;
    if (oldObject !== undefined && isDeepStrictEqual(object.spec, oldObject.spec)) return ALLOWED;
    // The caller has checked the object against the schema of its kind.
    const exception = object as unknown as PolicyException;
    const policy = registry.get(exception.spec.policy)?.inForce;
    const state = grantState(exception, policy, now().getTime());
    return state.kind === 'void' ? { ...ALLOWED, warnings: [`not in force: ${state.message}`] } : ALLOWED;
  };
