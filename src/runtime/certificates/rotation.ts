/** One step of the life of the authority: observe, plan, and at most one write, on the Secret that the plan was made from. */
import { DISTRUST, ROTATE } from '../../pki/annotations.ts';
import { withAuthority } from '../../pki/authority/secret.ts';
import {
  activate,
  noteLeaves,
  prepare,
  publish,
  remove,
  renewRoot,
  replaceActive,
  activeGeneration,
  type Authority,
} from '../../pki/authority/authority.ts';
import { trusts } from '../../pki/authority/bundle.ts';
import {
  createGeneration,
  importGeneration,
  type Generation,
  type ImportedAuthority,
} from '../../pki/authority/generation.ts';
import { DEFAULT_KEY_ALGORITHM, type KeyAlgorithm, type KeyPair } from '../../pki/x509/keys.ts';
import {
  planRotation,
  refusal,
  rotationPhase,
  type RotationPhase,
  type RotationPlan,
  type RotationState,
  type RotationTimes,
} from '../../pki/authority/rotation-plan.ts';
import type { Secret } from '../../pki/serving-certs/secret.ts';
import type { Log } from '../../log.ts';
import { rotationNote, type RotationNote } from './rotation-note.ts';
import type { TrustEvidence } from './trust-evidence.ts';

/** A CA bundle that we published, as the API server has it now. */
export interface PublishedBundle {
  /** For people. */
  readonly target: string;
  /** PEM, or what stands there instead. Undefined: it is not filled in yet. */
  readonly bundle: string | undefined;
}

export interface RotationDeps {
  readonly evidence: TrustEvidence;
  /** For people: why nothing may change now. Asked of the API server, and only where something would change. */
  readonly paused: (signal: AbortSignal) => Promise<string | undefined>;
  /** Writes the Secret if it still has the resourceVersion in its metadata. @throws WriteRefused */
  readonly replaceSecret: (secret: Secret, signal: AbortSignal) => Promise<unknown>;
  readonly generateKeyPair: (algorithm: KeyAlgorithm) => Promise<KeyPair>;
  readonly randomSerial: () => Uint8Array;
  /** Of a generation that we make, in milliseconds. */
  readonly lifetimeMs: number;
  readonly times: RotationTimes;
  readonly log: Log;
}

/** What was read for one step. */
export interface RotationInput {
  readonly secret: Secret;
  readonly authority: Authority;
  readonly published: readonly PublishedBundle[];
  readonly imported: ImportedAuthority | undefined;
  readonly now: Date;
}

export type RotationOutcome =
  | {
      readonly kind: 'waiting';
      readonly authority: Authority;
      readonly phase: RotationPhase;
      readonly recheckAt: Date;
      readonly note: RotationNote | undefined;
    }
  | {
      readonly kind: 'stepped';
      readonly authority: Authority;
      readonly phase: RotationPhase;
      readonly note: RotationNote | undefined;
    };

export async function stepRotation(
  deps: RotationDeps,
  input: RotationInput,
  signal: AbortSignal,
): Promise<RotationOutcome> {
  const { secret, authority, now } = input;
  const state = stateOf(deps, input);
  const { plan, paused } = await planUnlessPaused(deps, state, signal);
  if (plan.kind === 'none') {
    const why = refusal({ ...state, paused });
    const note = why === undefined ? waitingNote(state, plan.phase) : rotationRefused(why);
    return { ...plan, kind: 'waiting', authority, note };
  }

  const next = await apply(deps, input, plan);
  await deps.replaceSecret({ ...secret, data: withAuthority(secret.data, next) }, signal);
  deps.log.info({ plan, generation: activeGeneration(next).id }, 'the authority went a step further');
  const note = rotationNote(plan, next, now);
  return { kind: 'stepped', authority: next, phase: rotationPhase({ authority: next, paused }), note };
}

async function planUnlessPaused(
  { paused }: Pick<RotationDeps, 'paused'>,
  state: RotationState,
  signal: AbortSignal,
): Promise<{ readonly plan: RotationPlan; readonly paused: string | undefined }> {
  const plan = planRotation(state);
  if (plan.kind === 'none') return { plan, paused: undefined };
  const why = await paused(signal);
  return why === undefined
    ? { plan, paused: undefined }
    : { plan: planRotation({ ...state, paused: why }), paused: why };
}

