import {
  type ConfirmedTargets,
  createTargetConfirmer,
  guardedReferences,
  missingTarget,
  type UnresolvedReference,
} from './references/check-references.ts';
import { guardReferences } from './references/guard-references.ts';
import { wantedKeys } from './unique/check-unique.ts';
import { claimKeys } from './unique/claim-keys.ts';
import { hasNoNotices, type Notices, withoutAwaiting } from './rules/rules.ts';
import type { DeferrableCheck, Violation } from './violation.ts';
import type { CompiledPolicy } from './compiled-policy.ts';
import { ALLOWED, type Decision } from '../review/decision.ts';
import type { JudgeContext, Judgement } from './judge.ts';
import { createCelBudget } from '../../cel/values/values.ts';
import { createAuthorizations } from './expressions/authorizations.ts';
import { checksRead } from './expressions/bindings.ts';
import { judgeChange } from './deletion/deletion.ts';
import type { AdmissionRequest } from '../review/request.ts';
import {
  createRestoreLookup,
  deferrableAs,
  deferredViolation,
  deferringWindow,
  defers,
  followsReferences,
  isInitiallyDeferred,
  knownRestore,
  mayDefer,
  type Restore,
} from './deferral/deferral.ts';
import {
  deferredReference,
  type Findings,
  NO_FINDINGS,
  toDecision,
  type Undecided,
  undecidedReference,
} from './findings.ts';
import type { AdmissionContext } from './world.ts';
import { deletionEntriesOf, isDeletionEntry } from '../webhooks/protect-own-kinds.ts';
import { hasWildcard, patternsFor } from './match/resource-pattern.ts';

/** A cached read may allow; only a live read may deny. Synchronous if no live read is needed and no other review waits. */
export function validate(
  request: AdmissionRequest,
  policies: readonly CompiledPolicy[],
  context: AdmissionContext,
): Decision | Promise<Decision> {
  const judgements: (Judgement | Promise<Judgement>)[] = [];
  const { access } = context.world;
  const asks = access !== undefined && policies.some((policy) => checksRead(policy).authorizer);
  const newContext = (): JudgeContext => ({
    ...context,
    budget: createCelBudget(),
    authorizations: asks ? createAuthorizations(request.userInfo, access) : undefined,
  });
  // A policy that only warns must not use up the budget of one that denies.
  const [enforcing, lenient] = [newContext(), newContext()];
  const conclude = (hasTurn: boolean): Decision | Promise<Decision> => {
    for (const [index, policy] of policies.slice(judgements.length).entries()) {
      const turn = hasTurn && index === 0 ? undefined : context.turns?.next();
      if (turn !== undefined) {
        void Promise.allSettled(judgements.map(async (one) => await one)); // handled later
        return turn.then(() => conclude(true));
      }
      const judging = policy.enforcement === 'Deny' ? enforcing : lenient;
      judgements.push(judgeChange(policy, request, judging));
    }
    // Fast path for most requests.
    if (judgements.every((judgement) => isSilent(judgement, request))) return ALLOWED;
    return decide(request, judgements, context);
  };
  return conclude(false);
}

/** Nothing to report, look up or claim. */
function isSilent(judgement: Judgement | Promise<Judgement>, request: AdmissionRequest): boolean {
  if (judgement instanceof Promise) return false;
  const { policy, exemption, violations, existing, unresolved, notices, unreadable } = judgement;
  return (
    violations.length + existing.length + unresolved.length + exemption.names.length === 0 &&
    unreadable === undefined &&
    hasNoNotices(notices) &&
    wantedKeys(policy, request, exemption).length === 0 &&
    guardedReferences(policy, request, exemption).length === 0
  );
}

