/** Tells policy authors at once, in the answer to their write, why the policy would not be enforced. */
import { isDeepStrictEqual } from 'node:util';

import { controlPlaneWrites } from '../../admission/policy/match/control-plane-writes.ts';
import { describeProblem, describeProblems } from '../../admission/policy/problem.ts';
import { ALLOWED, denied, FORBIDDEN, type Decision } from '../../admission/review/decision.ts';
import { writes, type AdmissionRequest } from '../../admission/review/request.ts';
import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import { orAborted } from '../../json/abort.ts';
import type { Log } from '../../log.ts';
import { compileLive, type CompileOptions } from './policy-kinds.ts';

/** In milliseconds. The write waits for the check, and the API server waits 5 s. */
const LONGEST_MS = 2_000;
const MOST_WARNINGS = 8;

export interface PolicyWarningsOptions extends CompileOptions {
  /** Whether to refuse policies that cannot be enforced as they are, instead of warnings. */
  readonly strict: boolean;
  readonly log: Pick<Log, 'warn'>;
}

/**
 * Never fails and never waits for long: the status of the policy tells the same later. A policy that waits for a kind is
 * not refused, because it applies once the kind is served.
 */
export function createPolicyWarnings(options: PolicyWarningsOptions) {
  const judge = async (policy: AdmissionPolicy, signal: AbortSignal): Promise<Decision> => {
    const { result, unserved } = await compileLive(policy, options, signal);
    const problems = result.kind === 'rejected' ? result.problems : [];
    const isTemporary = result.kind === 'rejected' && result.reason === 'UnknownTarget';
    if (options.strict && problems.length > 0 && !isTemporary)
      return denied(
        FORBIDDEN,
        `the policy could not be enforced: ${describeProblems(problems)}`,
        problems.map((problem) => ({
          field: problem.where,
          reason: 'FieldValueInvalid',
          message: problem.message,
        })),
      );
    const all = [
      ...(unserved === undefined ? [] : [{ where: 'spec.match', message: unserved.message }]),
      ...problems,
    ];
    const shown = all.slice(0, MOST_WARNINGS).map((problem) => `not enforced: ${describeProblem(problem)}`);
    const more = all.length - shown.length;
    const careful = result.kind === 'rejected' ? [] : controlPlaneWrites(result.policy);
    return {
      ...ALLOWED,
      warnings: [
        ...shown,
        ...(more > 0 ? [`not enforced: ${more} more problems; see status.conditions`] : []),
        ...careful.slice(0, MOST_WARNINGS),
      ],
    };
  };

  return async (
    { operation, object, oldObject, subResource, name }: AdmissionRequest,
    signal: AbortSignal,
  ): Promise<Decision> => {
    if (!writes(operation) || object === undefined || subResource !== '') return ALLOWED;
    // Controllers must be able to label a policy and to remove its finalizers, whatever it says.
    if (oldObject !== undefined && isDeepStrictEqual(object.spec, oldObject.spec)) return ALLOWED;
    const within = AbortSignal.any([signal, AbortSignal.timeout(LONGEST_MS)]);
    try {
      // The caller has checked the object against the schema of its kind.
      return await orAborted(judge(object as unknown as AdmissionPolicy, within), within);
    } catch (err) {
      options.log.warn({ policy: name, err }, 'could not check a policy while it was written');
      return { ...ALLOWED, warnings: ['the policy could not be checked in time: see its status.conditions'] };
    }
  };
}
