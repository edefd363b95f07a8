/**
 * On the leader: maintains the Secret with every generation of the authority. An unusable Secret is restored from the
 * copy in this process, or reported. It is never silently replaced, because every client still trusts the old roots.
 */
import { isDeepStrictEqual } from 'node:util';

import type { KubeClient } from '../../kube/client.ts';
import { keyOf } from '../../json/kube-object.ts';
import { secrets, services } from '../../kube/well-known.ts';
import {
  AUTHORITY_SECRET,
  NEW_AUTHORITY,
  SERVING_CERT_SELECTOR,
  SERVING_CERT_SERVICE,
  SERVING_CERT_SERVICE_UID,
} from '../../pki/annotations.ts';
import { activeGeneration, authorityOf, type Authority } from '../../pki/authority/authority.ts';
import { lifeOf, type ImportedAuthority } from '../../pki/authority/generation.ts';
import { MINUTE } from '../../pki/durations.ts';
import { judgeAuthority, startOver, type StoredAuthority } from '../../pki/authority/recovery.ts';
import { signHere } from '../../pki/authority/sealed-key.ts';
import { lateRecord, retirementTime } from '../../pki/authority/trust-record.ts';
import { AuthorityBroken, parseAuthority, withAuthority } from '../../pki/authority/secret.ts';
import type { Secret } from '../../pki/serving-certs/secret.ts';
import { generateKeyPair, randomSerial } from '../../pki/x509/keys.ts';
import type { Context } from '../context.ts';
import {
  createReminders,
  requeueIn,
  startController,
  type LeaderContext,
  type Reconcile,
  type ReconcileResult,
  type RecordEvent,
  type RunningController,
} from '../controller.ts';
import { certificateNamespaces, listIn, type Namespaces } from '../namespaces.ts';
import { watch } from '../watch.ts';
import { CLUSTER_ROLE, createRefusedWrites, refusable, WriteRefused } from '../write-refused.ts';
import {
  authorityCreated,
  authorityRestored,
  createAnnouncer,
  signerBroken,
  targetsUnreadable,
  trustNotRecorded,
  writeRefused,
  type Announce,
  type AuthorityEvent,
  caForServersOnly,
  caRefused,
  caUnreadable,
} from './authority-events.ts';
import { ownStateLabels, readPublishedBundles } from './ca-bundle.ts';
import { makeGeneration, stepRotation, type RotationContext, type TrustEvidence } from './rotation.ts';
import { messageOf } from '../../json/error-message.ts';
import { importAuthority } from '../../pki/authority/imported-ca.ts';
import { forbidsClientCerts } from '../../pki/authority/trial.ts';
import { trialScope } from './service-requests.ts';

export interface AuthorityContext extends RotationContext {
  /** Receives the stored authority, for signers and publishers. */
  readonly onAuthority: (authority: Authority) => void;
  readonly metrics: Pick<Context['metrics'], 'authority' | 'authorityRestored'>;
  readonly record: RecordEvent;
}

/** How often to check a broken authority that does not change, in milliseconds. */
const BROKEN_MS = 30_000;

type Observed = Awaited<ReturnType<typeof observe>>;

interface Running extends AuthorityContext {
  readonly lastGood: () => Authority | undefined;
  /** Gives the authority to signers and publishers if it has changed. They check everything derived from it again. */
  readonly distribute: (authority: Authority) => void;
  /** Records an event about a write. */
  readonly announce: Announce;
  /** Records an event about a state, and again before Kubernetes forgets it. Different states have different keys. */
  readonly remind: (secret: Secret | undefined, event: AuthorityEvent | undefined, key?: string) => void;
  /** After a step: reports a record of trust that stays too short. */
  readonly checkRecord: (secret: Secret, authority: Authority) => void;
}

/** Watches the Secret with the authority, and the Secret with an imported CA. */
export function startAuthority(
  context: LeaderContext,
  evidence: TrustEvidence,
  onAuthority: (authority: Authority) => void,
  signal: AbortSignal,
): RunningController {
  const { config, metrics, serverClock } = context;
  const { namespace, ca } = config;
  const keySource = { generateKeyPair, randomSerial };
  const reconcile = createAuthorityReconciler({
    ...{ ...context, ...keySource, sign: signHere },
    ...{ evidence, onAuthority },
  });
  const on = [AUTHORITY_SECRET, ca.secret ?? []]
    .flat()
    .map((name) => watch(context, { resource: secrets, namespace, name }, signal).onChange);
  signal.addEventListener('abort', () => metrics.authority(undefined));
  return startController(
    context,
    { name: 'authority', key: AUTHORITY_SECRET, on, reconcile, serverNow: serverClock.now },
    signal,
  );
}