async function decide(
  request: AdmissionRequest,
  judging: readonly (Judgement | Promise<Judgement>)[],
  context: AdmissionContext,
): Promise<Decision> {
  const restoring = createRestoreLookup(request, context);
  const judgements = await Promise.all(judging.map(async (judgement) => await judgement));
  const unresolved = judgements.flatMap((judgement) => judgement.unresolved);
  const known = knownRestore(request, context.world);
  const isKnown = defers(known, request.operation, 'references');
  const targets = await confirmTargets(unresolved, request, context, isKnown);
  const isAnyDeferrable = judgements.some(({ violations }) =>
    violations.some((one) => deferrableAs(one).length > 0),
  );
  const dependsOnRestore = isAnyDeferrable || unconfirmed(targets.deferrable).length > 0;
  // A known restore that has saved live reads applies even if the window closes during this request.
  const restore: Restore = !dependsOnRestore ? { kind: 'none' } : isKnown ? known : await restoring();
  const findings = findingsOf(request, judgements, targets, restore);
  const decision = toDecision(findings);
  const keys = judgements.flatMap(({ policy, exemption }) => wantedKeys(policy, request, exemption));
  // Last: a denied request must not claim values.
  if (decision.kind !== 'allow') return decision;
  const claimed = keys.length === 0 ? NO_FINDINGS : await claimKeys(keys, request, context, restoring);
  const references = judgements.flatMap(({ policy, exemption }) =>
    guardedReferences(policy, request, exemption),
  );
  const together = claimed === NO_FINDINGS ? decision : toDecision(merged(findings, claimed));
  // After the claims: the intent of a refused request would delay deletions of its targets.
  if (together.kind !== 'allow' || references.length === 0) return together;
  const guarded = await guardReferences(references, request, context, restoring);
  return toDecision(merged(merged(findings, claimed), guarded));
}

const merged = (findings: Findings, later: Findings): Findings => ({
  ...findings,
  violations: [...findings.violations, ...later.violations],
  undecided: [...findings.undecided, ...later.undecided],
  unchecked: [...findings.unchecked, ...later.unchecked],
  deferred: [...findings.deferred, ...later.deferred],
  window: findings.window ?? later.window,
  cause: findings.cause ?? later.cause,
});

function findingsOf(
  request: AdmissionRequest,
  judgements: readonly Judgement[],
  targets: TargetsByTreatment,
  restore: Restore,
): Findings {
  const { operation } = request;
  const all = withoutAwaiting(
    judgements.flatMap(({ violations }) => violations),
    [targets.strict, targets.lenient].flatMap(unconfirmed),
    [targets.deferrable, targets.initiallyDeferred].flatMap(unconfirmed),
  );
  const isUnknown = restore.kind === 'unknown';
  const isDeferred = (check: DeferrableCheck) => defers(restore, operation, check);
  const strict =
    isUnknown || isDeferred('references') ? [targets.strict] : [targets.strict, targets.deferrable];
  const { later = [], found = [] } = Object.groupBy(all, (one) =>
    followsReferences(one) && isInitiallyDeferred(one.policy, request) ? 'later' : 'found',
  );
  const deferrable = found.filter((one) => deferrableAs(one).length > 0);
  const admitted = deferrable.filter((one) => deferrableAs(one).some(isDeferred));
  const uncertain = isUnknown ? deferrable : [];
  const references = unconfirmed(targets.deferrable);
  const deferred = [
    ...(isDeferred('references') ? references : []).map((one) => deferredReference(one)),
    ...admitted.map((one) => deferredViolation(one)),
    // The target may be created later; the audit checks it after the grace period.
    ...unconfirmed(targets.initiallyDeferred).map((one) => deferredReference(one, afterGrace(one))),
    ...later.map((one) => deferredViolation(one, afterGrace(one))),
  ];
  // A window that defers references defers every other check, except perhaps unique values, which come later.
  const first =
    references.length > 0 && isDeferred('references')
      ? 'references'
      : admitted.flatMap(deferrableAs).find(isDeferred);
  const unreadable = judgements.filter((judgement) => judgement.unreadable !== undefined);
  const unread = Map.groupBy(unreadable, ({ policy }) => policy.enforcement === 'Deny');
  return {
    violations: [
      ...found.filter((one) => !admitted.includes(one) && !uncertain.includes(one)),
      ...[...strict, targets.lenient].flatMap(({ missing }) => missing.map(missingTarget)),
    ],
    undecided: [
      ...strict.flatMap(({ unknown }) => unknown.map(undecidedReference)),
      ...(isUnknown ? references : []).map(undecidedReference),
      ...uncertain.map(undecidedViolation),
      ...(unread.get(true) ?? []).map(unreadableRules),
    ],
    unchecked: [
      ...targets.lenient.unknown.map(undecidedReference),
      ...(unread.get(false) ?? []).map(unreadableRules),
    ],
    deferred,
    existing: judgements.flatMap((judgement) => judgement.existing),
    window: first && deferringWindow(restore, operation, first),
    cause:
      targets.strict.cause ??
      targets.deferrable.cause ??
      (isUnknown ? restore.cause : undefined) ??
      unreadable[0]?.unreadable,
    notices: mergeNotices(judgements),
    exceptions: judgements.flatMap(({ policy, exemption }) =>
      exemption.names.map((name) => `${policy.name}/${name}`),
    ),
  };
}

