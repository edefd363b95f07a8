import { isPrincipal, type Principal } from '../../api/principals.ts';
import { valueIn } from '../../json/json.ts';
import type { CompiledPolicy } from '../policy/compiled-policy.ts';
import { isSubject } from '../policy/exceptions/exceptions.ts';
import type { AdmissionRequest } from '../review/request.ts';

/**
 * Whether a compiled policy leaves the request to the webhook: the same as its match condition says. The webhook tolerates
 * what an object in deletion violates already, defers checks of restorers, and knows when exceptions expire.
 */
export const isLeftToWebhook = (
  { exceptions }: Pick<CompiledPolicy, 'exceptions'>,
  restorers: readonly Principal[],
  request: AdmissionRequest,
): boolean =>
  (valueIn(request.oldObject, 'metadata', 'deletionTimestamp') ?? undefined) !== undefined ||
  isPrincipal(restorers, request.userInfo) ||
  exceptions.some((exception) => exception.expiresAt !== undefined && isSubject(exception, request));