function stateOf({ evidence, times }: RotationDeps, input: RotationInput): RotationState {
  const { secret, authority, published, imported, now } = input;
  const annotations = secret.metadata?.annotations ?? {};
  const ownTargetsWithout = (generation: Generation) =>
    published.filter(({ bundle }) => !trusts(bundle ?? '', generation)).map(({ target }) => target);
  return {
    authority,
    now,
    times,
    targetsWithout: (id) => {
      const generation = authority.generations.find((one) => one.id === id);
      const others = evidence.targetsWithout(id);
      if (generation === undefined || others === undefined) return undefined;
      // Nothing published at all is no sign that everybody knows: the ConfigMap is about to be made.
      const own = published.length === 0 ? ['the CA bundle itself'] : ownTargetsWithout(generation);
      return [...own, ...others];
    },
    leavesOf: evidence.leavesOf,
    rotate: annotations[ROTATE] === '' ? undefined : annotations[ROTATE],
    distrust: (annotations[DISTRUST] ?? '').split(/[\s,]+/).filter((id) => id !== ''),
    paused: undefined,
    imported,
  };
}

async function apply(
  deps: RotationDeps,
  input: RotationInput,
  plan: Exclude<RotationPlan, { kind: 'none' }>,
): Promise<Authority> {
  const { authority, imported, now, secret } = input;
  switch (plan.kind) {
    case 'prepare': {
      const pending = await makeGeneration(deps, imported, now, activeGeneration(authority));
      // One rotation answers every reason that there is for one now.
      const rotatedFor = imported === undefined ? secret.metadata?.annotations?.[ROTATE] : undefined;
      return prepare(authority, pending, rotatedFor);
    }
    case 'publish':
      return publish(authority, plan.id, now);
    case 'activate':
      return activate(authority, plan.id, now);
    case 'note-leaves':
      return noteLeaves(authority, plan, now);
    case 'retire':
      return remove(authority, plan.ids);
    case 'distrust':
      return plan.replace
        ? replaceActive(authority, plan.ids, await makeGeneration(deps, imported, now, undefined), now)
        : remove(authority, plan.ids);
    case 'renew-root':
      return imported === undefined ? authority : renewRoot(authority, imported.id, imported.certificate);
  }
}

/** A generation of our own making, or of the CA that is imported. */
export async function makeGeneration(
  {
    generateKeyPair,
    randomSerial,
    lifetimeMs,
  }: Pick<RotationDeps, 'generateKeyPair' | 'randomSerial' | 'lifetimeMs'>,
  imported: ImportedAuthority | undefined,
  now: Date,
  previous: Generation | undefined,
): Promise<Generation> {
  const serial = randomSerial();
  if (imported !== undefined) return importGeneration(imported, { serial, now, previous });
  const keyPair = await generateKeyPair(DEFAULT_KEY_ALGORITHM);
  return createGeneration({ keyPair, serial, now, lifetimeMs, previous });
}

const rotationRefused = (message: string): RotationNote => ({
  type: 'Warning',
  reason: 'RotationRefused',
  message,
});

/** Whom a rotation waits for. */
function waitingNote(
  { authority, targetsWithout }: RotationState,
  phase: RotationPhase,
): RotationNote | undefined {
  if (phase !== 'publishing' && phase !== 'propagating') return undefined;
  const id = authority.generations.find(({ state }) => state === 'pending')?.id;
  const targets = id === undefined ? undefined : targetsWithout(id);
  if (id === undefined || targets === undefined || targets.length === 0) return undefined;
  const named = targets.slice(0, MAX_NAMED).join(', ');
  const rest = targets.length > MAX_NAMED ? ` and ${targets.length - MAX_NAMED} more` : '';
  return {
    type: 'Normal',
    reason: 'RotationWaiting',
    message: `generation ${id} is not used before everybody trusts it; still without its root: ${named}${rest}`,
  };
}

/** An Event has room for a thousand characters. */
const MAX_NAMED = 5;
