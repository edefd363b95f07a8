/**
 * A dev session: a laptop serves the webhook configurations of a cluster for a while. An annotation records the
 * session.
 */
import type { KubeObject, ObjectMeta } from '../../json/kube-object.ts';
import { isJsonObject, textIn } from '../../json/json.ts';

/** Only valid on the two configurations named `gatehouse`. */
export const DEV_URL_ANNOTATION = 'gatehouse.dev/dev-url';

/** How long an unrenewed note stays valid, in milliseconds. A crashed laptop can block writes for this long. */
export const DEV_SESSION_MS = 60_000;

/**
 * In milliseconds. Notes that expire later than this are invalid, so that a note cannot disable the leader for long.
 */
const MOST_MS = 5 * DEV_SESSION_MS;

export interface DevSession {
  /** Random; a process recognises its own note by it. */
  readonly id: string;
  /** For humans: the user and the machine. */
  readonly holder: string;
  readonly url: string;
  /** The controllers of users that the session runs, by name: the leader pauses its own. */
  readonly controllers?: readonly string[];
  /** By the clock of the API server. */
  readonly expiresAt: Date;
  /** Whether the session created the configuration. Its end then deletes the configuration. */
  readonly created: boolean;
}

export type DevSessionState =
  | { readonly kind: 'none' }
  | { readonly kind: 'valid'; readonly session: DevSession }
  /** Expired, expiring too late, or invalid. `session` is undefined only if the note cannot be parsed. */
  | { readonly kind: 'over'; readonly session: DevSession | undefined };

/** @param now by the clock of the API server */
export function devSessionOf({ metadata }: KubeObject, now: Date): DevSessionState {
  const text = metadata?.annotations?.[DEV_URL_ANNOTATION];
  if (text === undefined) return { kind: 'none' };
  const session = parseSession(text);
  const left = session === undefined ? 0 : session.expiresAt.getTime() - now.getTime();
  return session !== undefined && left > 0 && left <= MOST_MS
    ? { kind: 'valid', session }
    : { kind: 'over', session };
}

function parseSession(text: string): DevSession | undefined {
  let note: unknown;
  try {
    note = JSON.parse(text);
  } catch {
    return undefined;
  }
  if (!isJsonObject(note)) return undefined;
  const { session: id, holder, url, created, controllers } = note;
  if (typeof id !== 'string' || typeof holder !== 'string' || typeof url !== 'string') return undefined;
  const expiresAt = new Date(textIn(note, 'expiresAt'));
  return Number.isNaN(expiresAt.getTime())
    ? undefined
    : { id, holder, url, expiresAt, created: created === true, ...controllersOf(controllers) };
}

const controllersOf = (names: unknown): Pick<DevSession, 'controllers'> =>
  Array.isArray(names) ? { controllers: names.filter((name) => typeof name === 'string') } : {};

/** Metadata with the note of `session`. */
export function withDevSession(
  metadata: ObjectMeta | undefined,
  { id, holder, url, expiresAt, created, controllers = [] }: DevSession,
): ObjectMeta {
  const end = expiresAt.toISOString();
  const note = {
    ...{ holder, url, expiresAt: end, session: id },
    ...(created ? { created } : {}),
    ...(controllers.length > 0 ? { controllers } : {}),
  };
  return {
    ...metadata,
    annotations: { ...metadata?.annotations, [DEV_URL_ANNOTATION]: JSON.stringify(note) },
  };
}

/** The metadata without the note. */
export function withoutDevSession(metadata: ObjectMeta | undefined): ObjectMeta {
  const { annotations = {}, ...rest } = metadata ?? {};
  const others = Object.entries(annotations).filter(([key]) => key !== DEV_URL_ANNOTATION);
  return others.length === 0 ? rest : { ...rest, annotations: Object.fromEntries(others) };
}
