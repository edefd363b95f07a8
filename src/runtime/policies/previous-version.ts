/** The version of a policy that was in force before a restart, from `status.inForce`. */
import {
  compilePolicy,
  type CompiledPolicy,
  type CompileEnvironment,
} from '../../admission/policy/compile.ts';
import type { AdmissionPolicy } from '../../api/admission-policy.ts';

export function previousOf({ metadata, status }: AdmissionPolicy): AdmissionPolicy | undefined {
  if (status?.inForce === undefined) return undefined;
  const { generation, spec } = status.inForce;
  // `compilePolicy` checks the spec.
  return { metadata: { ...metadata, generation }, spec: spec as AdmissionPolicy['spec'] };
}

/** These problems could lock out the cluster, or govern more than the policy says: such a version is not in force. */
const UNSAFE: readonly string[] = ['LockoutScope', 'Unsupported'];

/**
 * If the version does not compile any more, it is in force but undecidable: the API server may call Gatehouse for it, and
 * otherwise its webhooks would be removed.
 */
export function compilePrevious(
  previous: AdmissionPolicy,
  environment: Omit<CompileEnvironment, 'resolve'>,
  resolve: CompileEnvironment['resolve'],
): CompiledPolicy | undefined {
  const result = compilePolicy(previous, { ...environment, resolve });
  if (result.kind === 'compiled') return result.policy;
  if (UNSAFE.includes(result.reason)) return undefined;
  const isTemporary = result.reason === 'UnknownTarget';
  return { ...result.incomplete, undecidable: { message: describeProblems(result.problems), isTemporary } };
}

export const describeProblems = (
  problems: readonly { readonly where: string; readonly message: string }[],
): string => problems.map(({ where, message }) => `${where}: ${message}`).join('; ');
