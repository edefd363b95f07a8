/** Path tokens, read records and the identity of Gatehouse, from their Secrets or from copies in the serving Secret. */
import { isDeepStrictEqual } from 'node:util';
import { accountsIn, CONTROLLERS_ACCOUNT, WEBHOOK_ACCOUNT } from '../../api/own-accounts.ts';
import { parsePathTokens } from '../../admission/webhooks/path-tokens.ts';
import { memoizeAsync } from '../../json/memoize-async.ts';
import type { AccessSubject } from '../../kube/access.ts';
import { orAborted } from '../../json/abort.ts';
import { untilAnswered, type Context } from '../context.ts';
import type { OwnLease } from '../leadership/own-lease.ts';
import { createReadRecords, followReadRecords, READS_SECRET } from '../policies/read-records.ts';
import { createAcceptedPaths, followPathTokens, PATH_SECRET } from '../webhooks/path-tokens.ts';
import { isJsonObject, jsonIn, valueIn, type JsonValue } from '../../json/json.ts';
import { secrets } from '../../kube/well-known.ts';
import { SERVING_SECRET, SHARED_STATE_KEY } from '../../pki/annotations.ts';
import { base64, textOf, type SecretData } from '../../pki/secret-data.ts';
import type { Secret } from '../../pki/serving-certs/secret.ts';
import { createListeners } from '../listeners.ts';
import { watch, type WatchContext, type Watched } from '../watch.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { Log } from '../../log.ts';
import { requeueIn, startController, type Reconcile, type RunningController } from '../controller.ts';

export type OwnState = ReturnType<typeof followOwnSecrets>;

export const followOwnSecrets = (context: Context, signal: AbortSignal) => ({
  paths: followPathTokens(context, signal),
  records: followReadRecords(context, signal),
});

/** On a developer's machine: the session supplies the token. */
export const followInSession = (context: Context, signal: AbortSignal): OwnState => ({
  paths: createAcceptedPaths(() => true, context.config.caPropagationWaitMs),
  records: followReadRecords(context, signal),
});

export function followCopies(
  { config }: Pick<Context, 'config'>,
  { current, whenKnown, onChange }: SharedStateFollower,
  signal: AbortSignal,
): OwnState {
  // Unlike the original, a missing copy proves nothing: no path is valid without it.
  const paths = createAcceptedPaths(() => false, config.caPropagationWaitMs, 'used');
  onChange((state) => paths.learn(parsePathTokens(state.paths)), signal);
  const records = createReadRecords(() => current()?.reads);
  const hasSynced = () => current() !== undefined;
  return { paths, records: { ...records, hasSynced, whenSynced: whenKnown, onChange } };
}

/** In the controllers process: the account of the webhook replicas. Undefined: `deploy/` was changed, so it is unknown. */
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
 * Whether a user is the leader, whose writes Gatehouse trusts, and never a webhook process, which handles input from the network.
 * While the leader is unknown: any account of the own namespace except `own`, the account of a process that never leads.
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

export function readOwnName(
  { userName, log }: Pick<Context, 'userName' | 'log'>,
  signal: AbortSignal,
): () => string | undefined {
  let own: string | undefined;
  const warn = (err: unknown) => log.warn({ err }, 'could not read the own user name');
  untilAnswered(() => userName(signal), warn, signal).then(
    (name) => (own = name),
    () => undefined, // the signal has aborted
  );
  return () => own;
}

interface SharedState {
  readonly paths: SecretData;
  readonly reads: SecretData;
  readonly user?: string | undefined;
  /** Empty if no leader has announced one. */
  readonly rollback?: string | undefined;
}

export function stateIn(secret: Secret | undefined): SharedState | undefined {
  const state = jsonIn(textOf(secret?.data, SHARED_STATE_KEY) ?? '');
  const [paths, reads] = ['paths', 'reads'].map((key) => valueIn(state, key));
  if (!isSecretData(paths) || !isSecretData(reads)) return undefined;
  return { paths, reads, ...textsIn({ user: valueIn(state, 'user'), rollback: valueIn(state, 'rollback') }) };
}

const textsIn = (values: Readonly<Record<string, JsonValue | undefined>>): Readonly<Record<string, string>> =>
  Object.fromEntries(
    Object.entries(values).filter((entry): entry is [string, string] => typeof entry[1] === 'string'),
  );

const isSecretData = (value: JsonValue | undefined): value is Readonly<Record<string, string>> =>
  isJsonObject(value) && Object.values(value).every((one) => typeof one === 'string');

export const watchServingSecret = (
  context: WatchContext & { readonly config: { readonly namespace: string } },
  signal: AbortSignal,
): Watched<Secret> => {
  const { namespace } = context.config;
  return watch<Secret>(context, { resource: secrets, namespace, name: SERVING_SECRET }, signal);
};

