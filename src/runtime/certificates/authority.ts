/** On the leader: maintains the Secret of the authority. Never replaces it silently, because clients trust the old roots. */
import { isDeepStrictEqual } from 'node:util';
import type { Config } from '../../config/config.ts';
import { messageOf } from '../../json/abort.ts';
import { keyOf } from '../../json/kube-object.ts';
import type { KubeClient } from '../../kube/client.ts';
import { secrets, services } from '../../kube/well-known.ts';
import {
  AUTHORITY_SECRET,
  NEW_AUTHORITY,
  ROTATE,
  SERVING_CERT_SELECTOR,
  SERVING_CERT_SERVICE,
  SERVING_CERT_SERVICE_UID,
} from '../../pki/annotations.ts';
import { activeGeneration, type Authority, authorityOf } from '../../pki/authority/authority.ts';
import { type ImportedAuthority, lifeOf } from '../../pki/authority/generation.ts';
import { importAuthority } from '../../pki/authority/imported-ca.ts';
import { judgeAuthority, startOver, type StoredAuthority } from '../../pki/authority/recovery.ts';
import { AuthorityBroken, parseAuthority, withAuthority } from '../../pki/authority/secret.ts';
import { forbidsClientCerts } from '../../pki/authority/trial.ts';
import { lateRecord, retirementTime } from '../../pki/authority/trust-record.ts';
import { MINUTE } from '../../pki/durations.ts';
import type { Secret } from '../../pki/serving-certs/secret.ts';
import { generateKeyPair, randomSerial } from '../../pki/x509/keys.ts';
import type { Context } from '../context.ts';
import {
  createReminders,
  type LeaderContext,
  type Reconcile,
  type ReconcileResult,
  type RecordEvent,
  requeueIn,
  type RunningController,
  startController,
} from '../controller.ts';
import { certificateNamespaces, listIn, type Namespaces } from '../namespaces.ts';
import { watch } from '../watch.ts';
import { createRefusedWrites, refusable, WriteRefused } from '../write-refused.ts';
import {
  type Announce,
  authorityCreated,
  type AuthorityEvent,
  authorityRestored,
  caForServersOnly,
  caRefused,
  caUnreadable,
  createAnnouncer,
  signerBroken,
  targetsUnreadable,
  trustNotRecorded,
  writeRefused,
} from './authority-events.ts';
import { ownStateLabels, readPublishedBundles } from './ca-bundle.ts';
import { trialScope } from './serving-cert-stores.ts';
import { makeGeneration, type RotationContext, stepRotation, type TrustEvidence } from './rotation-step.ts';

const BROKEN_MS = 30_000;

export interface AuthorityContext extends Omit<RotationContext, 'client'> {
  readonly onAuthority: (authority: Authority) => void;
  readonly client: Pick<KubeClient, 'get' | 'listAll' | 'create' | 'replace'>;
  readonly config: Pick<
    Config,
    'namespace' | 'namespaces' | 'without' | 'ca' | 'caPropagationWaitMs' | 'servingCerts' | 'clusterDomain'
  >;
  readonly metrics: Pick<Context['metrics'], 'authority' | 'authorityRestored'>;
  readonly record: RecordEvent;
}

interface Running extends AuthorityContext {
  readonly lastGood: () => Authority | undefined;
  /** Gives the authority to signers and publishers if it has changed. They check everything derived from it again. */
  readonly distribute: (authority: Authority) => void;
  readonly announce: Announce;
  /** Records an event about a state, and again before Kubernetes forgets it. Different states have different keys. */
  readonly remind: (secret: Secret | undefined, event: AuthorityEvent | undefined, key?: string) => void;
  readonly checkRecord: (secret: Secret, authority: Authority) => void;
}

interface Pass extends Running, Awaited<ReturnType<typeof observe>> {
  readonly signal: AbortSignal;
}