const afterGrace = ({ policy }: { readonly policy: CompiledPolicy }) =>
  ({ kind: 'grace', ms: policy.initiallyDeferred?.graceMs ?? 0 }) as const;

/** How a policy treats a missing target. */
type Treatment = 'strict' | 'deferrable' | 'initiallyDeferred' | 'lenient';
type TargetsByTreatment = Readonly<Record<Treatment, ConfirmedTargets>>;

const NO_TARGETS: ConfirmedTargets = { missing: [], unknown: [], unread: [], cause: undefined };

/** @param isKnown whether a known restore defers references: then the sweep reads their targets */
async function confirmTargets(
  unresolved: readonly UnresolvedReference[],
  request: AdmissionRequest,
  { world, signal }: AdmissionContext,
  isKnown: boolean,
): Promise<TargetsByTreatment> {
  const confirm = createTargetConfirmer(world, signal);
  const treatmentOf = ({ policy }: UnresolvedReference): Treatment => {
    if (policy.enforcement !== 'Deny') return 'lenient';
    if (isInitiallyDeferred(policy, request)) return 'initiallyDeferred';
    return mayDefer(policy, 'references') ? 'deferrable' : 'strict';
  };
  const groups = Object.groupBy(unresolved, treatmentOf);
  const confirmAll = async (treatment: Treatment): Promise<ConfirmedTargets> => {
    const group = groups[treatment] ?? [];
    if (group.length === 0) return NO_TARGETS;
    return isKnown && treatment === 'deferrable' ? { ...NO_TARGETS, unread: group } : await confirm(group);
  };
  const [strict, deferrable, initiallyDeferred, lenient] = await Promise.all([
    confirmAll('strict'),
    confirmAll('deferrable'),
    confirmAll('initiallyDeferred'),
    confirmAll('lenient'),
  ]);
  return { strict, deferrable, initiallyDeferred, lenient };
}

/** A restore would defer this violation, but whether there is one is unknown. */
function undecidedViolation({ policy, field, check, deferrable }: Violation): Undecided {
  const message = 'could not find out whether a backup is being restored';
  return { policy, message, auditRef: `${policy.name}/${check ?? deferrable ?? ''}=${field}` };
}

function unreadableRules({ policy }: Judgement): Undecided {
  const what = checksRead(policy).authorizer
    ? 'ask the API server what the user may do'
    : 'read what they need';
  const message = `could not evaluate its rules or ${what} before the answer was due`;
  return { policy, message, auditRef: `${policy.name}/rules` };
}

function mergeNotices(judgements: readonly Judgement[]): Notices {
  const notices = judgements.map((judgement) => judgement.notices);
  const annotations = Map.groupBy(
    notices.flatMap(({ auditAnnotations }) => Object.entries(auditAnnotations)),
    ([key]) => key,
  );
  return {
    warnings: notices.flatMap(({ warnings }) => warnings),
    auditAnnotations: Object.fromEntries(
      [...annotations].map(([key, values]) => [key, values.map(([, value]) => value).join(', ')]),
    ),
    errors: notices.flatMap(({ errors }) => errors),
  };
}

