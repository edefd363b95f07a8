/**
 * Compiles the checks of an AdmissionPolicy into ValidatingAdmissionPolicies, and its defaults and mutations into a
 * MutatingAdmissionPolicy. The API server then refuses the same requests, even while every replica of Gatehouse is down.
 */
import { leadersIn } from '../../api/own-accounts.ts';
import { trimSpace } from '../../cel/library/text.ts';
import type { Principal } from '../../api/principals.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import type { CompiledPolicy, CompiledAuditAnnotation, CompiledWarning } from '../policy/compiled-policy.ts';
import { type Operation, writes } from '../review/request.ts';
import { withoutNamespace } from '../webhooks/webhook-configurations.ts';
import { IS_DELETED, leftByOthers } from './release.ts';
import { changeChecks, changesReadParams, TEXTS } from './changes/native-changes.ts';
import {
  IGNORED_CONDITIONS,
  inWebhook,
  type NativeCheck,
  type NativePart,
  type NativeVariable,
  type WebhookCheck,
} from './native-check.ts';
import { compileNativeExceptions, grantsProblem, type NativeExceptions } from './native-exceptions.ts';
import {
  immutableValidations,
  ruleValidations,
  usedVariables,
  expressionProblem,
  numberProblem,
} from './native-rules.ts';
import { paramFields, readsOwnNamespace } from './native-params.ts';
import { compileNativeSchema } from './native-schema.ts';
import { mayDefer } from '../policy/deferral/deferral.ts';
import { CHANGES_ONLY_OWNERS } from '../policy/owners/owners.ts';
import { isAboutState } from '../policy/rules/rules.ts';
import type { DeferrableCheck } from '../policy/violation.ts';
import type { CompiledExpression } from '../policy/expressions/expression.ts';

export interface NativePolicy {
  readonly checks: readonly NativeCheck[];
  readonly pairs: readonly NativePair[];
}

/** Prevents a conflict with Gatehouse's own policies, such as gatehouse-backstop-secrets. */
export const NAME_ENDING = '.gatehouse.dev';

/** Rules that read params, and notices, have separate pairs, because the API server may skip them. */
export interface NativePair {
  readonly part: NativePart;
  readonly policy: KubeObject;
  readonly binding: KubeObject;
  /** Whether it refuses or changes probes: UniqueClaims, which are cluster-scoped. */
  readonly answersProbes: boolean;
}

export interface NativeOptions {
  readonly ownNamespace: string;
  /** Only the webhook checks their requests: it defers checks while a backup is restored. */
  readonly restorers: readonly Principal[];
  /** The other policies in force that may change objects, because the order of changes must not matter. */
  readonly others: readonly CompiledPolicy[];
  /** Checks about whose types the API server has warned. */
  readonly warned?: readonly WebhookCheck[];
}

const PARTS: readonly NativePart[] = ['policies', 'params', 'notices', 'changes'];

export const nativeNames = (policy: string): readonly string[] =>
  PARTS.map((part) => `${policy}.${part}.gatehouse.dev`);

export const isMutating = (name: string): boolean => name.endsWith('.changes.gatehouse.dev');

/** Runs once for each version of a policy, and again if the options change. @param compile must depend on nothing else */
export function oncePerVersion<T>(
  compile: (policy: CompiledPolicy, options: NativeOptions) => T,
): (policy: CompiledPolicy, options: NativeOptions) => T {
  interface Known extends Pick<NativeOptions, 'others'> {
    readonly lists: string;
    readonly compiled: T;
  }
  const known = new WeakMap<CompiledPolicy, Known>();
  return (policy, options) => {
    const { others, restorers, warned = [] } = options;
    const lists = JSON.stringify([restorers, warned]);
    const found = known.get(policy);
    const isKnown =
      found?.lists === lists &&
      found.others.length === others.length &&
      found.others.every((one, index) => one === others[index]);
    if (isKnown) return found.compiled;
    const compiled = compile(policy, options);
    known.set(policy, { lists, others, compiled });
    return compiled;
  };
}

/** Without MutatingAdmissionPolicies. @param reason for the checks that need them */
export const withoutMutating = <T extends NativePolicy>(compiled: T, reason: string): T => ({
  ...compiled,
  checks: compiled.checks.map((one) =>
    one.by === 'APIServer' && one.part === 'changes' ? inWebhook(one.check, reason) : one,
  ),
  pairs: compiled.pairs.filter(({ part }) => part !== 'changes'),
});

