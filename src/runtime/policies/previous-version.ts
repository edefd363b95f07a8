/** The version of a policy that was in force before a restart, from `status.inForce`. */
import { isDeepStrictEqual } from 'node:util';

import {
  compilePolicy,
  type CompiledPolicy,
  type CompileEnvironment,
} from '../../admission/policy/compile.ts';
import { describeProblems } from '../../admission/policy/problem.ts';
import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import { groupResourceName } from '../../json/kube-object.ts';
import { resolveKinds, watchTargets, type KindsOptions } from './policy-kinds.ts';
import type { ReadRecords } from './read-records.ts';

export interface PreviousOptions extends KindsOptions {
  readonly environment: Pick<CompileEnvironment, 'ownNamespace' | 'grants'>;
  readonly records: Pick<ReadRecords, 'verdict'>;
}

/** Whether the version that the API server follows, as far as known, is another one. */
export const isReplacement = ({ spec, status }: AdmissionPolicy): boolean =>
  status?.inForce !== undefined && !isDeepStrictEqual(status.inForce.spec, spec);

function previousOf({ metadata, status }: AdmissionPolicy): AdmissionPolicy | undefined {
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
function compilePrevious(
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

/** The version with its webhooks. It reads nothing, and its requests are refused. */
function refusing(
  previous: AdmissionPolicy,
  { environment }: PreviousOptions,
  undecidable: NonNullable<CompiledPolicy['undecidable']>,
): CompiledPolicy | undefined {
  const last = compilePrevious(previous, environment, () => undefined);
  return last && { ...last, targets: [], undecidable };
}

const UNREVIEWED = {
  message:
    'whether its author may read what it reads is unknown: write the policy again as a user with these permissions',
  isTemporary: false,
};

/** A restart must not end the enforcement of a version whose successor is invalid. */
export async function lastInForce(
  policy: AdmissionPolicy,
  options: PreviousOptions,
  signal: AbortSignal,
): Promise<CompiledPolicy | undefined> {
  const previous = previousOf(policy);
  if (previous === undefined) return undefined;
  const { metadata, spec } = previous;
  // Without the record, users who may write the status could let any spec read. Its webhooks stay: without them, the
  // loss of the key would let requests bypass the policy.
  if (options.records.verdict(metadata.name ?? '', spec, policy.status?.inForce?.record) === 'unreviewed')
    return refusing(previous, options, UNREVIEWED);
  const kinds = await resolveKinds(previous, options, signal);
  const server = (await options.discovery.serverVersion(signal)).minor;
  const last = compilePrevious(previous, { ...options.environment, server }, (resource) =>
    kinds.get(groupResourceName(resource)),
  );
  // If watching is forbidden now, checks read from the API server instead, and answer `retry` when they cannot.
  if (last !== undefined) await watchTargets(last, options, signal);
  return last;
}

/** The version in force after a restart while the API server does not say what the kinds of the policy are. */
export function unresolvedInForce(
  policy: AdmissionPolicy,
  options: PreviousOptions,
  message: string,
): CompiledPolicy | undefined {
  const previous = previousOf(policy);
  return previous && refusing(previous, options, { message, isTemporary: true });
}