const unconfirmed = ({ missing, unknown, unread }: ConfirmedTargets) => [...missing, ...unknown, ...unread];

type Selection =
  | { readonly kind: 'governed'; readonly policies: readonly CompiledPolicy[] }
  /** No policy here has this webhook entry: the webhook configuration is newer or older than this replica. */
  | { readonly kind: 'unknown-entry' }
  /** The entry is known, but none of its policies governs the request. */
  | { readonly kind: 'ungoverned' };

export interface PolicySet {
  /** Sorted by name. The cost does not depend on the number of policies. */
  readonly select: (
    entryId: string,
    request: Pick<AdmissionRequest, 'resource' | 'subResource' | 'operation'>,
  ) => Selection;
}

export function buildPolicySet(policies: readonly CompiledPolicy[]): PolicySet {
  const rows = [...policies].sort(byName).flatMap(rowsOf);
  // Nested, because a combined key would allocate a string for each request.
  const entries = grouped(rows, 'entryId', (ofEntry) =>
    grouped(ofEntry, 'group', (ofGroup) => grouped(ofGroup, 'operation', toByPattern)),
  );
  return {
    select: (entryId, { resource: { group, version, resource }, subResource, operation }) => {
      const index = entries.get(entryId);
      if (index === undefined) return UNKNOWN_ENTRY;
      const byPattern = index.get(group)?.get(operation);
      const found = byPattern === undefined ? [] : find(byPattern, resource, subResource);
      // A target can be deleted through any version: the policy's versions select the referencing objects.
      const governing =
        isDeletionEntry(entryId) || found.every((policy) => namesVersion(policy, version))
          ? found
          : found.filter((policy) => namesVersion(policy, version));
      return governing.length === 0 ? UNGOVERNED : { kind: 'governed', policies: governing };
    },
  };
}

const UNKNOWN_ENTRY: Selection = { kind: 'unknown-entry' };
const UNGOVERNED: Selection = { kind: 'ungoverned' };

interface Row extends Record<'entryId' | 'group' | 'operation' | 'pattern', string> {
  readonly policy: CompiledPolicy;
}

function rowsOf(policy: CompiledPolicy): readonly Row[] {
  return [policy, ...deletionEntriesOf(policy)].flatMap(({ entryId, match }) =>
    match.apiGroups.flatMap((group) =>
      match.operations.flatMap((operation) =>
        match.resources.map((pattern) => ({ entryId, group, operation, pattern, policy })),
      ),
    ),
  );
}

function grouped<Value>(
  rows: readonly Row[],
  key: Exclude<keyof Row, 'policy'>,
  make: (rows: readonly Row[]) => Value,
): ReadonlyMap<string, Value> {
  return new Map([...Map.groupBy(rows, (row) => row[key])].map(([name, some]) => [name, make(some)]));
}

type ByPattern = ReturnType<typeof toByPattern>;

const toByPattern = (rows: readonly Row[]) => ({
  lists: grouped(rows, 'pattern', (some) => some.map(({ policy }) => policy)),
  /** Without wildcards, one lookup is enough. */
  hasWildcards: rows.some(({ pattern }) => hasWildcard(pattern)),
});

function find(
  { lists, hasWildcards }: ByPattern,
  resource: string,
  subResource: string,
): readonly CompiledPolicy[] {
  if (!hasWildcards) return lists.get(subResource === '' ? resource : `${resource}/${subResource}`) ?? [];
  const found = patternsFor(resource, subResource).flatMap((pattern) => lists.get(pattern) ?? []);
  return [...new Set(found)].sort(byName);
}

const namesVersion = ({ match: { apiVersions } }: CompiledPolicy, version: string): boolean =>
  apiVersions.includes(version) || apiVersions.includes('*');

const byName = (a: CompiledPolicy, b: CompiledPolicy): number => (a.name < b.name ? -1 : 1);
