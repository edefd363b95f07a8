import { isEverybody, isPrincipal, type Principal } from '../../api/principals.ts';
import { valueIn } from '../../json/json.ts';
import type { CompiledPolicy } from '../policy/compiled-policy.ts';
import { isSubject } from '../policy/exceptions/exceptions.ts';
import type { AdmissionRequest } from '../review/request.ts';
import { compileNativeExceptions } from './native-exceptions.ts';

/**
 * Whether a compiled policy leaves the request to the webhook: the same as its match condition says. The webhook tolerates
 * what an object in deletion violates already, defers checks of restorers, and knows when exceptions expire.
 */
export const isLeftToWebhook = (
  { exceptions }: Pick<CompiledPolicy, 'exceptions'>,
  restorers: readonly Principal[],
  request: AdmissionRequest,
): boolean =>
  // Also null, as in the condition: otherwise neither would judge the request.
  valueIn(request.oldObject, 'metadata', 'deletionTimestamp') !== undefined ||
  isPrincipal(restorers, request.userInfo) ||
  exceptions.some((exception) => exception.expiresAt !== undefined && isSubject(exception, request));

export const IS_DELETED = 'oldObject.?metadata.?deletionTimestamp.hasValue()';

/**
 * Conditions for requests that a compiled policy leaves to the webhook, apart from {@link IS_DELETED}.
 * @param expiring of exceptions
 */
export function leftByOthers(
  restorers: readonly Principal[],
  expiring: readonly string[],
): readonly string[] {
  // As in `isPrincipal`: a principal with both matches no user, and some groups are never restorers.
  const users = restorers.flatMap(({ user, group }) =>
    user !== undefined && group === undefined ? [user] : [],
  );
  const groups = restorers.flatMap(({ user, group }) =>
    group !== undefined && user === undefined && !isEverybody({ group }) ? [group] : [],
  );
  return [
    ...(users.length === 0 ? [] : [`request.userInfo.?username.orValue("") in ${JSON.stringify(users)}`]),
    ...(groups.length === 0
      ? []
      : [`request.userInfo.?groups.orValue([]).exists(group, group in ${JSON.stringify(groups)})`]),
    ...expiring.map((condition) => `(${condition})`),
  ];
}

/** A condition for the requests that the compiled policies leave to the webhook; undefined: there are none. */
export function leftCondition(policy: CompiledPolicy, restorers: readonly Principal[]): string | undefined {
  const changesObjects = policy.match.operations.some((one) => one === 'UPDATE' || one === 'DELETE');
  const parts = [
    ...(changesObjects ? [IS_DELETED] : []),
    ...leftByOthers(restorers, compileNativeExceptions(policy).expiring),
  ];
  return parts.length === 0 ? undefined : parts.join(' || ');
}
