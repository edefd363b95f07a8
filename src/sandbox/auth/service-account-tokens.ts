import type { UserInfo } from '../../machinery/request.ts';
import { accountGroups, accountUsername, AUTHENTICATED } from './authenticate.ts';

export interface ServiceAccountTokens {
  /** A token valid for this many seconds, as long as the account with this uid exists. */
  readonly issue: (namespace: string, name: string, uid: string, seconds: number) => string;
  readonly lookup: (token: string) => UserInfo | undefined;
}

/** The API server puts the ID of the token here, so that audit logs can distinguish tokens of one account. */
const CREDENTIAL_ID = 'authentication.kubernetes.io/credential-id';

/**
 * The tokens of ServiceAccounts, in memory. They are opaque; a real API server issues JWTs, but clients of the
 * sandbox do not parse them.
 *
 * @param random a new unpredictable text for each call
 * @param uidOf the uid of a ServiceAccount that exists and is not being deleted
 */
export function createServiceAccountTokens(
  now: () => Date,
  random: () => string,
  uidOf: (namespace: string, name: string) => string | undefined,
): ServiceAccountTokens {
  interface Issued {
    readonly namespace: string;
    readonly name: string;
    readonly uid: string;
    readonly id: string;
    readonly expiresAt: number;
  }
  const tokens = new Map<string, Issued>();

  const forgetExpired = () => {
    const at = now().getTime();
    for (const [token, { expiresAt }] of tokens) if (expiresAt <= at) tokens.delete(token);
  };

  return {
    issue: (namespace, name, uid, seconds) => {
      forgetExpired();
      const token = random();
      tokens.set(token, {
        namespace,
        name,
        uid,
        id: random(),
        expiresAt: now().getTime() + seconds * 1_000,
      });
      return token;
    },
    lookup: (token) => {
      const issued = tokens.get(token);
      if (issued === undefined || issued.expiresAt <= now().getTime()) return undefined;
      const { namespace, name, uid, id } = issued;
      // The account was replaced by another one with the same name.
      if (uidOf(namespace, name) !== uid) return undefined;
      return {
        username: accountUsername(issued),
        uid,
        groups: [...accountGroups(namespace), AUTHENTICATED],
        extra: { [CREDENTIAL_ID]: [`JTI=${id}`] },
      };
    },
  };
}
