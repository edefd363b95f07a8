/** On the leader: maintains the Secret with every generation of the authority. Never replaces it silently: every client still trusts the old roots. */
import { isDeepStrictEqual } from 'node:util';
import type { RestoreWindow } from '../../api/restore-window.ts';
import type { Config } from '../../config/config.ts';
import { messageOf } from '../../json/error-message.ts';
import { keyOf } from '../../json/kube-object.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { ServerClock } from '../../kube/clock.ts';
import { secrets, services } from '../../kube/well-known.ts';
import type { Log } from '../../log.ts';
import {
  AUTHORITY_SECRET,
  DISTRUST,
  NEW_AUTHORITY,
  ROTATE,
  SERVING_CERT_SELECTOR,
  SERVING_CERT_SERVICE,
  SERVING_CERT_SERVICE_UID,
} from '../../pki/annotations.ts';
import {
  activate,
  activeGeneration,
  type Authority,
  authorityOf,
  prepare,
  publish,
  recordTrust,
  remove,
  renewRoot,
  replaceActive,
} from '../../pki/authority/authority.ts';
import { type LaggingTargets, trusts, type UnreadableKind } from '../../pki/authority/bundle.ts';
import {
  createGeneration,
  type Generation,
  type ImportedAuthority,
  importGeneration,
  lifeOf,
} from '../../pki/authority/generation.ts';
import { importAuthority } from '../../pki/authority/imported-ca.ts';
import { judgeAuthority, startOver, type StoredAuthority } from '../../pki/authority/recovery.ts';
import {
  planRotation,
  refusal,
  rotationPhase,
  type RotationPhase,
  type RotationPlan,
  type RotationState,
} from '../../pki/authority/rotation-plan.ts';
import { type SignAs, signHere } from '../../pki/authority/sealed-key.ts';
import { AuthorityBroken, parseAuthority, withAuthority } from '../../pki/authority/secret.ts';
import { activationProblem, forbidsClientCerts } from '../../pki/authority/trial.ts';
import { lateRecord, retirementTime } from '../../pki/authority/trust-record.ts';
import { after, CLOCK_TOLERANCE, earliest, MINUTE } from '../../pki/durations.ts';
import type { Secret } from '../../pki/serving-certs/secret.ts';
import {
  DEFAULT_KEY_ALGORITHM,
  generateKeyPair,
  type KeyAlgorithm,
  type KeyPair,
  randomSerial,
} from '../../pki/x509/keys.ts';
import { windowState } from '../../restore/window.ts';
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
import { RESTORE_WINDOWS } from '../resources.ts';
import { watch } from '../watch.ts';
import { CLUSTER_ROLE, createRefusedWrites, refusable, WriteRefused } from '../write-refused.ts';
import {
  type Announce,
  authorityCreated,
  type AuthorityEvent,
  authorityRestored,
  caForServersOnly,
  caRefused,
  caUnreadable,
  createAnnouncer,
  rotationRefused,
  rotationStepped,
  rotationWaiting,
  signerBroken,
  targetsUnreadable,
  trustNotRecorded,
  writeRefused,
} from './authority-events.ts';
import { ownStateLabels, readPublishedBundles } from './ca-bundle.ts';
import { domainsOfNewCa, trialScope } from './serving-cert-stores.ts';

/** How often to check a broken authority that does not change, in milliseconds. */
const BROKEN_MS = 30_000;

interface Running extends AuthorityContext {
  readonly lastGood: () => Authority | undefined;
  /** Gives the authority to signers and publishers if it has changed. They check everything derived from it again. */
  readonly distribute: (authority: Authority) => void;
  readonly announce: Announce;
  /** Records an event about a state, and again before Kubernetes forgets it. Different states have different keys. */
  readonly remind: (secret: Secret | undefined, event: AuthorityEvent | undefined, key?: string) => void;
  readonly checkRecord: (secret: Secret, authority: Authority) => void;
}

/** One reconcile: what it has read live, and what it uses. */
interface Pass extends Running, Awaited<ReturnType<typeof observe>> {
  readonly signal: AbortSignal;
}

/** A pass over an authority that can be used. */
interface Step extends Pass {
  readonly secret: Secret;
  readonly authority: Authority;
  readonly imported: ImportedAuthority | undefined;
}

export function startAuthority(
  context: LeaderContext,
  evidence: TrustEvidence,
  onAuthority: (authority: Authority) => void,
  signal: AbortSignal,
): RunningController {
  const { config, metrics, serverClock } = context;
  const { namespace, ca } = config;
  const keys = { generateKeyPair, randomSerial, sign: signHere };
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
      const authority = verdict.kind === 'bootstrap' ? fresh : startOver(fresh, verdict.retained);
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
  return requeueIn(0, now); // the next step may be due at once
}