export function compileNative(policy: CompiledPolicy, options: NativeOptions): NativePolicy {
  const exceptions = compileNativeExceptions(policy);
  const problem = grantsProblem(policy) ?? conditionsProblem(policy);
  const schema = compileNativeSchema(policy, exceptions, problem);
  const compiled = [
    ...keepLenient(policy, 'immutable', immutableValidations(policy, exceptions, problem)),
    ...keepLenient(policy, 'schema', schema.checks),
    ...keepLenient(policy, 'rules', ruleValidations(policy, exceptions, problem)),
  ];
  const enforced = keepWarned(compiled, options.warned);
  const notices = keepWarned(noticesOf(policy, enforced), options.warned);
  const checks = [...enforced, ...changeChecks(policy, options.others), ...needWebhook(policy), ...notices];
  const generated = [...exceptions.variables, ...schema.variables];
  return {
    checks,
    pairs: PARTS.flatMap((part) => pairOf(part, { policy, options, checks, exceptions, generated })),
  };
}

interface Parts {
  readonly policy: CompiledPolicy;
  readonly options: NativeOptions;
  readonly checks: readonly NativeCheck[];
  readonly exceptions: NativeExceptions;
  readonly generated: readonly NativeVariable[];
}

function pairOf(
  part: NativePart,
  { policy, options, checks, exceptions, generated }: Parts,
): readonly NativePair[] {
  const enforced = checks.flatMap((one) => (one.by === 'APIServer' ? [one] : []));
  const stated = enforced.filter((one) => one.part === part);
  const ofExceptions = part === partOfExceptions(enforced) ? exceptions.auditAnnotations : [];
  if (stated.length === 0 && ofExceptions.length === 0) return [];
  const validations = stated.flatMap((one) => one.validations);
  const mutations = stated.flatMap((one) => one.mutations ?? []);
  const auditAnnotations = [...stated.flatMap((one) => one.auditAnnotations ?? []), ...ofExceptions];
  const expressions = [
    ...validations.flatMap(({ expression, messageExpression = 'true' }) => [expression, messageExpression]),
    ...auditAnnotations.map(({ valueExpression }) => valueExpression),
    ...mutations,
  ];
  const variables = [
    ...generated.filter(({ name }) => isUsed(name, expressions, generated)),
    ...usedVariables(policy, expressions),
  ];
  const needsParams = part === 'params' || (part === 'changes' && changesReadParams(policy));
  const { ofPolicy, ofBinding } = needsParams ? paramFields(policy) : { ofPolicy: {}, ofBinding: {} };
  const { match, enforcement } = policy;
  const { apiGroups, apiVersions, resources, namespaceSelector, objectSelector } = match;
  const changes = part === 'changes';
  const judged = enforced.filter((one) => (one.part === 'changes') === changes);
  const operations = match.operations.filter((operation) => judged.some((one) => isOf(operation, one)));
  const metadata = {
    name: `${policy.name}.${part}${NAME_ENDING}`,
    labels: { 'app.kubernetes.io/managed-by': 'gatehouse' },
  };
  const object = (kind: string, spec: object): KubeObject => ({
    apiVersion: 'admissionregistration.k8s.io/v1',
    kind,
    metadata,
    ...{ spec },
  });
  return [
    {
      part,
      answersProbes:
        changes ||
        (part !== 'notices' && enforcement === 'Deny' && !(part === 'params' && readsOwnNamespace(policy))),
      policy: object(changes ? 'MutatingAdmissionPolicy' : 'ValidatingAdmissionPolicy', {
        // Like the webhook: a rule that cannot be evaluated is violated, and such a notice is omitted.
        failurePolicy: part === 'notices' ? 'Ignore' : 'Fail',
        ...ofPolicy,
        // Includes the API server's defaults: the comparison with the stored policy is deep.
        matchConstraints: {
          matchPolicy: 'Equivalent',
          resourceRules: [{ apiGroups, apiVersions, resources, operations, scope: '*' }],
          namespaceSelector: withoutNamespace(namespaceSelector, options.ownNamespace),
          objectSelector,
        },
        matchConditions: [...match.matchConditions, judgedHere(options, exceptions.expiring)],
        ...(variables.length === 0 ? {} : { variables }),
        ...(validations.length === 0 ? {} : { validations }),
        ...(auditAnnotations.length === 0 ? {} : { auditAnnotations }),
        ...(changes ? { mutations: mutations.map(asPatch), reinvocationPolicy: 'IfNeeded' } : {}),
      }),
      binding: changes
        ? object('MutatingAdmissionPolicyBinding', { policyName: metadata.name, ...ofBinding })
        : object('ValidatingAdmissionPolicyBinding', {
            policyName: metadata.name,
            validationActions: [part === 'notices' ? 'Warn' : enforcement],
            ...ofBinding,
          }),
    },
  ];
}

