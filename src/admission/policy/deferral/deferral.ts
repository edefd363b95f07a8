/** Which checks a restore defers, and what Gatehouse reports about them. */
import { isPrincipal, principalProblems } from '../../../api/principals.ts';
import type { Violation, DeferrableCheck } from '../violation.ts';
import type { CompiledPolicy } from '../compiled-policy.ts';
import type { AdmissionRequest, Operation } from '../../review/request.ts';
import { isAboutState } from '../rules/rules.ts';
import { shorten } from '../../../json/printable.ts';
import type { AdmissionPolicySpec } from '../../../api/admission-policy.ts';
import { parseDuration } from '../../../api/duration.ts';
import type { Report } from '../problem.ts';
import { compileUids } from '../references/named-uids.ts';
import type { AdmissionContext, RestoreEvidence, RestoreQuery, RestoringWindow } from '../world.ts';

export interface Deferral {
  /** e.g. `spec.datacenter: datacenters.infra.example.com "fra1" does not exist yet` */
  readonly message: string;
  /** Machine-readable, e.g. `servers/datacenter=datacenters.infra.example.com/fra1`. */
  readonly auditRef: string;
  /** When Gatehouse checks again. `grace`: this long after the object was created. */
  readonly again: { readonly kind: 'restore' | 'never' } | { readonly kind: 'grace'; readonly ms: number };
}

/** Only policies that deny requests defer checks. */
export function mayDefer({ enforcement, restore }: CompiledPolicy, check: DeferrableCheck): boolean {
  if (enforcement !== 'Deny') return false;
  return check === 'immutable' ? restore.skipsImmutable : restore.defers[check];
}

export function windowsFor(restore: Restore, operation: Operation): readonly RestoringWindow[] {
  return restore.kind === 'restoring'
    ? restore.windows.filter(({ operations }) => operations.includes(operation))
    : [];
}

/** Undefined if all windows enforce it. @param ofCluster only a cluster-wide window defers it */
export function deferringWindow(
  restore: Restore,
  operation: Operation,
  check: DeferrableCheck,
  ofCluster = check === 'immutable',
): string | undefined {
  const isEnforced = ({ enforced, clusterWide }: RestoringWindow) =>
    (ofCluster && !clusterWide) ||
    ((check === 'references' || check === 'unique') && enforced.includes(check));
  return windowsFor(restore, operation).find((one) => !isEnforced(one))?.window;
}

/** Whether a sweep after a restore finds everything that this policy would have refused in such a request. */
export function canDeferAll(policy: CompiledPolicy, operation: Operation): boolean {
  const { mutations, restore, references, unique, schema, rules, immutable, enforcement } = policy;
  if (policy.undecidable !== undefined) return false;
  if (mutations.length > 0 && !restore.skipsMutations) return false;
  if (enforcement !== 'Deny') return true;
  const { defers } = restore;
  return (
    (immutable.length === 0 || operation !== 'UPDATE') &&
    (references.length === 0 || defers.references) &&
    (unique.length === 0 || defers.unique) &&
    (schema === undefined || defers.schema) &&
    rules.every((rule) => defers.rules && isAboutState(rule))
  );
}

export function defers(restore: Restore, operation: Operation, check: DeferrableCheck): boolean {
  return deferringWindow(restore, operation, check) !== undefined;
}

/** Whether the requester may create objects before their targets, even outside a restore. */
export function isInitiallyDeferred(
  { enforcement, initiallyDeferred }: CompiledPolicy,
  { userInfo }: Pick<AdmissionRequest, 'userInfo'>,
): boolean {
  return (
    enforcement === 'Deny' &&
    initiallyDeferred !== undefined &&
    isPrincipal(initiallyDeferred.principals, userInfo)
  );
}

/** A rule follows the references whose targets it misses, even those that an update does not change. */
export const followsReferences = ({ deferrable, awaits = [] }: Violation): boolean =>
  deferrable === 'rules' && awaits.length > 0;

/** The checks that defer the violation if a window defers one of them. */
export function deferrableAs(violation: Violation): readonly DeferrableCheck[] {
  const { policy, deferrable } = violation;
  if (deferrable === undefined) return [];
  const checks: readonly DeferrableCheck[] = followsReferences(violation)
    ? [deferrable, 'references']
    : [deferrable];
  return checks.filter((check) => mayDefer(policy, check));
}

export function deferredViolation(
  { policy, field, message, check, deferrable }: Violation,
  again: Deferral['again'] = { kind: deferrable === 'immutable' ? 'never' : 'restore' },
): Deferral {
  return {
    message: `${field === '' ? '' : `${shorten(field, 256)}: `}${message}`,
    auditRef: `${policy.name}/${check ?? deferrable ?? ''}=${field}`,
    again,
  };
}

export function compileRestore(
  spec: AdmissionPolicySpec,
  report: Report,
): Pick<CompiledPolicy, 'restore' | 'initiallyDeferred'> {
  const { restore = {}, initiallyDeferred, audit } = spec;
  if (initiallyDeferred !== undefined && audit === false)
    report('spec.audit', 'the audit checks deferred references: leave it on');
  const { references, unique, schema, rules, onTargetDelete, immutable, mutations } = restore;
  return {
    restore: {
      defers: {
        references: references !== 'Enforce',
        unique: unique !== 'Enforce',
        schema: schema === 'Defer',
        rules: rules === 'Defer',
      },
      // A policy that enforces references during a restore also protects their targets.
      defersTargetDelete:
        onTargetDelete === undefined && references !== 'Enforce' ? undefined : onTargetDelete === 'Defer',
      skipsImmutable: immutable === 'Skip',
      skipsMutations: mutations !== 'Apply',
      uids: compileUids(spec, report),
    },
    initiallyDeferred: initiallyDeferred && compileInitialDeferral(initiallyDeferred, report),
  };
}

function compileInitialDeferral(
  { principals, grace = '5m' }: NonNullable<AdmissionPolicySpec['initiallyDeferred']>,
  report: Report,
): CompiledPolicy['initiallyDeferred'] {
  for (const problem of principalProblems(principals, 'spec.initiallyDeferred.principals')) {
    const [where = '', ...message] = problem.split(': ');
    report(where, message.join(': '));
  }
  const graceMs = parseDuration(grace);
  if (graceMs === undefined)
    report('spec.initiallyDeferred.grace', `"${grace}" is not a duration such as 5m or 1h30m`);
  return { principals, graceMs: graceMs ?? 0 };
}

export type Restore =
  | { readonly kind: 'none' }
  | ({ readonly kind: 'restoring' } & RestoreEvidence)
  | { readonly kind: 'unknown'; readonly cause: unknown };

/** Looks up whether the requester restores: at most once, and only if the decision depends on it. */
export type RestoreLookup = () => Promise<Restore>;

const toRestore = (evidence: RestoreEvidence | undefined): Restore =>
  evidence === undefined ? { kind: 'none' } : { kind: 'restoring', ...evidence };

/** The restore that the stores know of; no live read. */
export const knownRestore = (request: RestoreQuery, world: AdmissionContext['world']): Restore =>
  toRestore(world.knownRestore(request));

export function createRestoreLookup(
  request: RestoreQuery,
  { world, signal }: Pick<AdmissionContext, 'world' | 'signal'>,
): RestoreLookup {
  let lookup: Promise<Restore> | undefined;
  const unknown = (cause: unknown): Restore => ({ kind: 'unknown', cause });
  const ask = async () => toRestore(await world.restoreEvidence(request, signal));
  return () => (lookup ??= ask().catch(unknown));
}
