/** One step of a rotation of the authority: prepare, publish, activate, retire or distrust a generation. */
import type { RestoreWindow } from '../../api/restore-window.ts';
import type { Config } from '../../config/config.ts';
import { messageOf } from '../../json/abort.ts';
import type { KubeClient } from '../../kube/client.ts';
import type { ServerClock } from '../../kube/clock.ts';
import { secrets } from '../../kube/well-known.ts';
import type { Log } from '../../log.ts';
import { DISTRUST, ROTATE } from '../../pki/annotations.ts';
import {
  activate,
  activeGeneration,
  type Authority,
  type LaggingTargets,
  prepare,
  publish,
  recordTrust,
  remove,
  renewRoot,
  replaceActive,
  trusts,
  type UnreadableKind,
} from '../../pki/authority/authority.ts';
import {
  createGeneration,
  type Generation,
  type ImportedAuthority,
  importGeneration,
} from '../../pki/authority/generation.ts';
import {
  planRotation,
  refusal,
  rotationPhase,
  type RotationPhase,
  type RotationPlan,
  type RotationState,
} from '../../pki/authority/rotation-plan.ts';
import { withAuthority } from '../../pki/authority/secret.ts';
import { activationProblem } from '../../pki/authority/trial.ts';
import { after, CLOCK_TOLERANCE, earliest, MINUTE } from '../../pki/durations.ts';
import type { Secret } from '../../pki/serving-certs/secret.ts';
import { DEFAULT_KEY_ALGORITHM, type KeyAlgorithm, type KeyPair } from '../../pki/x509/keys.ts';
import { windowState } from '../../restore/window.ts';
import { RESTORE_WINDOWS } from '../resources.ts';
import { refusable } from '../write-refused.ts';
import { rotationRefused, rotationStepped, rotationWaiting } from './authority-events.ts';
import type { PublishedBundle } from './ca-bundle.ts';
import { domainsOfNewCa, trialScope } from './serving-cert-stores.ts';

export interface TrustEvidence {
  /** The targets of the CA bundle that lack the root of this generation; undefined: not known yet. */
  readonly targetsWithout: (generation: string) => LaggingTargets | undefined;
  /** The longest life, in milliseconds, of a serving cert that a Service may get now; undefined: not known yet. */
  readonly longestLifeMs: () => number | undefined;
  /** The cluster IPs of one Service, in their canonical form; none: not known yet. */
  readonly clusterIPs: () => readonly string[];
  readonly wantsClientCerts: () => boolean;
  readonly unreadable: () => readonly UnreadableKind[];
}

export interface KeySource {
  readonly generateKeyPair: (algorithm: KeyAlgorithm) => Promise<KeyPair>;
  readonly randomSerial: () => Uint8Array;
}

export interface RotationContext extends KeySource {
  readonly client: Pick<KubeClient, 'listAll' | 'replace'>;
  readonly config: Pick<Config, 'without' | 'ca' | 'caPropagationWaitMs' | 'servingCerts' | 'clusterDomain'>;
  /** The same time for all replicas: two leaders must agree about what has expired. */
  readonly serverClock: Pick<ServerClock, 'now' | 'skewMs'>;
  readonly evidence: TrustEvidence;
  readonly log: Log;
}

interface Step extends RotationContext {
  readonly secret: Secret;
  readonly authority: Authority;
  readonly imported: ImportedAuthority | undefined;
  readonly published: readonly PublishedBundle[];
  readonly now: Date;
  readonly signal: AbortSignal;
}

/** `recheckAt` is undefined after a write, because the next step may be due immediately. */
export async function stepRotation(step: Step) {
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
  await refusable(() => client.replace(secrets, stored, { signal }));
  log.info({ plan, generation: activeGeneration(next).id }, 'the rotation of the authority advanced');
  const { dnsNames } = trialScope(config, evidence.clusterIPs());
  const event = rotationStepped(plan, next, now, dnsNames);
  return { authority: next, phase: rotationPhase({ authority: next, paused }), event, recheckAt: undefined };
}

/** Why no change is allowed now; read live. The record of trust does not wait for windows that cannot be read. */
async function pauseReason(step: Step): Promise<string | undefined> {
  const skew = Math.abs(step.serverClock.skewMs() ?? 0);
  if (skew > CLOCK_TOLERANCE)
    return `the clocks of this replica and of the API server are ${Math.round(skew / 60_000)} minutes apart`;
  return await restorePause(step, step.serverClock.now(), step.signal);
}

/** Why nothing may change because of a restore, for users. Reads live. */
export async function restorePause(
  {
    client,
    config,
    log,
  }: {
    readonly client: Pick<KubeClient, 'listAll'>;
    readonly config: Pick<Config, 'without'>;
    readonly log: Log;
  },
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
  const { config, evidence, secret, authority, published, imported, now } = step;
  const annotations = secret.metadata?.annotations ?? {};
  const scope = trialScope(config, evidence.clusterIPs());
  const ownTargetsWithout = (generation: Generation) =>
    published.filter(({ bundle }) => !trusts(bundle ?? '', generation));
  return {
    authority,
    now,
    times: { propagationWaitMs: config.caPropagationWaitMs },
    targetsWithout: (id) => {
      const generation = authority.generations.find((one) => one.id === id);
      const others = evidence.targetsWithout(id);
      if (generation === undefined || others === undefined) return undefined;
      // Without any published bundle, no client can trust the root yet: the ConfigMap is about to be created.
      const none = [{ target: 'the CA bundle itself', cause: undefined }];
      const own = published.length === 0 ? none : ownTargetsWithout(generation);
      const named = own.map(({ target, cause }) => (cause === undefined ? target : `${target} (${cause})`));
      const vetoing = others.vetoing.filter((name) => !own.some(({ target }) => target === name));
      return { ...others, vetoing: [...named, ...vetoing] };
    },
    longestLifeMs: evidence.longestLifeMs(),
    rotate: annotations[ROTATE] === '' ? undefined : annotations[ROTATE],
    distrust: (annotations[DISTRUST] ?? '').split(/[\s,]+/).filter((id) => id !== ''),
    paused: undefined,
    activationProblem: await activationProblem(authority, scope, now),
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

export async function makeGeneration(
  pass: Pick<Step, 'config' | 'now' | 'imported' | keyof KeySource>,
  previous: Generation | undefined,
): Promise<Generation> {
  const { config, imported, now } = pass;
  const serial = pass.randomSerial();
  if (imported !== undefined) return await importGeneration(imported, { serial, now, previous });
  const keyPair = await pass.generateKeyPair(DEFAULT_KEY_ALGORITHM);
  const { lifetimeMs } = config.ca;
  const domains = domainsOfNewCa(config);
  return await createGeneration({ keyPair, serial, now, lifetimeMs, domains, previous });
}

function waitingEvent({ authority, targetsWithout }: RotationState, phase: RotationPhase) {
  if (phase !== 'publishing' && phase !== 'propagating') return undefined;
  const pending = authority.generations.find(({ state }) => state === 'pending');
  const lagging = pending && targetsWithout(pending.id);
  return lagging && rotationWaiting(pending, lagging);
}
