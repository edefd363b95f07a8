import { checkImmutable } from './checks/immutable.ts';
import { checkReferences, missingTarget, type UnseenReference } from './checks/references.ts';
import type { Violation } from './checks/violation.ts';
import type { CompiledPolicy } from './compiled-policy.ts';
import type { Decision } from './decision.ts';
import { createLiveLookup, type Confirmed } from './live-lookup.ts';
import type { AdmissionRequest } from './request.ts';
import { toDecision } from './verdict.ts';
import type { World } from './world.ts';

/**
 * Whether the policies accept the request.
 *
 * What the store holds may allow; only a live read, or the request itself, may deny. A policy that only warns or audits never
 * denies, nor has anyone wait for an API server that does not answer.
 *
 * @param signal ends the live reads when the time to answer is over; what they have not said by then is a retry.
 */
export async function validate(
  request: AdmissionRequest,
  policies: readonly CompiledPolicy[],
  world: World,
  signal: AbortSignal,
): Promise<Decision> {
  const findings = policies.map((policy) => check(policy, request, world));
  const violations = findings.flatMap((finding) => finding.violations);
  const unseen = findings.flatMap((finding) => finding.unseen);

  const lookUp = createLiveLookup(world, signal);
  const [strict, deferrable, lenient] = await Promise.all([
    lookUp(unseen.filter(({ policy }) => policy.enforcement === 'Deny' && !policy.deferReferences)),
    lookUp(unseen.filter(({ policy }) => policy.enforcement === 'Deny' && policy.deferReferences)),
    lookUp(unseen.filter(({ policy }) => policy.enforcement !== 'Deny')),
  ]);
  const restore = await restoreOf(request, deferrable, world, signal);
  const enforced = restore.kind === 'none' ? [strict, deferrable] : [strict];
  return toDecision({
    violations: [
      ...violations,
      ...[...enforced, lenient].flatMap(({ missing }) => missing.map(missingTarget)),
    ],
    undecided: [
      ...enforced.flatMap(({ unknown }) => unknown),
      ...(restore.kind === 'unknown' ? doubtful(deferrable) : []),
    ],
    unchecked: lenient.unknown,
    deferred: restore.kind === 'restoring' ? doubtful(deferrable) : [],
    window: restore.kind === 'restoring' ? restore.window : undefined,
    cause: strict.cause ?? deferrable.cause ?? (restore.kind === 'unknown' ? restore.cause : undefined),
  });
}

interface Findings {
  readonly violations: readonly Violation[];
  readonly unseen: readonly UnseenReference[];
}

/** The checks of a policy, in the order in which their messages appear. */
function check(policy: CompiledPolicy, request: AdmissionRequest, { find }: World): Findings {
  const immutable = checkImmutable(policy, request);
  const references = checkReferences(policy, request, find);
  return { violations: [...immutable, ...references.violations], unseen: references.unseen };
}

type Restore =
  | { readonly kind: 'none' }
  | { readonly kind: 'restoring'; readonly window: string }
  | { readonly kind: 'unknown'; readonly cause: unknown };

/** Whether the user is restoring a backup; asked only when something depends on it. */
async function restoreOf(
  { userInfo }: AdmissionRequest,
  deferrable: Confirmed,
  { restoreEvidence }: World,
  signal: AbortSignal,
): Promise<Restore> {
  if (doubtful(deferrable).length === 0) return { kind: 'none' };
  try {
    const evidence = await restoreEvidence(userInfo, signal);
    return evidence === undefined ? { kind: 'none' } : { kind: 'restoring', window: evidence.window };
  } catch (cause) {
    return { kind: 'unknown', cause };
  }
}

/** References that no read has vouched for. A restore defers all of them: the sweep after it looks at them again. */
function doubtful({ missing, unknown, unread }: Confirmed): readonly UnseenReference[] {
  return [...missing, ...unknown, ...unread];
}
