import { missingTarget, type UnresolvedReference } from './references/check-references.ts';
import { wantedKeys } from './unique/check-unique.ts';
import { claimKeys, type ClaimFindings } from './unique/claim-keys.ts';
import { hasNoNotices, type Notices } from './rules/notices.ts';
import type { Violation, DeferrableCheck } from './violation.ts';
import type { CompiledPolicy } from './compiled-policy.ts';
import { ALLOWED, type Decision } from '../review/decision.ts';
import { judge, type Judgement } from './judge.ts';
import {
  createTargetConfirmer,
  type ConfirmedTargets,
  type ConfirmTargets,
} from './references/confirm-targets.ts';
import type { AdmissionRequest } from '../review/request.ts';
import {
  defers,
  deferredViolation,
  isStanding,
  isWaiting,
  waits,
  type Deferral,
  createRestoreLookup,
  knownRestore,
  type Restore,
} from './deferral/deferral.ts';
import {
  deferredReference,
  toDecision,
  undecidedReference,
  type Findings,
  type Undecided,
} from './findings.ts';
import type { AdmissionContext } from './world.ts';

/**
 * Decides whether the policies accept the request.
 *
 * A cached read may allow; only a live read, or the request itself, may deny. A policy that only warns or audits
 * neither denies a request nor makes the client retry. Synchronous if no live read is needed.
 */
export function validate(
  request: AdmissionRequest,
  policies: readonly CompiledPolicy[],
  circumstances: AdmissionContext,
): Decision | Promise<Decision> {
  const judgements = policies.map((policy) => judge(policy, request, circumstances));
  // Fast path for most requests.
  if (judgements.every((judgement) => isSilent(judgement, request))) return ALLOWED;
  return decide(request, judgements, circumstances);
}

/** Nothing to report, look up or claim. */
function isSilent(judgement: Judgement | Promise<Judgement>, request: AdmissionRequest): boolean {
  if (judgement instanceof Promise) return false;
  const { policy, exemption, violations, unseen, notices, unreadable } = judgement;
  return (
    violations.length + unseen.length + exemption.names.length === 0 &&
    unreadable === undefined &&
    hasNoNotices(notices) &&
    wantedKeys(policy, request, exemption).length === 0
  );
}

async function decide(
  request: AdmissionRequest,
  judging: readonly (Judgement | Promise<Judgement>)[],
  circumstances: AdmissionContext,
): Promise<Decision> {
  const restoring = createRestoreLookup(request, circumstances);
  const judgements = await Promise.all(judging.map(async (judgement) => await judgement));
  const unseen = judgements.flatMap((judgement) => judgement.unseen);
  const known = knownRestore(request, circumstances.world);
  const mayWait = defers(known, request.operation, 'references');
  const looked =
    unseen.length === 0 ? NOTHING_UNSEEN : await lookAll(unseen, request, circumstances, mayWait);
  const isAnyWaiting = judgements.some(({ violations }) => violations.some(isWaiting));
  const asks = isAnyWaiting || doubtful(looked.deferrable).length > 0;
  // If the known restore has saved live reads, it applies to this request even if the window closes meanwhile.
  const restore = !asks ? NO_RESTORE : mayWait ? known : await restoring();
  const findings = findingsOf(request, judgements, looked, restore);
  const decision = toDecision(findings);
  const keys = judgements.flatMap(({ policy, exemption }) => wantedKeys(policy, request, exemption));
  // Last: a denied request must not claim values.
  if (decision.kind !== 'allow' || keys.length === 0) return decision;
  return toDecision(withClaims(findings, await claimKeys(keys, request, circumstances, restoring)));
}

function findingsOf(
  { operation }: AdmissionRequest,
  judgements: readonly Judgement[],
  looked: Looked,
  restore: Restore,
): Findings {
  const found = judgements.flatMap(({ violations }) => violations);
  const waiting = found.filter(isWaiting);
  const isUnknown = restore.kind === 'unknown';
  const isDeferred = (check: DeferrableCheck) => defers(restore, operation, check);
  const strict = isUnknown || isDeferred('references') ? [looked.strict] : [looked.strict, looked.deferrable];
  const spared = waiting.filter(({ deferrable }) => deferrable !== undefined && isDeferred(deferrable));
  const doubted = isUnknown ? waiting : [];
  const references = doubtful(looked.deferrable);
  const deferred: readonly Deferral[] = [
    ...(isDeferred('references') ? references : []).map((one) => deferredReference(one)),
    ...spared.map(deferredViolation),
    ...doubtful(looked.standing).map(standingReference),
  ];
  const isPartOfRestore = deferred.some(({ again }) => again.kind !== 'grace');
  const unreadable = judgements.filter((judgement) => judgement.unreadable !== undefined);
  return {
    violations: [
      ...found.filter((one) => !spared.includes(one) && !doubted.includes(one)),
      ...[...strict, looked.lenient].flatMap(({ missing }) => missing.map(missingTarget)),
    ],
    undecided: [
      ...strict.flatMap(({ unknown }) => unknown.map(undecidedReference)),
      ...(isUnknown ? references : []).map(undecidedReference),
      ...doubted.map(undecidedViolation),
      ...unreadable.filter(({ policy }) => policy.enforcement === 'Deny').map(unreadableRules),
    ],
    unchecked: [
      ...looked.lenient.unknown.map(undecidedReference),
      ...unreadable.filter(({ policy }) => policy.enforcement !== 'Deny').map(unreadableRules),
    ],
    deferred,
    window: restore.kind === 'restoring' && isPartOfRestore ? restore.window : undefined,
    cause: looked.strict.cause ?? looked.deferrable.cause ?? causeOf(restore) ?? unreadable[0]?.unreadable,
    notices: together(judgements),
    exceptions: judgements.flatMap(({ policy, exemption }) =>
      exemption.names.map((name) => `${policy.name}/${name}`),
    ),
  };
}

