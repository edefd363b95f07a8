/** `gatehouse serve --dev-url`: in the place of leading, the webhook entries of the cluster lead here until the end. */
import { randomBytes } from 'node:crypto';
import { hostname, userInfo } from 'node:os';
import { setTimeout as sleep } from 'node:timers/promises';

import type { DevUrl } from '../../config/dev-url.ts';
import {
  createDevSession,
  DevSessionRefused,
  type RunningDevSession,
} from '../../runtime/webhooks/dev-session.ts';
import { DEFAULT_KEY_ALGORITHM, generateKeyPair, randomSerial } from '../../pki/x509/keys.ts';
import { issueSessionCert } from '../../pki/serving-certs/session-cert.ts';
import type { HealthCheck } from '../../server/health.ts';
import type { Context } from '../../runtime/context.ts';
import { startController } from '../../runtime/controller.ts';
import type { ReplicaParts } from '../../runtime/webhook-process.ts';
import { seeReached } from './probe.ts';
import { sessionAccess } from './session-access.ts';
import type { DevSessionParts } from '../../runtime/serve.ts';

/** Someone waits at a terminal for the end; the leader mends what is left. In milliseconds. */
const PUT_BACK_MS = 10_000;
/** A session ends while its certificate still holds: after it every write would fail. In milliseconds. */
const CERTIFICATE_MARGIN_MS = 3_600_000;

/**
 * Resolves when `draining` was aborted, the entries are back, and the API server has had time to learn of it.
 * @throws when the session cannot begin or go on
 */
export async function serveFromHere(
  context: Context,
  url: DevUrl,
  parts: DevSessionParts,
  draining: AbortSignal,
): Promise<void> {
  const { config, serverClock, log } = context;
  const { chain, key, authority, notAfter } = await sessionCertificate(url.host, serverClock.now());
  // Nothing leads here before somebody listens.
  await parts.listener.present({ chain, key });
  const ended = new AbortController();
  const session = createDevSession({
    ...sessionAccess(context, parts.replica),
    own: { id: randomBytes(8).toString('hex'), holder: config.identity ?? whoAndWhere(), url: url.origin },
    caBundle: Buffer.from(authority).toString('base64'),
    now: () => new Date(),
    serverNow: serverClock.now,
    log,
  });
  try {
    await whenWell(parts.checks, draining);
    await session.take('own', draining);
    await seeReached(context, parts.admission.wasAsked, url.origin, draining);
    await session.take('all', draining);
    log.info({ url: url.origin, holder: whoAndWhere() }, 'this machine decides now; end it with Ctrl+C');
    const lifeMs = notAfter.getTime() - serverClock.now().getTime() - CERTIFICATE_MARGIN_MS;
    await keepUp(context, session, parts.replica, lifeMs, AbortSignal.any([draining, ended.signal]));
  } catch (error) {
    if (!draining.aborted) throw error;
  } finally {
    ended.abort();
    await putBack(session, context);
  }
  await sleep(config.drainDelayMs);
}

/** The key of the authority is forgotten here: it signs one certificate. */
async function sessionCertificate(host: string, now: Date) {
  const [authorityKeys, servingKeys] = await Promise.all([
    generateKeyPair(DEFAULT_KEY_ALGORITHM),
    generateKeyPair(DEFAULT_KEY_ALGORITHM),
  ]);
  const serials = { authority: randomSerial(), serving: randomSerial() };
  const certificate = issueSessionCert({ host, authorityKeys, servingKeys, serials, now });
  return { ...certificate, key: servingKeys.privateKey };
}

function whoAndWhere(): string {
  try {
    return `${userInfo().username}@${hostname()}`;
  } catch {
    return hostname(); // a user without a name, as in some containers
  }
}

const LOOK_AGAIN_MS = 50;

async function whenWell(checks: DevSessionParts['checks'], signal: AbortSignal): Promise<void> {
  while (Object.values(checks).some((check) => check() !== undefined))
    await sleep(LOOK_AGAIN_MS, undefined, { signal });
}

/** Resolves when the signal aborts. @throws DevSessionRefused */
async function keepUp(
  context: Context,
  { reconcile }: RunningDevSession,
  { registry, onDetectorChange }: ReplicaParts,
  lifeMs: number,
  signal: AbortSignal,
): Promise<void> {
  const over = new AbortController();
  const working = AbortSignal.any([signal, over.signal]);
  const { add, stopped } = startController(
    context,
    {
      name: 'dev-session',
      reconcile: async (key, waiting) => {
        try {
          return await reconcile(key, waiting);
        } catch (error) {
          if (error instanceof DevSessionRefused) over.abort(error);
          throw error;
        }
      },
    },
    working,
  );
  const renew = () => {
    add('gatehouse');
  };
  registry.subscribe(renew, working);
  onDetectorChange(renew, working);
  renew();
  const timer = setTimeout(() => {
    over.abort(new DevSessionRefused('the certificate of this session ends soon: start a new one'));
  }, lifeMs);
  await stopped;
  clearTimeout(timer);
  over.signal.throwIfAborted();
}

async function putBack(session: RunningDevSession, { log }: Pick<Context, 'log'>): Promise<void> {
  try {
    await session.putBack(AbortSignal.timeout(PUT_BACK_MS));
  } catch (err) {
    log.error(
      { err },
      'could not put the webhook entries back: the leader does it within a minute; without one, run this again or delete ' +
        'the two webhook configurations named gatehouse',
    );
  }
}