export function createAuthorityReconciler(context: AuthorityContext): Reconcile {
  const { config, serverClock, record, log } = context;
  let lastGood: Authority | undefined;
  let lateAt: Date | undefined;
  const reminders = createReminders();
  const announce = createAnnouncer(config.namespace, record, log);
  const running: Running = {
    ...context,
    lastGood: () => lastGood,
    distribute: (authority) => {
      const isNew = !isDeepStrictEqual(authority, lastGood);
      lastGood = authority;
      if (isNew) context.onAuthority(authority);
    },
    announce,
    remind: (secret, event, key = event?.reason ?? '') => {
      if (event !== undefined && reminders.isDue(key, event.message, serverClock.now()))
        announce(secret, event);
    },
    checkRecord: (secret, authority) => {
      const now = serverClock.now();
      const late = lateRecord(authority, now);
      lateAt = late && (lateAt ?? now);
      // Late for a moment: no replica has led for some days.
      if (late !== undefined && lateAt !== undefined && now.getTime() - lateAt.getTime() >= MINUTE)
        running.remind(secret, trustNotRecorded(late));
    },
  };
  const refusedWrites = createRefusedWrites(serverClock.now);

  return async (key, signal) => {
    const observed = await observe(running, signal);
    const result = await refusedWrites.attempt(key, () => advance(observed, running, signal));
    if (!(result instanceof WriteRefused)) return result;
    running.remind(observed.secret, writeRefused(result.message));
    throw result;
  };
}

/** Reads from the API server, never from a store: an absent Secret can lead to a new authority. */
async function observe({ client, config, serverClock, lastGood }: Running, signal: AbortSignal) {
  const now = serverClock.now();
  const { namespace } = config;
  const secret = await client.get<Secret>(secrets, { namespace, name: AUTHORITY_SECRET }, { signal });
  const published = await readPublishedBundles(client, namespace, signal);
  const stored = toStored(secret);
  const verdict = judgeAuthority({
    stored,
    published: published.flatMap(({ bundle }) => bundle ?? []),
    servingCerts:
      stored.kind === 'readable' ? 0 : await countServingCerts(client, certificateNamespaces(config), signal),
    lastGood: lastGood(),
    consent: secret?.metadata?.annotations?.[NEW_AUTHORITY],
    now,
  });
  return { secret, published, verdict, now };
}

function toStored(secret: Secret | undefined): StoredAuthority {
  if (secret === undefined) return { kind: 'absent' };
  if (Object.keys(secret.data ?? {}).length === 0) return { kind: 'empty' };
  try {
    return { kind: 'readable', authority: parseAuthority(secret.data ?? {}) };
  } catch (error) {
    if (error instanceof AuthorityBroken) return { kind: 'unreadable', message: error.message };
    throw error;
  }
}

/** Counts only certs of existing Services: no client here trusts a cert that a backup brought from another cluster. */
async function countServingCerts(
  client: Pick<KubeClient, 'listAll'>,
  namespaces: Namespaces,
  signal: AbortSignal,
): Promise<number> {
  const options = { metadataOnly: true, signal } as const;
  const certs = await listIn(client, secrets, namespaces, {
    ...options,
    labelSelector: SERVING_CERT_SELECTOR,
  });
  if (certs.length === 0) return 0;
  const items = await listIn(client, services, namespaces, options);
  const uids = new Map(items.map((service) => [keyOf(service), service.metadata?.uid]));
  return certs.filter(({ metadata }) => {
    const { [SERVING_CERT_SERVICE]: service, [SERVING_CERT_SERVICE_UID]: uid } = metadata?.annotations ?? {};
    return uid !== undefined && uids.get(`${metadata?.namespace ?? ''}/${service ?? ''}`) === uid;
  }).length;
}

async function advance(observed: Observed, running: Running, signal: AbortSignal): Promise<ReconcileResult> {
  const { secret, verdict, now } = observed;
  switch (verdict.kind) {
    case 'usable':
      if (secret === undefined) throw new Error('an authority that can be used has a secret');
      return await rotate(observed, secret, verdict.authority, running, signal);
    case 'broken':
      running.remind(secret, signerBroken(verdict));
      report('broken', running.lastGood(), running, verdict.reason);
      return requeueIn(BROKEN_MS, now);
    case 'bootstrap':
    case 'start-over': {
      const { imported, refused, cause } = await readImported(running, now, signal);
      if (refused !== undefined) throw new Error(refused.message, { cause });
      const fresh = authorityOf(await makeGeneration(running, imported, now, undefined), now);
      const authority = verdict.kind === 'bootstrap' ? fresh : startOver(fresh, verdict.retained);
      return await write(observed, authority, authorityCreated(verdict.kind, authority), running, signal);
    }
    case 'write-back':
    case 'adopt':
      return await write(observed, verdict.authority, authorityRestored(verdict), running, signal);
  }
}

function report(
  phase: string,
  authority: Authority | undefined,
  { metrics }: Pick<AuthorityContext, 'metrics'>,
  broken?: string,
): void {
  const generations = (authority?.generations ?? []).map((generation) => ({
    id: generation.id,
    state: generation.state,
    notAfter: lifeOf(generation).notAfter,
    retiresAt: retirementTime(generation),
  }));
  metrics.authority({ phase, broken, generations });
}

