/** One step of the authority: read the evidence, plan, and write the Secret at most once, if it is unchanged. */
import type { RestoreWindow } from '../../api/restore-window.ts';
import type { Config } from '../../config/config.ts';
import { messageOf } from '../../json/error-message.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { ServerClock } from '../../kube/clock.ts';
import { secrets } from '../../kube/well-known.ts';
import { DISTRUST, ROTATE } from '../../pki/annotations.ts';
import {
  activate,
  activeGeneration,
  prepare,
  publish,
  recordTrust,
  remove,
  renewRoot,
  replaceActive,
  type Authority,
} from '../../pki/authority/authority.ts';
import { trusts, type LaggingTargets, type UnreadableKind } from '../../pki/authority/bundle.ts';
import {
  createGeneration,
  importGeneration,
  type Generation,
  type ImportedAuthority,
} from '../../pki/authority/generation.ts';
import type { SignAs } from '../../pki/authority/sealed-key.ts';
import { activationProblem } from '../../pki/authority/trial.ts';
import {
  planRotation,
  refusal,
  rotationPhase,
  type RotationPhase,
  type RotationPlan,
  type RotationState,
} from '../../pki/authority/rotation-plan.ts';
import { after, earliest, MINUTE, CLOCK_TOLERANCE } from '../../pki/durations.ts';
import { withAuthority } from '../../pki/authority/secret.ts';
import type { Secret } from '../../pki/serving-certs/secret.ts';
import { DEFAULT_KEY_ALGORITHM, type KeyAlgorithm, type KeyPair } from '../../pki/x509/keys.ts';
import { windowState } from '../../restore/window.ts';
import type { Log } from '../../log.ts';
import { CLUSTER_ROLE, refusable } from '../write-refused.ts';
import { RESTORE_WINDOWS } from '../resources.ts';
import {
  rotationRefused,
  rotationStepped,
  rotationWaiting,
  type AuthorityEvent,
} from './authority-events.ts';
import type { PublishedBundle } from './ca-bundle.ts';
import { domainsOfNewCa, trialScope } from './service-requests.ts';

/** The state of a generation in the cluster. A rotation reads it before each step. */
export interface TrustEvidence {
  /** The targets of the CA bundle that lack the root of this generation; undefined: not known yet. */
  readonly targetsWithout: (generation: string) => LaggingTargets | undefined;
  /** The longest life, in milliseconds, of a serving cert that a Service may get now; undefined: not known yet. */
  readonly longestLifeMs: () => number | undefined;
  /** The cluster IPs of one Service, in their canonical form; none: not known yet. */
  readonly clusterIPs: () => readonly string[];
  /** Whether some Service asks for a client certificate. */
  readonly wantsClientCerts: () => boolean;
  /** The kinds of targets that Gatehouse may not list, for users. */
  readonly unreadable: () => readonly UnreadableKind[];
}

export interface KeySource {
  readonly generateKeyPair: (algorithm: KeyAlgorithm) => Promise<KeyPair>;
  readonly randomSerial: () => Uint8Array;
}

export interface RotationContext extends KeySource {
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
  readonly log: Log;
}

interface RotationInput {
  readonly secret: Secret;
  readonly authority: Authority;
  readonly published: readonly PublishedBundle[];
  readonly imported: ImportedAuthority | undefined;
  readonly now: Date;
}

/** `recheckAt` is undefined after a write, because the next step may be due at once. */
export async function stepRotation(context: RotationContext, input: RotationInput, signal: AbortSignal) {
  const { secret, authority, now } = input;
  const state = await stateOf(context, input);
  const wanted = planRotation(state);
  const isRotation = wanted.kind !== 'none' && wanted.kind !== 'record-trust';
  const paused = isRotation ? await pauseReason(context, signal) : undefined;
  const plan = paused === undefined ? wanted : planRotation({ ...state, paused });
  if (plan.kind === 'none') {
    const why = refusal({ ...state, paused });
    const event = why === undefined ? waitingEvent(state, plan.phase) : rotationRefused(why);
    const recheckAt = paused === undefined ? plan.recheckAt : earliest(plan.recheckAt, after(now, MINUTE));
    return { ...plan, authority, event, recheckAt };
  }

  const next = await apply(context, input, plan);
  const stored = { ...secret, data: withAuthority(secret.data, next) };
  await refusable(CLUSTER_ROLE, () => context.client.replace(secrets, stored, { signal }));
  context.log.info({ plan, generation: activeGeneration(next).id }, 'the rotation of the authority advanced');
  const { dnsNames } = trialScope(context.config, context.evidence.clusterIPs());
  const event = rotationStepped(plan, next, now, dnsNames);
  return { authority: next, phase: rotationPhase({ authority: next, paused }), event, recheckAt: undefined };
}

/**
 * Why no change is allowed now. Reads live, and only if the plan would change something. If the windows cannot be read,
 * one may be open; the record of trust does not wait for them.
 */
async function pauseReason(
  context: Pick<RotationContext, 'client' | 'config' | 'serverClock' | 'log'>,
  signal: AbortSignal,
): Promise<string | undefined> {
  const { serverClock } = context;
  const skew = Math.abs(serverClock.skewMs() ?? 0);
  if (skew > CLOCK_TOLERANCE)
    return `the clock of this replica and that of the API server are ${Math.round(skew / 60_000)} minutes apart`;
  return await restorePause(context, serverClock.now(), signal);
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

async function stateOf(
  { evidence, config, sign }: RotationContext,
  input: RotationInput,
): Promise<RotationState> {
  const { secret, authority, published, imported, now } = input;
  const annotations = secret.metadata?.annotations ?? {};
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
    activationProblem: await activationProblem(
      ...([authority, trialScope(config, evidence.clusterIPs()), now, sign] as const),
    ),
    imported,
  };
}

async function apply(
  context: RotationContext,
  { authority, imported, now, secret }: RotationInput,
  plan: Exclude<RotationPlan, { kind: 'none' }>,
): Promise<Authority> {
  switch (plan.kind) {
    case 'prepare': {
      const pending = await makeGeneration(context, imported, now, activeGeneration(authority));
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
        ? replaceActive(authority, plan.ids, await makeGeneration(context, imported, now, undefined), now)
        : remove(authority, plan.ids);
    case 'renew-root':
      return imported === undefined ? authority : renewRoot(authority, imported, now);
  }
}

/** A generation with a new key, or with the key of the imported CA. */
export async function makeGeneration(
  { generateKeyPair, randomSerial, config, sign }: Pick<RotationContext, keyof KeySource | 'config' | 'sign'>,
  imported: ImportedAuthority | undefined,
  now: Date,
  previous: Generation | undefined,
): Promise<Generation> {
  const serial = randomSerial();
  if (imported !== undefined) return await importGeneration(imported, { serial, now, previous, sign });
  const keyPair = await generateKeyPair(DEFAULT_KEY_ALGORITHM);
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
