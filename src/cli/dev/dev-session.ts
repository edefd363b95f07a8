/** `gatehouse serve --dev-url`: while it runs, the webhook entries of the cluster point to this machine. */
import { randomBytes } from 'node:crypto';
import { hostname, userInfo } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';

import { webhookConfigurations } from '../../admission/webhooks/webhook-configurations.ts';
import type { Config } from '../../config/config.ts';
import type { DevUrl } from '../../config/dev-url.ts';
import { configMaps } from '../../kube/well-known.ts';
import { CA_BUNDLE_KEY, CABUNDLE_CONFIGMAP } from '../../pki/annotations.ts';
import { DEFAULT_KEY_ALGORITHM, generateKeyPair, randomSerial } from '../../pki/x509/keys.ts';
import { issueSessionCert } from '../../pki/serving-certs/issue.ts';
import { startControllers } from '../../runtime/controllers/start-controllers.ts';
import { createEventRecorder } from '../../kube/events.ts';
import type { ConfigMap } from '../../runtime/certificates/ca-bundle.ts';
import type { Context } from '../../runtime/context.ts';
import { startController } from '../../runtime/controller.ts';
import type { Webhooks } from '../../processes/webhooks.ts';
import type { Replica } from '../../processes/replica.ts';
import {
  createDevSession,
  DevSessionRefused,
  type DevSessionOptions,
  type RunningDevSession,
} from '../../runtime/webhooks/dev-session.ts';
import { configurationTarget } from '../../runtime/webhooks/installed-webhooks.ts';
import { readTokensInUse } from '../../runtime/webhooks/path-tokens.ts';
import { guardedPrincipals, pausesOf, restorersOf } from '../../runtime/restores/restore-kinds.ts';
import { probeWebhook } from '../inspect/read-cluster/probe.ts';

/** The user waits at the terminal; the leader restores the remaining entries. */
const RESTORE_TIMEOUT_MS = 10_000;
/** The session ends before its certificate expires, because every write fails after that. */
const CERTIFICATE_MARGIN_MS = 3_600_000;
const HEALTH_POLL_MS = 50;

/** Resolves after `draining` is aborted, and the API server has observed that the entries are restored. */
export async function runDevSession(
  context: Context<Config>,
  url: DevUrl,
  parts: Webhooks,
  draining: AbortSignal,
): Promise<void> {
  const { config, serverClock, log } = context;
  const { chain, key, authority, notAfter } = await sessionCertificate(url.host, serverClock.now());
  // Listen before any webhook entry points here.
  await parts.listener.present({ chain, key });
  const ended = new AbortController();
  const running = AbortSignal.any([draining, ended.signal]);
  const holder = userAtHost();
  const session = createDevSession({
    ...sessionAccess(context, parts.replica),
    client: context.client,
    own: {
      id: randomBytes(8).toString('hex'),
      holder: config.identity ?? holder,
      url: url.origin,
      controllers: parts.replica.handlers.controllers.map(({ name }) => name),
    },
    caBundle: Buffer.from(authority).toString('base64'),
    now: () => new Date(),
    serverNow: serverClock.now,
    log,
  });
  let ofUsers: ReturnType<typeof startControllers> | undefined;
  try {
    // The entries that stay with the cluster, and those of this machine, keep the token of their paths.
    const [token = ''] = await readTokensInUse(context.client, draining);
    parts.replica.paths.learn({ current: token });
    await whenHealthy(parts.checks, draining);
    await session.take('own', draining);
    await checkReachable(context, parts.admission.wasAsked, url.origin, draining);
    await session.take('all', draining);
    ofUsers = startControllersHere(context, parts.replica, running);
    log.info({ url: url.origin, holder }, 'this machine now serves the webhooks; press Ctrl+C to stop');
    const lifeMs = notAfter.getTime() - serverClock.now().getTime() - CERTIFICATE_MARGIN_MS;
    await Promise.all([renewSession(context, session, parts.replica, lifeMs, running), ofUsers.stopped]);
  } catch (error) {
    if (!draining.aborted) throw error;
  } finally {
    ended.abort();
    await ofUsers?.stopped.catch(() => undefined); // an error has ended the session above
    await restoreEntries(session, context);
  }
  await sleep(config.drainDelayMs);
}

/** The leader in the cluster has paused its own by now, or does so in a moment: two leaders are safe. */
function startControllersHere(context: Context, { handlers }: Replica, signal: AbortSignal) {
  const { client, identity, log } = context;
  const { record } = createEventRecorder({ client, log, component: 'gatehouse', instance: identity, signal });
  return startControllers({ ...context, record }, handlers.controllers, signal);
}

