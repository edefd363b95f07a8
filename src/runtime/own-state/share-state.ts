/** On the leader: copies what webhook processes need into the Secret with the serving certificate. */
import { isDeepStrictEqual } from 'node:util';

import { parsePathTokens } from '../../admission/webhooks/path-tokens.ts';
import type { KubeClient } from '../../kube/client.ts';
import { secrets } from '../../kube/well-known.ts';
import type { Log } from '../../log.ts';
import { SERVING_SECRET } from '../../pki/annotations.ts';
import type { Secret } from '../../pki/serving-certs/secret.ts';
import type { Context } from '../context.ts';
import { requeueIn, startController, type Reconcile, type RunningController } from '../controller.ts';
import { createReadRecords, READS_SECRET } from '../policies/read-records.ts';
import { PATH_SECRET } from '../webhooks/path-tokens.ts';
import type { OwnState } from './own-state.ts';
import { stateIn, watchServingSecret, withState, type SharedState } from './shared-state.ts';

/** Watches report changes of the three Secrets. This recheck, in milliseconds, is a safety net. */
const RECHECK_MS = 60_000;

export function createShareStateReconciler(
  client: Pick<KubeClient, 'get' | 'replace'>,
  namespace: string,
  userName: (signal: AbortSignal) => Promise<string | undefined>,
  now: () => Date,
  log: Log,
): Reconcile {
  return async (_key, signal) => {
    const read = (name: string) => client.get<Secret>(secrets, { namespace, name }, { signal });
    const [serving, paths, reads] = await Promise.all([SERVING_SECRET, PATH_SECRET, READS_SECRET].map(read));
    const again = requeueIn(RECHECK_MS, now());
    // The leader creates what is missing. Until then, the copy stays.
    if (serving === undefined || paths?.data === undefined || reads?.data === undefined) return again;
    if (parsePathTokens(paths.data) === undefined || !createReadRecords(() => reads.data).hasKey())
      return again;
    const user = await userName(signal);
    const state: SharedState = {
      paths: paths.data,
      reads: reads.data,
      ...(user === undefined ? {} : { user }),
    };
    if (isDeepStrictEqual(stateIn(serving), state)) return again;
    await client.replace<Secret>(secrets, withState(serving, state), { signal });
    log.info({ user }, 'shared the state of admission with the webhook replicas');
    return again;
  };
}

export function startShareState(
  context: Context,
  { paths, records }: Pick<OwnState, 'paths' | 'records'>,
  signal: AbortSignal,
): RunningController {
  const { client, config, log } = context;
  const userName = createOwnName(context);
  const reconcile = createShareStateReconciler(client, config.namespace, userName, () => new Date(), log);
  const on = [watchServingSecret(context, signal), paths, records].map(({ onChange }) => onChange);
  return startController(context, { name: 'shared-state', key: SERVING_SECRET, on, reconcile }, signal);
}

/** Reads the own user name once. Says what will not work without it. */
function createOwnName({ userName, config, log }: Pick<Context, 'userName' | 'config' | 'log'>) {
  let learnt: { readonly user: string | undefined } | undefined;
  return async (signal: AbortSignal): Promise<string | undefined> => {
    if (learnt !== undefined) return learnt.user;
    learnt = { user: await userName(signal) };
    if (learnt.user === undefined)
      log.warn(
        {},
        `the user name of this process is unknown: unless it is a ServiceAccount of ${config.namespace}, ` +
          'the RestoreWindows that it creates are refused. Permit it to create selfsubjectreviews.authentication.k8s.io',
      );
    return learnt.user;
  };
}
