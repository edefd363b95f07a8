/** Each check runs in one place: the webhook omits a check once the API server is confirmed to enforce it. */
import { isEverybody, isPrincipal, type Principal } from '../../api/principals.ts';
import type { AdmissionPolicyStatus } from '../../api/admission-policy.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import type { CompiledPolicy } from '../policy/compiled-policy.ts';
import { splitResource } from '../policy/match/resource-pattern.ts';
import type { AdmissionRequest } from '../review/request.ts';
import { inWebhook, type NativeCheck, type NativePart, type WebhookCheck } from './native-check.ts';
import { valueIn } from '../../json/json.ts';
import { isSubject } from '../policy/exceptions/exceptions.ts';
import { compileNativeExceptions, isInGroup } from './native-exceptions.ts';

/** What the leader has confirmed, in the status of an AdmissionPolicy. */
export type Confirmation = NonNullable<AdmissionPolicyStatus['confirmed']>;

export type ConfirmedPair = Confirmation['pairs'][number];

export interface Release {
  readonly policy: CompiledPolicy;
  readonly remaining: CompiledPolicy;
  readonly digest: string;
  /** Only the webhook checks their requests. */
  readonly restorers: readonly Principal[];
}

export type ReleaseOf = (policy: CompiledPolicy) => Release | undefined;

export const NO_RELEASES: ReleaseOf = () => undefined;

/** The checks that remain in the webhook because of a warning in this generation. */
export const warnedIn = (generation: number, { enforcedBy = [] }: AdmissionPolicyStatus = {}) =>
  enforcedBy.flatMap(({ check, reason = '', warnedGeneration }): readonly WebhookCheck[] =>
    warnedGeneration === generation ? [{ ...inWebhook(check, reason), warnedGeneration }] : [],
  );

/** One stored version of an object, regardless of status and labels. */
export const versionOf = ({ metadata = {} }: KubeObject): string => `${metadata.uid}/${metadata.generation}`;

/** The policy without the checks that the API server enforces with these parts. */
export function withoutNative(
  policy: CompiledPolicy,
  checks: readonly NativeCheck[],
  parts: ReadonlySet<NativePart>,
): CompiledPolicy {
  const isEnforced = (one: NativeCheck) => one.by === 'APIServer' && parts.has(one.part);
  // Rules may share a name. The webhook keeps all of them, unless the API server enforces all of them.
  const left = new Set(checks.filter((one) => !isEnforced(one)).map(({ check }) => check));
  const native = new Set(checks.map(({ check }) => check).filter((check) => !left.has(check)));
  const { defaults, mutations, schema, immutable, rules, warnings, auditAnnotations } = policy;
  return {
    ...policy,
    defaults: native.has('defaults') ? [] : defaults,
    mutations: mutations.filter(({ name }) => !native.has(`mutation ${name}`)),
    schema: native.has('schema') ? undefined : schema,
    immutable: immutable.filter(({ path }) => !native.has(`immutable ${path.text}`)),
    rules: rules.filter(({ name }) => !native.has(`rule ${name}`)),
    warnings: native.has('warnings') ? [] : warnings,
    auditAnnotations: auditAnnotations.filter(({ key }) => !native.has(`audit annotation ${key}`)),
  };
}

export function judgedByWebhook(
  policy: CompiledPolicy,
  release: Release | undefined,
  request: AdmissionRequest,
): CompiledPolicy {
  if (release === undefined) return policy;
  return isLeftToWebhook(policy, release.restorers, request) ? policy : release.remaining;
}

/** Equals the match condition of a compiled policy. */
export const isLeftToWebhook = (
  { exceptions }: Pick<CompiledPolicy, 'exceptions'>,
  restorers: readonly Principal[],
  request: AdmissionRequest,
): boolean =>
  // Null counts as present, as in the condition. Otherwise neither side would check the request.
  valueIn(request.oldObject, 'metadata', 'deletionTimestamp') !== undefined ||
  isPrincipal(restorers, request.userInfo) ||
  exceptions.some((exception) => exception.expiresAt !== undefined && isSubject(exception, request));

export const IS_DELETED = 'oldObject.?metadata.?deletionTimestamp.hasValue()';

/** Apart from {@link IS_DELETED}. @param expiring of exceptions */
export function leftByOthers(
  restorers: readonly Principal[],
  expiring: readonly string[],
): readonly string[] {
  // Like `isPrincipal`: a principal with user and group matches nobody, and some groups are never restorers.
  const users = restorers.flatMap(({ user, group }) =>
    user !== undefined && group === undefined ? [user] : [],
  );
  const groups = restorers.flatMap(({ user, group }) =>
    group !== undefined && user === undefined && !isEverybody({ group }) ? [group] : [],
  );
  return [
    ...(users.length === 0 ? [] : [`request.userInfo.?username.orValue("") in ${JSON.stringify(users)}`]),
    ...(groups.length === 0 ? [] : [isInGroup(groups)]),
    ...expiring.map((condition) => `(${condition})`),
  ];
}

/** A condition for the requests that compiled policies always leave to the webhook; undefined: none. */
export function leftCondition(policy: CompiledPolicy, restorers: readonly Principal[]): string | undefined {
  const { operations, resources } = policy.match;
  const changesObjects = operations.some((one) => one === 'UPDATE' || one === 'DELETE');
  const names = JSON.stringify([...new Set(resources.map((one) => splitResource(one).resource))]);
  // Other policies of the webhook entry need not wait for Gatehouse because of these exceptions.
  const isOwn = names.includes('"*"') ? '' : `request.resource.resource in ${names} && `;
  const expiring = compileNativeExceptions(policy).expiring.map((condition) => `${isOwn}(${condition})`);
  const parts = [...(changesObjects ? [IS_DELETED] : []), ...leftByOthers(restorers, expiring)];
  return parts.length === 0 ? undefined : parts.join(' || ');
}
