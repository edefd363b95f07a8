/** Path tokens, read records and the identity of Gatehouse, from their Secrets or from the copies that the leader shares. */
import { accountsIn, CONTROLLERS_ACCOUNT, WEBHOOK_ACCOUNT } from '../../api/own-accounts.ts';
import { parsePathTokens } from '../../admission/webhooks/path-tokens.ts';
import { memoizeAsync } from '../../json/memoize-async.ts';
import type { AccessSubject } from '../../kube/access.ts';
import { sleep, systemClock } from '../../kube/clock.ts';
import type { Context } from '../context.ts';
import { createReadRecords, followReadRecords, type FollowedRecords } from '../policies/read-records.ts';
import { createAcceptedPaths, followPathTokens, type AcceptedPaths } from '../webhooks/path-tokens.ts';
import type { SharedStateFollower } from './shared-state.ts';

export interface OwnState {
  readonly paths: AcceptedPaths;
  readonly records: FollowedRecords;
}

/** In a process that may lead. */
export const followOwnSecrets = (context: Context, signal: AbortSignal): OwnState => ({
  paths: followPathTokens(context, signal),
  records: followReadRecords(context, signal),
});

/** On a developer's machine: the session supplies the token. */
export const followInSession = (context: Context, signal: AbortSignal): OwnState => ({
  paths: createAcceptedPaths(
    () => true,
    context.config.caPropagationWaitMs,
    () => performance.now(),
  ),
  records: followReadRecords(context, signal),
});

/** In a webhook process. */
export function followCopies(
  { config }: Pick<Context, 'config'>,
  { current, whenKnown, onChange }: SharedStateFollower,
  signal: AbortSignal,
): OwnState {
  // Unlike the original, a missing copy proves nothing: no path is valid without it.
  const paths = createAcceptedPaths(
    () => false,
    config.caPropagationWaitMs,
    () => performance.now(),
    'used',
  );
  onChange((state) => paths.learn(parsePathTokens(state.paths)), signal);
  return {
    paths,
    records: {
      ...createReadRecords(() => current()?.reads),
      hasSynced: () => current() !== undefined,
      whenSynced: whenKnown,
      onChange,
    },
  };
}

/**
 * In the controllers process: the account of the webhook replicas. Undefined: this process has another account than
 * `deploy/` gives it, so nothing is known about theirs.
 */
export function readWebhookReplicas(
  { userName, config: { namespace } }: Pick<Context, 'userName' | 'config'>,
  signal: AbortSignal,
): () => Promise<AccessSubject | undefined> {
  const accounts = accountsIn(namespace);
  const groups = ['system:serviceaccounts', `system:serviceaccounts:${namespace}`, 'system:authenticated'];
  const own = memoizeAsync(userName, () => 'own');
  return async () => {
    const name = await own.read(signal);
    if (name !== undefined && name !== `${accounts}${CONTROLLERS_ACCOUNT}`) return undefined;
    return { username: `${accounts}${WEBHOOK_ACCOUNT}`, uid: '', groups, extra: {} };
  };
}

/**
 * Whether a user is the leader, whose writes Gatehouse trusts. Never the account of webhook processes, which handle input
 * from the network.
 *
 * @param leader the user name of the leader; undefined: unknown, so it may be any other account of the own namespace
 * @param own the user name of this process if it never leads: its account can have another name. Both processes may also
 *   share one account; then the leader is known.
 */
export function createIsOurs(
  leader: () => string | undefined,
  ownNamespace: string,
  own: () => string | undefined = () => undefined,
): (username: string) => boolean {
  const accounts = accountsIn(ownNamespace);
  return (username) => {
    if (username === `${accounts}${WEBHOOK_ACCOUNT}`) return false;
    const known = leader();
    return known === undefined ? username.startsWith(accounts) && username !== own() : username === known;
  };
}

/** Retry interval, in milliseconds. */
const UNREAD_MS = 2_000;

/** In a webhook process, whose own account is never the leader. Undefined until it has been read, or if it is unknown. */
export function readOwnName(
  { userName, log }: Pick<Context, 'userName' | 'log'>,
  signal: AbortSignal,
): () => string | undefined {
  let own: string | undefined;
  const read = async (): Promise<void> => {
    for (;;) {
      try {
        own = await userName(signal);
        return;
      } catch (err) {
        signal.throwIfAborted();
        log.warn({ err }, 'could not read the own user name');
        await sleep(systemClock, UNREAD_MS, signal);
      }
    }
  };
  read().catch(() => undefined); // rejects when the signal aborts
  return () => own;
}