/** Its target may be created later; the audit checks it after the grace period. */
function standingReference(unseen: UnresolvedReference): Deferral {
  return deferredReference(unseen, { kind: 'grace', ms: unseen.policy.initiallyDeferred?.graceMs ?? 0 });
}

function withClaims(findings: Findings, claimed: ClaimFindings): Findings {
  return {
    ...findings,
    violations: [...findings.violations, ...claimed.violations],
    undecided: [...findings.undecided, ...claimed.undecided],
    unchecked: [...findings.unchecked, ...claimed.unchecked],
    deferred: [...findings.deferred, ...claimed.deferred],
    window: findings.window ?? claimed.window,
    cause: findings.cause ?? claimed.cause,
  };
}

/** Live reads of uncached targets, by how the policy treats a missing target. */
interface Looked {
  readonly strict: ConfirmedTargets;
  readonly deferrable: ConfirmedTargets;
  /** The requester may create the object before its target. */
  readonly standing: ConfirmedTargets;
  readonly lenient: ConfirmedTargets;
}

const NOTHING: ConfirmedTargets = { missing: [], unknown: [], unread: [], cause: undefined };
const NOTHING_UNSEEN: Looked = { strict: NOTHING, deferrable: NOTHING, standing: NOTHING, lenient: NOTHING };

async function lookAll(
  unseen: readonly UnresolvedReference[],
  request: AdmissionRequest,
  { world, signal }: AdmissionContext,
  /** Whether a known restore defers references: then the sweep reads their targets. */
  mayWait: boolean,
): Promise<Looked> {
  const lookUp: ConfirmTargets = createTargetConfirmer(world, signal);
  const kindOf = ({ policy }: UnresolvedReference): keyof Looked => {
    if (policy.enforcement !== 'Deny') return 'lenient';
    if (isStanding(policy, request)) return 'standing';
    return waits(policy, 'references') ? 'deferrable' : 'strict';
  };
  const kinds = Map.groupBy(unseen, kindOf);
  const [strict, deferrable, standing, lenient] = await Promise.all([
    lookUp(kinds.get('strict') ?? []),
    mayWait ? { ...NOTHING, unread: kinds.get('deferrable') ?? [] } : lookUp(kinds.get('deferrable') ?? []),
    lookUp(kinds.get('standing') ?? []),
    lookUp(kinds.get('lenient') ?? []),
  ]);
  return { strict, deferrable, standing, lenient };
}

/** A restore would defer this violation, but whether there is one is unknown. */
function undecidedViolation({ policy, field, check, deferrable }: Violation): Undecided {
  const message = 'could not find out whether a backup is being restored';
  return { policy, message, auditRef: `${policy.name}/${check ?? deferrable ?? ''}=${field}` };
}

function unreadableRules({ policy }: Judgement): Undecided {
  const message = 'could not read what its rules need to know of the cluster';
  return { policy, message, auditRef: `${policy.name}/rules` };
}

function together(judgements: readonly Judgement[]): Notices {
  const annotations = new Map<string, string>();
  for (const { notices } of judgements) {
    for (const [key, value] of Object.entries(notices.auditAnnotations)) {
      const before = annotations.get(key);
      annotations.set(key, before === undefined ? value : `${before}, ${value}`);
    }
  }
  return {
    warnings: judgements.flatMap(({ notices }) => notices.warnings),
    auditAnnotations: Object.fromEntries(annotations),
    errors: judgements.flatMap(({ notices }) => notices.errors),
  };
}

const NO_RESTORE: Restore = { kind: 'none' };

function causeOf(restore: Restore): unknown {
  return restore.kind === 'unknown' ? restore.cause : undefined;
}

/** References whose target is not confirmed. A restore defers all of them: the sweep checks them again. */
function doubtful({ missing, unknown, unread }: ConfirmedTargets): readonly UnresolvedReference[] {
  return [...missing, ...unknown, ...unread];
}