async function rotate(
  { published, now }: Observed,
  secret: Secret,
  authority: Authority,
  running: Running,
  signal: AbortSignal,
): Promise<ReconcileResult> {
  for (const unreadable of running.evidence.unreadable())
    running.remind(secret, targetsUnreadable(unreadable), unreadable.kind);
  running.distribute(authority); // before any step that may fail, so that renewals continue
  const { imported, limited, refused, cause } = await readImported(running, now, signal);
  running.remind(secret, refused);
  running.remind(secret, limited);
  const usable = running.config.ca.secret === undefined ? undefined : (imported ?? standIn(authority));
  const input = { secret, authority, published, imported: usable, now };
  const outcome = await stepRotation(running, input, signal).catch((error: unknown) => {
    running.checkRecord(secret, authority);
    throw error;
  });
  running.checkRecord(secret, outcome.authority);
  report(outcome.phase, outcome.authority, running);
  if (outcome.recheckAt === undefined) {
    running.announce(secret, outcome.event);
    running.distribute(outcome.authority);
  } else if (refused === undefined) running.remind(secret, outcome.event);
  if (cause !== undefined) throw new Error('could not read the imported CA', { cause }); // retried with backoff
  if (outcome.recheckAt !== undefined) return { kind: 'requeue', at: outcome.recheckAt };
  return requeueIn(0, now); // the next step may be due at once
}

/** Creates the Secret, or replaces the version that was read. The write removes the consent annotation. */
async function write(
  { secret: existing, verdict, now }: Observed,
  authority: Authority,
  event: AuthorityEvent,
  { client, config, metrics, log, announce, distribute }: Running,
  signal: AbortSignal,
): Promise<ReconcileResult> {
  const { metadata } = existing ?? {};
  const annotations = Object.entries(metadata?.annotations ?? {}).filter(([name]) => name !== NEW_AUTHORITY);
  const secret: Secret = {
    apiVersion: 'v1',
    kind: 'Secret',
    type: 'gatehouse.dev/authority',
    ...existing,
    metadata: {
      ...metadata,
      namespace: config.namespace,
      name: AUTHORITY_SECRET,
      labels: { ...metadata?.labels, ...ownStateLabels },
      annotations: Object.fromEntries(annotations),
    },
    data: withAuthority(existing?.data, authority),
  };
  // Two leaders may both get here. The API server accepts one write; the other leader discards its authority.
  await refusable(CLUSTER_ROLE, () =>
    (existing === undefined ? client.create : client.replace)(secrets, secret, { signal }),
  );
  log.info({ verdict: verdict.kind, generation: activeGeneration(authority).id }, 'wrote the authority');
  announce(existing, event);
  if (verdict.kind === 'write-back') metrics.authorityRestored();
  distribute(authority);
  return requeueIn(0, now);
}

interface ReadCa {
  readonly imported?: ImportedAuthority;
  /** It can be used, but not for everything that Services request. */
  readonly limited?: AuthorityEvent;
  /** It cannot be used. */
  readonly refused?: AuthorityEvent;
  /** It could not be read. */
  readonly cause?: unknown;
}

/**
 * Reads the CA that its owner makes and rotates, if the configuration names one. What the authority needs without it
 * continues.
 */
async function readImported(
  { client, config, evidence }: Pick<RotationContext, 'client' | 'config' | 'evidence'>,
  now: Date,
  signal: AbortSignal,
): Promise<ReadCa> {
  const { namespace, ca } = config;
  if (ca.secret === undefined) return {};
  const ref = [namespace, ca.secret] as const;
  let secret: Secret | undefined;
  try {
    secret = await client.get<Secret>(secrets, { namespace, name: ca.secret }, { signal });
  } catch (cause) {
    signal.throwIfAborted();
    return { refused: caUnreadable(...ref, messageOf(cause)), cause };
  }
  if (secret === undefined) return { refused: caRefused(...ref, 'the secret does not exist') };
  const result = await importAuthority(secret.data, trialScope(config, evidence.clusterIPs()), now);
  if (result.kind === 'refused') return { refused: caRefused(...ref, result.problem) };
  const isShort = evidence.wantsClientCerts() && forbidsClientCerts(result.authority);
  return { imported: result.authority, ...(isShort ? { limited: caForServersOnly(...ref) } : {}) };
}

/**
 * While the owner's Secret is unusable, the latest CA from it counts as imported, so that Gatehouse neither replaces an
 * active one nor withdraws a pending one.
 */
function standIn({ generations: [newest] }: Authority): ImportedAuthority | undefined {
  if (newest?.key === undefined) return undefined;
  const { id, certificate, chain, key } = newest;
  return { id, certificate, chain, key };
}