/** The webhook isn't called for other operations, so that a match condition that fails refuses none of their requests. */
function isOf(
  operation: Operation,
  { check, part }: { readonly check: string; readonly part: NativePart },
): boolean {
  if (part === 'changes') return writes(operation);
  return check.startsWith('immutable ') ? operation === 'UPDATE' : writes(operation) || check !== 'schema';
}

const asPatch = (expression: string) => ({ patchType: 'JSONPatch', jsonPatch: { expression } });

/** The part that records the exceptions that apply. The API server skips the part `params` while these are missing. */
function partOfExceptions(enforced: readonly { readonly part: NativePart }[]): NativePart | undefined {
  const parts = new Set(enforced.map(({ part }) => part).filter((part) => part !== 'changes'));
  if (parts.size === 0) return undefined;
  return parts.has('notices') && !parts.has('policies') ? 'notices' : 'policies';
}

/** Whether an expression uses the generated variable, directly or through other generated variables. */
function isUsed(name: string, expressions: readonly string[], generated: readonly NativeVariable[]): boolean {
  const mention = new RegExp(`variables\\.${name}\\b`);
  return (
    expressions.some((expression) => mention.test(expression)) ||
    generated.some((one) => mention.test(one.expression) && isUsed(one.name, expressions, generated))
  );
}

/** Why match conditions keep all checks in the webhook, if they do. */
function conditionsProblem({ match, enforcement }: CompiledPolicy): string | undefined {
  if (match.matchConditions.length === 0) return undefined;
  if (match.failurePolicy === 'Ignore') return IGNORED_CONDITIONS;
  // The API server treats a failed condition as a violation, so it would only warn or audit.
  if (enforcement !== 'Deny')
    return `a request whose matchConditions fail must be refused, and enforcement ${enforcement} refuses nothing`;
  return undefined;
}

/** A request whose match conditions fail must be refused, which only the part `policies` does. */
function noticesOf(policy: CompiledPolicy, enforced: readonly NativeCheck[]): readonly NativeCheck[] {
  const { match } = policy;
  const refuses = enforced.some((one) => one.by === 'APIServer' && one.part === 'policies');
  const isSafe = match.matchConditions.length === 0 || match.failurePolicy === 'Ignore' || refuses;
  const checks = noticeChecks(policy);
  if (isSafe) return checks;
  const reason = 'a request whose matchConditions fail must be refused, and a notice refuses nothing';
  return checks.map((one) => (one.by === 'Webhook' ? one : inWebhook(one.check, reason)));
}

/** Whether the API server checks the request. One condition, because the API server allows 64, and a policy may have 63. */
function judgedHere(
  { ownNamespace, restorers }: Pick<NativeOptions, 'ownNamespace' | 'restorers'>,
  expiring: readonly string[],
) {
  // No check applies to the links after a restore; the webhook skips them as well.
  const isLink = `(request.userInfo.?username.orValue("") in ${JSON.stringify(leadersIn(ownNamespace))} && ${CHANGES_ONLY_OWNERS})`;
  const left = [IS_DELETED, ...leftByOthers(restorers, expiring), isLink];
  return { name: 'not-left-to-the-webhook', expression: `!(${left.join(' || ')})` };
}

function needWebhook(policy: CompiledPolicy): readonly NativeCheck[] {
  const { references, unique } = policy;
  return [
    ...references.map(({ name }) => inWebhook(`reference ${name}`, 'it reads another object')),
    ...unique.map(({ name }) => inWebhook(`unique ${name}`, 'it compares with all other objects')),
  ];
}

