import type { UnresolvedReference } from './references/check-references.ts';
import { NO_NOTICES, type Notices } from './rules/rules.ts';
import type { Violation } from './violation.ts';
import type { CompiledPolicy } from './compiled-policy.ts';
import { denied, FORBIDDEN, type AuditAnnotations, type Decision } from '../review/decision.ts';
import type { Deferral } from './deferral/deferral.ts';
import { groupResourceName, objectKey } from '../../json/kube-object.ts';
import { quote, shorten } from '../../json/printable.ts';
import { describeRef } from './object-ref.ts';
import { OutOfReachError } from './world.ts';

export interface Findings {
  readonly violations: readonly Violation[];
  /** Checks of enforced policies that could not be completed, because a live read failed. */
  readonly undecided: readonly Undecided[];
  /** `undecided`, for policies that only warn or audit. */
  readonly unchecked: readonly Undecided[];
  /** Violations that are admitted, mostly because they are part of the restore in `window`. */
  readonly deferred: readonly Deferral[];
  /** Violations that an update keeps. */
  readonly existing: readonly Violation[];
  readonly window: string | undefined;
  readonly cause: unknown;
  readonly notices: Notices;
  readonly exceptions: readonly string[];
}

export const NO_FINDINGS: Findings = {
  violations: [],
  undecided: [],
  unchecked: [],
  deferred: [],
  existing: [],
  window: undefined,
  cause: undefined,
  notices: NO_NOTICES,
  exceptions: [],
};

export interface Undecided {
  readonly policy: CompiledPolicy;
  /** e.g. `could not find out whether datacenters.infra.example.com "fra1" exists, which spec.datacenter references` */
  readonly message: string;
  /** Machine-readable, e.g. `servers/datacenter=datacenters.infra.example.com/fra1`. */
  readonly auditRef: string;
}

/** Upper limit for messages: a hostile object can have thousands of violations. */
const MOST_LISTED = 16;
const LONGEST_MESSAGE = 8192;
export const LONGEST_ANNOTATION = 1024;

export function toDecision(findings: Findings): Decision {
  const { notices, unchecked, deferred, existing, window = '' } = findings;
  const by = <T extends { readonly policy: CompiledPolicy }>(
    all: readonly T[],
    enforcement: CompiledPolicy['enforcement'],
  ) => all.filter(({ policy }) => policy.enforcement === enforcement);
  const refused = by(findings.violations, 'Deny');
  const warnings = [
    ...by(findings.violations, 'Warn').map(describe),
    ...by(unchecked, 'Warn')
      .slice(0, MOST_LISTED)
      .map(({ policy, message }) => `${message} (policy ${policy.name})`),
    ...notices.warnings,
  ];
  const auditAnnotations = {
    ...notices.auditAnnotations,
    ...annotation('violations', by(findings.violations, 'Audit').map(describe), '; '),
    ...annotation('unchecked', by(unchecked, 'Audit').map(auditRef)),
    ...annotation('exceptions', findings.exceptions),
    ...annotation('expression-errors', notices.errors, '; '),
  };
  const [first] = refused;
  if (first !== undefined)
    return {
      kind: 'deny',
      ...(first.refusal ?? FORBIDDEN),
      message: listed(refused.map(describe)),
      causes: refused.slice(0, MOST_LISTED).map(toCause),
      warnings,
      auditAnnotations,
    };
  const [undecided] = findings.undecided;
  if (undecided !== undefined) return withoutAnswer(undecided, findings.cause);
  const deferrals = deferred
    .slice(0, MOST_LISTED)
    .map(({ message, again }) => `${message}; ${describeAgain(again, window)}`);
  const kept = existing
    .slice(0, MOST_LISTED)
    .map((one) => `${describe(one)}; allowed, because the update does not change what the check reads`);
  return {
    kind: 'allow',
    patch: [],
    warnings: [...warnings, ...deferrals, ...kept],
    auditAnnotations: {
      ...auditAnnotations,
      ...deferralAnnotations(findings),
      ...annotation('existing-violations', [...new Set(existing.map(checkRef))]),
    },
  };
}

function withoutAnswer({ message, policy }: Undecided, cause: unknown): Decision {
  if (cause instanceof OutOfReachError)
    return denied(FORBIDDEN, `${message}: ${cause.message} (policy ${policy.name})`);
  return { kind: 'retry', message: `${message} (policy ${policy.name}): try again`, cause };
}

export function undecidedReference(reference: UnresolvedReference): Undecided {
  const message = `could not find out whether ${describeRef(reference.target)} exists, which ${reference.field} references`;
  return { policy: reference.policy, message, auditRef: auditRefOf(reference) };
}

export function deferredReference(
  reference: UnresolvedReference,
  again: Deferral['again'] = { kind: 'restore' },
): Deferral {
  const message = `${shorten(reference.field, 256)}: ${describeRef(reference.target)} does not exist yet`;
  return { message, auditRef: auditRefOf(reference), again };
}

/** kubectl hides the causes, except of an Invalid, where it hides the message: so both are complete. */
function describe(violation: Violation): string {
  const { field, message } = toCause(violation);
  return `${field === '' ? '' : `${field}: `}${message}`;
}

function toCause({ policy, field, reason, message }: Violation) {
  return { field: shorten(field, 256), reason, message: `${message} (policy ${policy.name})` };
}

function listed(messages: readonly string[]): string {
  const more = messages.length - MOST_LISTED;
  const shown = messages.slice(0, MOST_LISTED).join('; ');
  return shorten(more > 0 ? `${shown}; and ${more} more` : shown, LONGEST_MESSAGE);
}

function describeAgain(again: Deferral['again'], window: string): string {
  switch (again.kind) {
    case 'restore':
      return `checked again after the restore (RestoreWindow ${quote(window)})`;
    case 'grace':
      return `reported if it still does not exist ${again.ms / 1_000} s after the object was created`;
    case 'never':
      return `admitted for the restore (RestoreWindow ${quote(window)}); it cannot be checked later`;
  }
}

function deferralAnnotations({ deferred, window }: Findings): AuditAnnotations {
  const { waiting = [], skipped = [] } = Object.groupBy(deferred, ({ again }) =>
    again.kind === 'never' ? 'skipped' : 'waiting',
  );
  return {
    ...annotation('deferred', waiting.map(auditRef)),
    ...annotation('skipped', skipped.map(auditRef)),
    ...(window === undefined ? {} : { 'restore-window': shorten(window, 253) }),
  };
}

function annotation(key: string, texts: readonly string[], separator = ','): AuditAnnotations {
  if (texts.length === 0) return {};
  return { [key]: shorten(texts.slice(0, 4 * MOST_LISTED).join(separator), LONGEST_ANNOTATION) };
}

const checkRef = ({ policy, check, deferrable }: Violation): string =>
  `${policy.name}/${check ?? deferrable ?? ''}`;

const auditRef = (one: { readonly auditRef: string }): string => one.auditRef;

function auditRefOf({ policy, reference, target }: UnresolvedReference): string {
  return `${policy.name}/${reference.name}=${groupResourceName(target)}/${objectKey(target)}`;
}
