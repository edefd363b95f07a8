import { describeTarget, type UnseenReference } from './checks/references.ts';
import type { Violation } from './checks/violation.ts';
import type { AuditAnnotations, Cause, Decision } from './decision.ts';
import { groupResourceName } from '../api/meta.ts';
import { quote, shorten } from './shown.ts';

/** Everything that the checks of all policies have found out about one request. */
export interface Findings {
  readonly violations: readonly Violation[];
  /** References of enforced policies about which the cluster could not be asked. */
  readonly undecided: readonly UnseenReference[];
  /** The same of policies that only warn or audit. */
  readonly unchecked: readonly UnseenReference[];
  /** References left to the sweep after the restore in `window`. */
  readonly deferred: readonly UnseenReference[];
  readonly window: string | undefined;
  /** Why something is undecided, for the log. */
  readonly cause: unknown;
}

/** What a message lists; a hostile object can have thousands of violations. */
const MOST_LISTED = 16;
const LONGEST_MESSAGE = 8192;
const LONGEST_ANNOTATION = 1024;
/** Live reads fail for moments: an API server that restarts, a leader election. */
const RETRY_SECONDS = 1;

/**
 * 403 Forbidden, as from any other admission control. Not 422 Invalid: `kubectl apply --force` and other tools take that for a field
 * that cannot be updated, delete the object and create it anew – which this very policy would then refuse.
 */
const REFUSAL = { code: 403, reason: 'Forbidden' } as const;

export function toDecision(findings: Findings): Decision {
  const by = (enforcement: Violation['policy']['enforcement']) =>
    findings.violations.filter(({ policy }) => policy.enforcement === enforcement);
  const denied = by('Deny');
  const warnings = [...by('Warn').map(describe), ...uncheckedWarnings(findings)];
  const auditAnnotations = auditOf(by('Audit'), findings);
  if (denied.length > 0) {
    return {
      kind: 'deny',
      ...REFUSAL,
      message: listed(denied.map(describe)),
      causes: denied.slice(0, MOST_LISTED).map(toCause),
      warnings,
      auditAnnotations,
    };
  }
  const [undecided] = findings.undecided;
  if (undecided !== undefined) {
    const message = `could not find out whether ${describeTarget(undecided.target)} exists, which ${undecided.field} names (policy ${undecided.policy.name}): try again`;
    return { kind: 'retry', message, afterSeconds: RETRY_SECONDS, cause: findings.cause };
  }
  return {
    kind: 'allow',
    patch: [],
    warnings: [...warnings, ...deferredWarnings(findings)],
    auditAnnotations: { ...auditAnnotations, ...deferralOf(findings) },
  };
}

/** Users see no causes: the message has to say it all. */
function describe({ policy, field, message }: Violation): string {
  return `${shorten(field, 256)}: ${message} (policy ${policy.name})`;
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
    .map(
      ({ policy, field, target }) =>
        `${shorten(field, 256)}: could not find out whether ${describeTarget(target)} exists (policy ${policy.name})`,
    );
}

function deferredWarnings({ deferred, window = '' }: Findings): readonly string[] {
  return deferred
    .slice(0, MOST_LISTED)
    .map(
      ({ field, target }) =>
        `${shorten(field, 256)}: ${describeTarget(target)} is not there yet; checked again after the restore (RestoreWindow ${quote(window)})`,
    );
}

function auditOf(audited: readonly Violation[], findings: Findings): AuditAnnotations {
  const unchecked = findings.unchecked.filter(({ policy }) => policy.enforcement === 'Audit');
  return {
    ...(audited.length > 0 ? { violations: annotation(audited.map(describe), '; ') } : {}),
    ...(unchecked.length > 0 ? { unchecked: annotation(unchecked.map(spell), ',') } : {}),
  };
}

function deferralOf({ deferred, window }: Findings): AuditAnnotations {
  if (window === undefined) return {};
  return { deferred: annotation(deferred.map(spell), ','), 'restore-window': shorten(window, 253) };
}

function annotation(texts: readonly string[], separator: string): string {
  return shorten(texts.slice(0, 4 * MOST_LISTED).join(separator), LONGEST_ANNOTATION);
}

/** e.g. `servers/datacenter=datacenters.infra.example.com/fra1` */
function spell({ policy, reference, target }: UnseenReference): string {
  const place = target.namespace === undefined ? target.name : `${target.namespace}/${target.name}`;
  return `${policy.name}/${reference.name}=${groupResourceName(target)}/${place}`;
}
