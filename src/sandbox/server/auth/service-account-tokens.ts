import type { UserInfo } from '../../machinery/request.ts';
import { accountGroups, accountUsername, AUTHENTICATED } from './authenticate.ts';

export interface ServiceAccountTokens {
  /** A token that is good for so many seconds, as long as the account with this uid is there. */
  readonly issue: (namespace: string, name: string, uid: string, seconds: number) => string;
  readonly lookup: (token: string) => UserInfo | undefined;
}

export interface ServiceAccountTokensDeps {
  readonly now: () => Date;
  /** Text that nobody guesses, a new one with each call. */
  readonly random: () => string;
  /** The uid of a ServiceAccount that is there and not being deleted. */
  readonly uidOf: (namespace: string, name: string) => string | undefined;
}

/** Where API servers name the token of a request, so that audit logs can tell tokens of one account apart. */
const CREDENTIAL_ID = 'authentication.kubernetes.io/credential-id';

/**
 * The tokens of ServiceAccounts, in memory. They are opaque, where the API server signs JWTs: clients that look into their
 * tokens are none of the sandbox's users.
 */
export function createServiceAccountTokens({
  now,
  random,
  uidOf,
}: ServiceAccountTokensDeps): ServiceAccountTokens {
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
      // Another account of the same name is somebody else.
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