async function write(pass: Pass, authority: Authority, event: AuthorityEvent): Promise<ReconcileResult> {
  const { secret: existing, verdict, now, client, config, metrics, log, signal } = pass;
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
  pass.announce(existing, event);
  if (verdict.kind === 'write-back') metrics.authorityRestored();
  pass.distribute(authority);
  return requeueIn(0, now);
}

interface ReadCa {
  readonly imported?: ImportedAuthority;
  readonly limited?: AuthorityEvent;
  readonly refused?: AuthorityEvent;
  readonly cause?: unknown;
}

/** Reads the CA that its owner makes and rotates. What the authority needs without it continues. */
async function readImported({ client, config, evidence, now, signal }: Pass): Promise<ReadCa> {
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

/** While the owner's Secret is unusable, the latest CA from it counts: Gatehouse neither replaces nor withdraws it. */
function standIn({ generations: [newest] }: Authority): ImportedAuthority | undefined {
  if (newest?.key === undefined) return undefined;
  const { id, certificate, chain, key } = newest;
  return { id, certificate, chain, key };
}

export interface TrustEvidence {
  /** The targets of the CA bundle that lack the root of this generation; undefined: not known yet. */
  readonly targetsWithout: (generation: string) => LaggingTargets | undefined;
  /** The longest life, in milliseconds, of a serving cert that a Service may get now; undefined: not known yet. */
  readonly longestLifeMs: () => number | undefined;
  /** The cluster IPs of one Service, in their canonical form; none: not known yet. */
  readonly clusterIPs: () => readonly string[];
  readonly wantsClientCerts: () => boolean;
  /** The kinds of targets that Gatehouse may not list, for users. */
  readonly unreadable: () => readonly UnreadableKind[];
}

export interface KeySource {
  readonly generateKeyPair: (algorithm: KeyAlgorithm) => Promise<KeyPair>;
  readonly randomSerial: () => Uint8Array;
}

export interface AuthorityContext extends KeySource {
  readonly onAuthority: (authority: Authority) => void;
  readonly client: Pick<KubeClient, 'get' | 'listAll' | 'create' | 'replace'>;
  readonly config: Pick<
    Config,
    'namespace' | 'namespaces' | 'without' | 'ca' | 'caPropagationWaitMs' | 'servingCerts' | 'clusterDomain'
  >;
  /** The same time for all replicas: two leaders must agree about what has expired. */
  readonly serverClock: Pick<ServerClock, 'now' | 'skewMs'>;
  readonly evidence: TrustEvidence;
  /** Signs with the keys of the authority. Default: in this process. */
  readonly sign?: SignAs;
  readonly metrics: Pick<Context['metrics'], 'authority' | 'authorityRestored'>;
  readonly record: RecordEvent;
  readonly log: Log;
}

/** `recheckAt` is undefined after a write, because the next step may be due at once. */
async function stepRotation(step: Step) {
  const { secret, authority, client, config, evidence, now, log, signal } = step;
  const state = await stateOf(step);
  const wanted = planRotation(state);
  const isRotation = wanted.kind !== 'none' && wanted.kind !== 'record-trust';
  const paused = isRotation ? await pauseReason(step) : undefined;
  const plan = paused === undefined ? wanted : planRotation({ ...state, paused });
  if (plan.kind === 'none') {
    const why = refusal({ ...state, paused });
    const event = why === undefined ? waitingEvent(state, plan.phase) : rotationRefused(why);
    const recheckAt = paused === undefined ? plan.recheckAt : earliest(plan.recheckAt, after(now, MINUTE));
    return { ...plan, authority, event, recheckAt };
  }

  const next = await apply(step, plan);
  const stored = { ...secret, data: withAuthority(secret.data, next) };
  await refusable(CLUSTER_ROLE, () => client.replace(secrets, stored, { signal }));
  log.info({ plan, generation: activeGeneration(next).id }, 'the rotation of the authority advanced');
  const { dnsNames } = trialScope(config, evidence.clusterIPs());
  const event = rotationStepped(plan, next, now, dnsNames);
  return { authority: next, phase: rotationPhase({ authority: next, paused }), event, recheckAt: undefined };
}

/** Why no change is allowed now; read live. The record of trust does not wait for windows that cannot be read. */
async function pauseReason(step: Step): Promise<string | undefined> {
  const skew = Math.abs(step.serverClock.skewMs() ?? 0);
  if (skew > CLOCK_TOLERANCE)
    return `the clock of this replica and that of the API server are ${Math.round(skew / 60_000)} minutes apart`;
  return await restorePause(step, step.serverClock.now(), step.signal);
}

interface PauseContext {
  readonly client: Pick<KubeClient, 'listAll'>;
  readonly config: Pick<Config, 'without'>;
  readonly log: Log;
}

/** Why nothing may change because of a restore, for users. Reads live. */
export async function restorePause(
  { client, config, log }: PauseContext,
  now: Date,
  signal: AbortSignal,
): Promise<string | undefined> {
  if (config.without.includes('restores')) return undefined;
  try {
    const { items } = await client.listAll<RestoreWindow>(RESTORE_WINDOWS, { signal });
    const open = items.find((window) => windowState(window, now).kind === 'open');
    return open === undefined ? undefined : `the restore window ${open.metadata.name ?? ''} is open`;
  } catch (err) {
    signal.throwIfAborted();
    log.warn({ err }, 'the restore windows cannot be read');
    return `the restore windows cannot be read (${messageOf(err)})`;
  }
}

async function stateOf(step: Step): Promise<RotationState> {
  const { config, evidence, sign, secret, authority, published, imported, now } = step;
  const annotations = secret.metadata?.annotations ?? {};
  const scope = trialScope(config, evidence.clusterIPs());
  const ownTargetsWithout = (generation: Generation) =>
    published.filter(({ bundle }) => !trusts(bundle ?? '', generation)).map(({ target }) => target);
  return {
    authority,
    now,
    times: { propagationWaitMs: config.caPropagationWaitMs },
    targetsWithout: (id) => {
      const generation = authority.generations.find((one) => one.id === id);
      const others = evidence.targetsWithout(id);
      if (generation === undefined || others === undefined) return undefined;
      // Without any published bundle, no client can trust the root yet: the ConfigMap is about to be created.
      const own = published.length === 0 ? ['the CA bundle itself'] : ownTargetsWithout(generation);
      return { ...others, vetoing: [...own, ...others.vetoing] };
    },
    longestLifeMs: evidence.longestLifeMs(),
    rotate: annotations[ROTATE] === '' ? undefined : annotations[ROTATE],
    distrust: (annotations[DISTRUST] ?? '').split(/[\s,]+/).filter((id) => id !== ''),
    paused: undefined,
    activationProblem: await activationProblem(authority, scope, now, sign),
    imported,
  };
}

async function apply(step: Step, plan: Exclude<RotationPlan, { kind: 'none' }>): Promise<Authority> {
  const { authority, imported, now, secret } = step;
  switch (plan.kind) {
    case 'prepare': {
      const pending = await makeGeneration(step, activeGeneration(authority));
      // One rotation serves every reason that is present now.
      const rotatedFor = imported === undefined ? secret.metadata?.annotations?.[ROTATE] : undefined;
      return prepare(authority, pending, rotatedFor);
    }
    case 'publish':
      return publish(authority, plan.id, now);
    case 'activate':
      return activate(authority, plan.id, now);
    case 'record-trust':
      return recordTrust(authority, plan.ids, plan.until);
    case 'retire':
      return remove(authority, plan.ids);
    case 'abandon':
      return remove(authority, [plan.id]);
    case 'distrust':
      return plan.replace
        ? replaceActive(authority, plan.ids, await makeGeneration(step, undefined), now)
        : remove(authority, plan.ids);
    case 'renew-root':
      return imported === undefined ? authority : renewRoot(authority, imported, now);
  }
}

async function makeGeneration(
  pass: Pass & { readonly imported: ImportedAuthority | undefined },
  previous: Generation | undefined,
): Promise<Generation> {
  const { config, imported, now, sign } = pass;
  const serial = pass.randomSerial();
  if (imported !== undefined) return await importGeneration(imported, { serial, now, previous, sign });
  const keyPair = await pass.generateKeyPair(DEFAULT_KEY_ALGORITHM);
  const { lifetimeMs } = config.ca;
  const domains = domainsOfNewCa(config);
  return await createGeneration({ keyPair, serial, now, lifetimeMs, domains, previous, sign });
}

function waitingEvent(
  { authority, targetsWithout }: RotationState,
  phase: RotationPhase,
): AuthorityEvent | undefined {
  if (phase !== 'publishing' && phase !== 'propagating') return undefined;
  const pending = authority.generations.find(({ state }) => state === 'pending');
  const lagging = pending && targetsWithout(pending.id);
  return lagging && rotationWaiting(pending, lagging);
}