function sessionAccess(
  context: Context<Config>,
  { registry, handlers, detectors, windows, paths }: Replica,
): Pick<DevSessionOptions, 'desired' | 'serviceBundle'> {
  const { client, config, serverClock, log } = context;
  return {
    desired: (serviceBundle = '') => {
      const { mutating, validating } = webhookConfigurations(
        registry.inForce(),
        {
          ...configurationTarget(context),
          caBundle: serviceBundle,
          pathToken: paths.current() ?? '',
          restorers: restorersOf(detectors.store),
          pauses: pausesOf(windows.store, detectors.store),
          guarded: guardedPrincipals(windows.store, detectors.store, serverClock.now()).Permissions ?? [],
        },
        handlers.all,
      );
      return { mutatingwebhookconfigurations: mutating, validatingwebhookconfigurations: validating };
    },
    serviceBundle: async (signal) => {
      try {
        const ref = { namespace: config.namespace, name: CABUNDLE_CONFIGMAP };
        const bundle = (await client.get<ConfigMap>(configMaps, ref, { signal }))?.data?.[CA_BUNDLE_KEY];
        return bundle === undefined || bundle === '' ? undefined : Buffer.from(bundle).toString('base64');
      } catch (err) {
        signal.throwIfAborted();
        log.warn(
          { err },
          'could not read the CA bundle of the cluster: entries are restored with their previous bundle',
        );
        return undefined;
      }
    },
  };
}

/** The key of the authority signs this one certificate and is then discarded. */
async function sessionCertificate(host: string, now: Date) {
  const [authorityKeys, servingKeys] = await Promise.all([
    generateKeyPair(DEFAULT_KEY_ALGORITHM),
    generateKeyPair(DEFAULT_KEY_ALGORITHM),
  ]);
  const serials = { authority: randomSerial(), serving: randomSerial() };
  const certificate = await issueSessionCert({ host, authorityKeys, servingKeys, serials, now });
  return { ...certificate, key: servingKeys.privateKey };
}

function userAtHost(): string {
  try {
    return `${userInfo().username}@${hostname()}`;
  } catch {
    return hostname(); // the user has no name, as in some containers
  }
}

async function whenHealthy(checks: Webhooks['checks'], signal: AbortSignal): Promise<void> {
  while (Object.values(checks).some((check) => check() !== undefined))
    await sleep(HEALTH_POLL_MS, undefined, { signal });
}

/** The API server observes new entries with a watch, and waits five seconds for a webhook that does not respond. */
const REACHABLE_TIMEOUT_MS = 15_000;
const RETRY_MS = 250;

/** Sends dry runs until the API server calls this machine. @throws with its message if it never does */
async function checkReachable(
  { client, config, serverClock, log }: Context,
  wasAsked: () => boolean,
  url: string,
  signal: AbortSignal,
): Promise<void> {
  const deadline = performance.now() + REACHABLE_TIMEOUT_MS;
  let last = 'it called another webhook';
  while (!wasAsked()) {
    if (performance.now() > deadline)
      throw new Error(
        `the API server does not reach ${url}: ${last}. Check that the name resolves to this machine from the network of the ` +
          'API server, and that no firewall blocks the connection. The webhook entries are restored',
      );
    const result = await probeWebhook(client, config.namespace, serverClock.now(), signal);
    signal.throwIfAborted();
    if (result.kind === 'unread' && result.reason === 'Forbidden') {
      log.warn(
        { url },
        'cannot check whether the API server reaches this machine: this user lacks permission to create RestoreWindows',
      );
      return;
    }
    if (result.kind === 'unread') last = result.message;
    else if (result.value.kind === 'unreachable') last = result.value.message;
    if (!wasAsked()) await sleep(RETRY_MS, undefined, { signal });
  }
}

async function renewSession(
  context: Context,
  { reconcile }: RunningDevSession,
  { registry, detectors }: Replica,
  lifeMs: number,
  signal: AbortSignal,
): Promise<void> {
  const over = new AbortController();
  const working = AbortSignal.any([signal, over.signal]);
  const endIfRefused = (error: unknown): never => {
    if (error instanceof DevSessionRefused) over.abort(error);
    throw error;
  };
  const { stopped } = startController(
    context,
    {
      name: 'dev-session',
      key: 'gatehouse',
      on: [registry.subscribe, detectors.onChange],
      reconcile: (key, waiting) => reconcile(key, waiting).catch(endIfRefused),
    },
    working,
  );
  const timer = setTimeout(() => {
    over.abort(new DevSessionRefused('the certificate of this session expires soon: start a new session'));
  }, lifeMs);
  await stopped;
  clearTimeout(timer);
  over.signal.throwIfAborted();
}

async function restoreEntries(session: RunningDevSession, { log }: Pick<Context, 'log'>): Promise<void> {
  try {
    await session.restore(AbortSignal.timeout(RESTORE_TIMEOUT_MS));
  } catch (err) {
    log.error(
      { err },
      'could not restore the webhook entries: the leader restores them within a minute; without a leader, run this command ' +
        'again or delete the two webhook configurations named gatehouse',
    );
  }
}