/**
 * The webhook keeps checks that a restore may defer, because any user may become the principal of a RestoreWindow. It also
 * keeps checks that existing objects may violate.
 * @param checks of this part; checks of rules in the order of the rules, because rules may share a name
 */
function keepLenient(
  policy: CompiledPolicy,
  part: DeferrableCheck,
  checks: readonly NativeCheck[],
): readonly NativeCheck[] {
  const reason = whyLenient(policy, part);
  if (reason === undefined) return checks;
  // A rule that reads the request or the old object always applies, because no sweep could check it later.
  const isAlways = (index: number): boolean => {
    const rule = part === 'rules' ? policy.rules[index] : undefined;
    return rule !== undefined && !isAboutState(rule);
  };
  return checks.map((one, index) =>
    one.by === 'Webhook' || isAlways(index) ? one : inWebhook(one.check, reason),
  );
}

function whyLenient(policy: CompiledPolicy, part: DeferrableCheck): string | undefined {
  if (mayDefer(policy, part)) return 'a restore may defer it';
  return policy.allowsExisting && part !== 'immutable'
    ? 'existing objects may violate it (existingViolations: Allow)'
    : undefined;
}

/** Rules may share a name. The webhook keeps all of them if the API server warned about one. */
export const keepWarned = (
  checks: readonly NativeCheck[],
  warned: readonly WebhookCheck[] = [],
): readonly NativeCheck[] =>
  checks.map((one) =>
    one.by === 'Webhook' ? one : (warned.find(({ check }) => check === one.check) ?? one),
  );

/** Warnings and audit annotations. The API server writes them itself, under the name of the generated policy. */
const noticeChecks = (policy: CompiledPolicy): readonly NativeCheck[] => [
  ...(policy.warnings.length === 0 ? [] : [warningsCheck(policy)]),
  ...policy.auditAnnotations.map((annotation) => annotationCheck(policy, annotation)),
];

function warningsCheck(policy: CompiledPolicy): NativeCheck {
  const problems = policy.warnings.map((warning) => warningProblem(policy, warning));
  const index = problems.findIndex((problem) => problem !== undefined);
  const problem = problems[index];
  if (problem !== undefined) return inWebhook('warnings', `of warnings[${index}]: ${problem}`);
  const validations = policy.warnings.map(({ condition, message = '' }) => ({
    expression: condition === undefined ? 'false' : `!((${condition.program.expression}\n) == true)`,
    message,
    reason: 'Invalid' as const,
  }));
  return { check: 'warnings', by: 'APIServer', part: 'notices', validations };
}

function warningProblem(
  policy: CompiledPolicy,
  { condition, message = '', messageExpression }: CompiledWarning,
): string | undefined {
  if (messageExpression !== undefined)
    return 'its messageExpression can return a string that the API server replaces, such as an empty string';
  if (message === '' || message.includes('\n') || message !== trimSpace(message))
    return 'its message is blank, has a line break, or spaces around it';
  return noticeProblem(policy, condition === undefined ? [] : [condition]);
}

function annotationCheck(policy: CompiledPolicy, { key, value }: CompiledAuditAnnotation): NativeCheck {
  const check = `audit annotation ${key}`;
  const problem = noticeProblem(policy, [value], TEXTS);
  if (problem !== undefined) return inWebhook(check, problem);
  const { type, expression } = value.program;
  if (type !== 'string' && type !== 'null')
    return inWebhook(
      check,
      `its type is ${type}, and the API server accepts string and null: write string(…)`,
    );
  if (Buffer.byteLength(expression) > LONGEST_EXPRESSION)
    return inWebhook(check, `its expression has more than ${LONGEST_EXPRESSION} bytes`);
  const annotation = { key, valueExpression: expression };
  return { check, by: 'APIServer', part: 'notices', validations: [], auditAnnotations: [annotation] };
}

const LONGEST_EXPRESSION = 5 * 1024;

function noticeProblem(
  policy: CompiledPolicy,
  parts: readonly CompiledExpression[],
  harmless?: readonly string[],
): string | undefined {
  if (parts.some(({ reads }) => reads.params)) return 'it reads params';
  return numberProblem(policy, parts, harmless) ?? expressionProblem(policy, parts);
}