type SharedStateFollower = ReturnType<typeof followSharedState>;

/** On every replica. Keeps the last known state while the Secret lacks it: the leader is about to write it again. */
export function followSharedState(
  { store, onChange }: Pick<Watched<Secret>, 'store' | 'onChange'>,
  signal: AbortSignal,
) {
  let state: SharedState | undefined;
  const known = Promise.withResolvers<undefined>();
  const listeners = createListeners<[state: SharedState]>();
  onChange((key) => {
    const next = stateIn(store.get(key));
    if (next === undefined || isDeepStrictEqual(next, state)) return;
    state = next;
    known.resolve(undefined);
    listeners.tell(next);
  }, signal);
  return {
    current: () => state,
    whenKnown: async (waiting: AbortSignal): Promise<void> => {
      await orAborted(known.promise, waiting);
    },
    onChange: listeners.add,
  };
}

/**
 * In a webhook process, which can't read the Lease. A watch of its may have continued after the cluster had passed the
 * resourceVersion at which that watch had stopped: then only the announcement shows that objects are missing.
 */
export function followRollbacks(
  { rollbacks, metrics, log }: Pick<Context, 'rollbacks' | 'metrics'> & { readonly log: Log },
  { onChange }: Pick<SharedStateFollower, 'onChange'>,
  signal: AbortSignal,
): void {
  let last: string | undefined;
  // A leader of an earlier version shares none. Then the first one that is shared may be old.
  onChange(({ rollback = last }) => {
    const isNew = last !== undefined && rollback !== '' && rollback !== last;
    if (rollback !== '' || last === undefined) last = rollback;
    if (!isNew) return;
    metrics.rollback('Told');
    log.warn({ rollback }, 'the leader announced a rollback of etcd; all objects are listed again');
    rollbacks.tell();
  }, signal);
}

/** Watches report changes of the three Secrets. This recheck, in milliseconds, is a safety net. */
const RECHECK_MS = 60_000;

export function createShareStateReconciler(
  client: Pick<KubeClient, 'get' | 'replace'>,
  namespace: string,
  facts: {
    readonly userName: (signal: AbortSignal) => Promise<string | undefined>;
    readonly announcedRollback: () => string | undefined;
  },
  log: Log,
): Reconcile {
  return async (_key, signal) => {
    const read = (name: string) => client.get<Secret>(secrets, { namespace, name }, { signal });
    const [serving, paths, reads] = await Promise.all([SERVING_SECRET, PATH_SECRET, READS_SECRET].map(read));
    const again = requeueIn(RECHECK_MS, new Date());
    // The leader creates what is missing. Until then, the copy stays.
    if (serving === undefined || paths?.data === undefined || reads?.data === undefined) return again;
    if (parsePathTokens(paths.data) === undefined || !createReadRecords(() => reads.data).hasKey())
      return again;
    const user = await facts.userName(signal);
    const known = textsIn({ user, rollback: facts.announcedRollback() ?? '' });
    const state = { paths: paths.data, reads: reads.data, ...known };
    if (isDeepStrictEqual(stateIn(serving), state)) return again;
    const data = { ...serving.data, [SHARED_STATE_KEY]: base64(JSON.stringify(state)) };
    await client.replace<Secret>(secrets, { ...serving, data }, { signal });
    log.info({ user }, 'shared the state of admission with the webhook replicas');
    return again;
  };
}

export function startShareState(
  context: Context,
  { paths, records, ownLease }: OwnState & { readonly ownLease: OwnLease },
  signal: AbortSignal,
): RunningController {
  const { client, config, log } = context;
  const facts = { userName: createOwnName(context), announcedRollback: ownLease.announcedRollback };
  const reconcile = createShareStateReconciler(client, config.namespace, facts, log);
  const on = [watchServingSecret(context, signal), paths, records].map(({ onChange }) => onChange);
  const options = { name: 'shared-state', key: SERVING_SECRET, on: [...on, ownLease.onSweepDue], reconcile };
  return startController(context, options, signal);
}

function createOwnName({ userName, config, log }: Pick<Context, 'userName' | 'config' | 'log'>) {
  const read = async (signal: AbortSignal): Promise<string | undefined> => {
    const user = await userName(signal);
    if (user === undefined)
      log.warn(
        {},
        `the user name of this process is unknown: unless it is a ServiceAccount of ${config.namespace}, ` +
          'the RestoreWindows that it creates are refused. Permit it to create selfsubjectreviews.authentication.k8s.io',
      );
    return user;
  };
  return memoizeAsync(read, () => 'own').read;
}