export function startAuthority(
  context: LeaderContext,
  evidence: TrustEvidence,
  onAuthority: (authority: Authority) => void,
  signal: AbortSignal,
): RunningController {
  const { config, metrics, serverClock } = context;
  const { namespace, ca } = config;
  const keys = { generateKeyPair, randomSerial };
  const reconcile = createAuthorityReconciler({ ...context, ...keys, evidence, onAuthority });
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
    const pass = { ...running, ...(await observe(running, signal)), signal };
    const result = await refusedWrites.attempt(key, () => advance(pass));
    if (!(result instanceof WriteRefused)) return result;
    running.remind(pass.secret, writeRefused(result.message));
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
  const ours = { ...options, labelSelector: SERVING_CERT_SELECTOR };
  const certs = await listIn(client, secrets, namespaces, ours);
  if (certs.length === 0) return 0;
  const items = await listIn(client, services, namespaces, options);
  const uids = new Map(items.map((service) => [keyOf(service), service.metadata?.uid]));
  return certs.filter(({ metadata }) => {
    const { [SERVING_CERT_SERVICE]: service, [SERVING_CERT_SERVICE_UID]: uid } = metadata?.annotations ?? {};
    return uid !== undefined && uids.get(`${metadata?.namespace ?? ''}/${service ?? ''}`) === uid;
  }).length;
}

async function advance(pass: Pass): Promise<ReconcileResult> {
  const { secret, verdict, now } = pass;
  switch (verdict.kind) {
    case 'usable':
      if (secret === undefined) throw new Error('an authority that can be used has a secret');
      return await rotate(pass, secret, verdict.authority);
    case 'broken':
      pass.remind(secret, signerBroken(verdict));
      report('broken', pass.lastGood(), pass, verdict.reason);
      return requeueIn(BROKEN_MS, now);
    case 'bootstrap':
    case 'start-over': {
      const { imported, refused, cause } = await readImported(pass);
      if (refused !== undefined) throw new Error(refused.message, { cause });
      const fresh = authorityOf(await makeGeneration({ ...pass, imported }, undefined), now);
      const rotate = secret?.metadata?.annotations?.[ROTATE]; // the new authority is what it requests
      const authority = verdict.kind === 'bootstrap' ? fresh : startOver(fresh, verdict.retained, rotate);
      return await write(pass, authority, authorityCreated(verdict.kind, authority));
    }
    case 'write-back':
    case 'adopt':
      return await write(pass, verdict.authority, authorityRestored(verdict));
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

async function rotate(pass: Pass, secret: Secret, authority: Authority): Promise<ReconcileResult> {
  const { config, evidence, now, announce, distribute, remind, checkRecord } = pass;
  for (const unreadable of evidence.unreadable())
    remind(secret, targetsUnreadable(unreadable), unreadable.kind);
  distribute(authority); // before any step that may fail, so that renewals continue
  const { imported, limited, refused, cause } = await readImported(pass);
  remind(secret, refused);
  remind(secret, limited);
  const usable = config.ca.secret === undefined ? undefined : (imported ?? standIn(authority));
  const step = { ...pass, secret, authority, imported: usable };
  const outcome = await stepRotation(step).catch((error: unknown) => {
    checkRecord(secret, authority);
    throw error;
  });
  checkRecord(secret, outcome.authority);
  report(outcome.phase, outcome.authority, pass);
  if (outcome.recheckAt === undefined) {
    announce(secret, outcome.event);
    distribute(outcome.authority);
  } else if (refused === undefined) remind(secret, outcome.event);
  if (cause !== undefined) throw new Error('could not read the imported CA', { cause }); // retried with backoff
  if (outcome.recheckAt !== undefined) return { kind: 'requeue', at: outcome.recheckAt };
  return requeueIn(0, now); // the next step may be due immediately
}

async function write(pass: Pass, authority: Authority, event: AuthorityEvent): Promise<ReconcileResult> {
  const { secret: existing, verdict, now, client, config, metrics, log, signal } = pass;
  const { metadata, data } = existing ?? {};
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
    data: withAuthority(data, authority),
  };
  // Two leaders may both get here. The API server accepts one write; the other leader discards its authority.
  await refusable(() =>
    (existing === undefined ? client.create : client.replace)(secrets, secret, { signal }),
  );
  log.info({ verdict: verdict.kind, generation: activeGeneration(authority).id }, 'wrote the authority');
  pass.announce(existing, event);
  if (verdict.kind === 'write-back') metrics.authorityRestored();
  pass.distribute(authority);
  return requeueIn(0, now);
}

/** Reads the CA that its owner makes and rotates. What the authority needs without it continues. */
async function readImported({ client, config, evidence, now, signal }: Pass) {
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
  return { imported: result.authority, limited: isShort ? caForServersOnly(...ref) : undefined };
}

/** While the owner's Secret is unusable, the latest CA from it counts: Gatehouse neither replaces nor withdraws it. */
function standIn({ generations: [newest] }: Authority): ImportedAuthority | undefined {
  if (newest?.key === undefined) return undefined;
  const { id, certificate, chain, key } = newest;
  return { id, certificate, chain, key };
}
