import { groupResourceName } from '../../json/kube-object.ts';
import { NAMESPACES } from './object-ref.ts';
import type { AdmissionPolicy } from '../../api/admission-policy.ts';
import { compileReferences, reportActions } from './references/compile-references.ts';
import { compileImmutable } from './immutable/immutable.ts';
import { compileDefaults } from './defaults/defaults.ts';
import { compileExceptions } from './exceptions/exceptions.ts';
import { createExpressionCompiler } from './expressions/compile-expression.ts';
import { compileMatch, type MatchEnvironment, type Resolve } from './match/compile-match.ts';
import { compileMutations } from './mutations/mutations.ts';
import { reportNeverApplied } from './mutations/update-limits.ts';
import { compileOwners } from './owners/owners.ts';
import { compileRestore } from './deferral/deferral.ts';
import { changesRead, checksRead, compileParams } from './expressions/bindings.ts';
import { compileAuditAnnotations, compileRules, compileWarnings } from './rules/rules.ts';
import { compileSchema } from './schema/json-schema.ts';
import { reportUnknownFields } from './fields/unknown-fields.ts';
import { compileUnique } from './unique/unique-key.ts';
import type { CompiledPolicy, CompiledTarget, Grants } from './compiled-policy.ts';
import type { JsonObject } from '../../json/json.ts';
import { createReport, type Problem, REJECTION_REASONS, type RejectionReason } from './problem.ts';
import { entryIdOf } from '../webhooks/protect-own-kinds.ts';

export type { CompiledPolicy } from './compiled-policy.ts';

export interface CompileEnvironment extends MatchEnvironment {
  readonly resolve: Resolve;
  /** Empty if a schema is unknown. Absent: the version is in force already, and a newer check must not end that. */
  readonly schemas?: readonly JsonObject[];
  readonly scales?: CompiledPolicy['scales'];
  readonly lists?: CompiledPolicy['lists'];
  readonly grants?: Grants;
}

export type CompileResult =
  | { readonly kind: 'compiled'; readonly policy: CompiledPolicy }
  | {
      readonly kind: 'rejected';
      readonly reason: RejectionReason;
      readonly problems: readonly Omit<Problem, 'reason'>[];
      /** Its parts as far as they compile; only its scope and its spec are complete. */
      readonly incomplete: CompiledPolicy;
    };

export function compilePolicy(policy: AdmissionPolicy, environment: CompileEnvironment): CompileResult {
  const { spec, metadata } = policy;
  const { resolve, schemas, scales = [], lists = [], grants, server } = environment;
  const problems: Problem[] = [];
  const report = createReport(problems);
  const isNew = schemas !== undefined;
  // 0: the API server hides its version.
  const enforcing = isNew && server !== 0 ? server : undefined;
  const match = compileMatch(spec, { ...environment, server: enforcing, unconverted: isNew }, report);
  const immutable = compileImmutable(spec, match, report);
  const references = compileReferences(spec, match, resolve, report);
  reportActions(spec, immutable, schemas ?? [], report);
  const { compile, variables } = createExpressionCompiler(spec, schemas, report);
  const parts: Omit<CompiledPolicy, 'targets'> = {
    name: metadata.name ?? '',
    generation: metadata.generation ?? 0,
    entryId: entryIdOf(match),
    match,
    enforcement: spec.enforcement ?? 'Deny',
    allowsExisting:
      spec.existingViolations === 'Allow' &&
      (spec.enforcement ?? 'Deny') === 'Deny' &&
      match.operations.includes('UPDATE'),
    audit: spec.audit ?? true,
    variables,
    params: compileParams(spec, match, resolve, report),
    defaults: compileDefaults(spec, match, compile, report),
    mutations: compileMutations(spec, match, compile, report),
    schema: compileSchema(spec, match, report),
    immutable,
    references,
    unique: compileUnique(spec, match, report),
    rules: compileRules(spec, compile, report, isNew),
    warnings: compileWarnings(spec, compile, report),
    auditAnnotations: compileAuditAnnotations(spec, compile, report),
    exceptions: compileExceptions(spec, report),
    grants: spec.policyExceptions === 'Accept' ? grants : undefined,
    preservesOwners: compileOwners(spec, match, report),
    ...compileRestore(spec, report),
    scales,
    lists,
    server,
    spec,
  };
  reportUnknownFields(spec, schemas ?? [], report);
  if (isNew) reportNeverApplied(parts, report);
  if (problems.length === 0) return { kind: 'compiled', policy: { ...parts, targets: targetsOf(parts) } };
  const reasons = new Set(problems.map(({ reason }) => reason));
  const reason = REJECTION_REASONS.find((one) => reasons.has(one)) ?? 'InvalidPolicy';
  return { kind: 'rejected', reason, problems, incomplete: { ...parts, targets: [] } };
}

function targetsOf(policy: Omit<CompiledPolicy, 'targets'>): readonly CompiledTarget[] {
  const { references, params } = policy;
  const reads = [changesRead(policy), checksRead(policy)];
  const targets: readonly CompiledTarget[] = [
    ...references.map(({ name, target }) => ({ ...target, whole: reads.some(({ refs }) => refs.has(name)) })),
    ...(params === undefined ? [] : [{ ...params.target, whole: true }]),
    ...(reads.some(({ namespaceObject }) => namespaceObject) ? [{ ...NAMESPACES, whole: true }] : []),
  ];
  const byName = Map.groupBy(targets, groupResourceName);
  return [...byName.values()].flatMap(([first, ...others]) =>
    first === undefined ? [] : [{ ...first, whole: [first, ...others].some((target) => target.whole) }],
  );
}
