import type { UnresolvedReference } from './references/check-references.ts';
import type { Notices } from './rules/notices.ts';
import type { Violation } from './violation.ts';
import type { CompiledPolicy } from './compiled-policy.ts';
import type { AuditAnnotations, Cause, Decision } from '../review/decision.ts';
import type { Deferral } from './deferral/deferral.ts';
import { groupResourceName } from '../../json/kube-object.ts';
import { quote, shorten } from '../../json/printable.ts';
import { describeRef } from './object-ref.ts';

/** The results of all checks of all policies for one request. */
export interface Findings {
  readonly violations: readonly Violation[];
  /** Checks of enforced policies that could not be completed, because a live read failed. */
  readonly undecided: readonly Undecided[];
  /** The same for policies that only warn or audit. */
  readonly unchecked: readonly Undecided[];
  /** Violations that are admitted, mostly because they are part of the restore in `window`. */
  readonly deferred: readonly Deferral[];
  readonly window: string | undefined;
  /** Why something is undecided, for the log. */
  readonly cause: unknown;
  readonly notices: Notices;
  /** The exceptions that applied, as `policy/exception`. */
  readonly exceptions: readonly string[];
}

/** A check that could not be completed. */
export interface Undecided {
  readonly policy: CompiledPolicy;
  /** e.g. `could not find out whether datacenters.infra.example.com "fra1" exists, which spec.datacenter names` */
  readonly message: string;
  /** Machine-readable, e.g. `servers/datacenter=datacenters.infra.example.com/fra1`. */
  readonly auditRef: string;
}

/** Upper limit for messages: a hostile object can have thousands of violations. */
const MOST_LISTED = 16;
const LONGEST_MESSAGE = 8192;
const LONGEST_ANNOTATION = 1024;
/** Failures of live reads are short: an API server restarts, or etcd elects a leader. */
const RETRY_SECONDS = 1;

/**
 * 403 Forbidden, as in other admission controllers. Not 422 Invalid: `kubectl apply --force` and other tools then
 * assume that a field cannot be updated. They delete the object and create it again, and this policy would reject the
 * creation.
 */
const REFUSAL = { code: 403, reason: 'Forbidden' } as const;

export function toDecision(findings: Findings): Decision {
  const { notices } = findings;
  const by = (enforcement: Violation['policy']['enforcement']) =>
    findings.violations.filter(({ policy }) => policy.enforcement === enforcement);
  const denied = by('Deny');
  const warnings = [...by('Warn').map(describe), ...uncheckedWarnings(findings), ...notices.warnings];
  const auditAnnotations = { ...notices.auditAnnotations, ...auditOf(by('Audit'), findings) };
  const [first] = denied;
  if (first !== undefined) {
    return {
      kind: 'deny',
      ...(first.refusal ?? REFUSAL),
      message: listed(denied.map(describe)),
      causes: denied.slice(0, MOST_LISTED).map(toCause),
      warnings,
      auditAnnotations,
    };
  }
  const [undecided] = findings.undecided;
  if (undecided !== undefined) {
    const message = `${undecided.message} (policy ${undecided.policy.name}): try again`;
    return { kind: 'retry', message, afterSeconds: RETRY_SECONDS, cause: findings.cause };
  }
  return {
    kind: 'allow',
    patch: [],
    warnings: [...warnings, ...deferredWarnings(findings)],
    auditAnnotations: { ...auditAnnotations, ...deferralOf(findings) },
  };
}

/** A reference whose target could not be read. */
export function undecidedReference(unseen: UnresolvedReference): Undecided {
  const message = `could not find out whether ${describeRef(unseen.target)} exists, which ${unseen.field} names`;
  return { policy: unseen.policy, message, auditRef: spell(unseen) };
}

/** A reference whose target may be created later in the restore. */
export function deferredReference(
  unseen: UnresolvedReference,
  again: Deferral['again'] = { kind: 'restore' },
): Deferral {
  const message = `${shorten(unseen.field, 256)}: ${describeRef(unseen.target)} is not there yet`;
  return { message, auditRef: spell(unseen), again };
}

/** Users do not see causes, so the message contains the field, the problem and the policy. */
function describe({ policy, field, message }: Violation): string {
  return `${field === '' ? '' : `${shorten(field, 256)}: `}${message} (policy ${policy.name})`;
}

function toCause({ field, reason, message }: Violation): Cause {
  return { field: shorten(field, 256), reason, message };
}

function listed(messages: readonly string[]): string {
  const more = messages.length - MOST_LISTED;
  const shown = messages.slice(0, MOST_LISTED).join('; ');
  return shorten(more > 0 ? `${shown}; and ${more} more` : shown, LONGEST_MESSAGE);
}

function uncheckedWarnings({ unchecked }: Findings): readonly string[] {
  return unchecked
    .filter(({ policy }) => policy.enforcement === 'Warn')
    .slice(0, MOST_LISTED)
    .map(({ policy, message }) => `${message} (policy ${policy.name})`);
}

function deferredWarnings({ deferred, window = '' }: Findings): readonly string[] {
  return deferred
    .slice(0, MOST_LISTED)
    .map(({ message, again }) => `${message}; ${describeAgain(again, window)}`);
}

function describeAgain(again: Deferral['again'], window: string): string {
  switch (again.kind) {
    case 'restore':
      return `checked again after the restore (RestoreWindow ${quote(window)})`;
    case 'grace':
      return `reported if that is still so ${again.ms / 1_000} s after it was created`;
    case 'never':
      return `let through for the restore (RestoreWindow ${quote(window)}); it cannot be checked later`;
  }
}

function auditOf(audited: readonly Violation[], findings: Findings): AuditAnnotations {
  const unchecked = findings.unchecked.filter(({ policy }) => policy.enforcement === 'Audit');
  return {
    ...(audited.length > 0 ? { violations: annotation(audited.map(describe), '; ') } : {}),
    ...(unchecked.length > 0
      ? {
          unchecked: annotation(
            unchecked.map(({ auditRef }) => auditRef),
            ',',
          ),
        }
      : {}),
    ...(findings.exceptions.length > 0 ? { exceptions: annotation(findings.exceptions, ',') } : {}),
    ...(findings.notices.errors.length > 0
      ? { 'expression-errors': annotation(findings.notices.errors, '; ') }
      : {}),
  };
}

function deferralOf({ deferred, window }: Findings): AuditAnnotations {
  const auditRef = (later: boolean) =>
    deferred.filter(({ again }) => (again.kind !== 'never') === later).map((each) => each.auditRef);
  const [waiting, skipped] = [auditRef(true), auditRef(false)];
  return {
    ...(waiting.length > 0 ? { deferred: annotation(waiting, ',') } : {}),
    ...(skipped.length > 0 ? { skipped: annotation(skipped, ',') } : {}),
    ...(window === undefined ? {} : { 'restore-window': shorten(window, 253) }),
  };
}

function annotation(texts: readonly string[], separator: string): string {
  return shorten(texts.slice(0, 4 * MOST_LISTED).join(separator), LONGEST_ANNOTATION);
}

/** e.g. `servers/datacenter=datacenters.infra.example.com/fra1` */
function spell({ policy, reference, target }: UnresolvedReference): string {
  const place = target.namespace === undefined ? target.name : `${target.namespace}/${target.name}`;
  return `${policy.name}/${reference.name}=${groupResourceName(target)}/${place}`;
}
