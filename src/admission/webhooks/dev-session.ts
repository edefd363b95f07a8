/** A laptop borrows the webhook configurations of a cluster for a while: the note that says so, and what is read out of it. */
import type { KubeObject, ObjectMeta } from '../../json/kube-object.ts';
import { isJsonObject } from '../../json/json.ts';

/** On the two configurations named `gatehouse`, and of no meaning anywhere else. */
export const DEV_URL_ANNOTATION = 'gatehouse.dev/dev-url';

/** How long an unrenewed note stays valid, in milliseconds. A crashed laptop can block writes for this long. */
export const DEV_SESSION_MS = 60_000;

/** Notes that expire later than this are invalid, so that a note cannot disable the leader for long. In milliseconds. */
const MOST_MS = 5 * DEV_SESSION_MS;

export interface DevSession {
  /** Random: by it a process knows its own note. */
  readonly id: string;
  /** For people: who, and on which machine. */
  readonly holder: string;
  readonly url: string;
  /** By the clock of the API server. */
  readonly expiresAt: Date;
  /** There was no configuration before the session, and is to be none after it. */
  readonly created: boolean;
}

export type DevSessionState =
  | { readonly kind: 'none' }
  | { readonly kind: 'valid'; readonly session: DevSession }
  /** Expired, or invalid; then the session is undefined. */
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
  const note = parsedOrUndefined(text);
  if (!isJsonObject(note)) return undefined;
  const { session, holder, url, expiresAt, created } = note;
  if (typeof session !== 'string' || typeof holder !== 'string' || typeof url !== 'string') return undefined;
  const end = new Date(typeof expiresAt === 'string' ? expiresAt : '');
  if (Number.isNaN(end.getTime())) return undefined;
  return { id: session, holder, url, expiresAt: end, created: created === true };
}

function parsedOrUndefined(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Metadata with the note of `session`. */
export const withDevSession = (metadata: ObjectMeta | undefined, session: DevSession): ObjectMeta => ({
  ...metadata,
  annotations: { ...metadata?.annotations, [DEV_URL_ANNOTATION]: noteOf(session) },
});

const noteOf = ({ id, holder, url, expiresAt, created }: DevSession): string =>
  JSON.stringify({
    holder,
    url,
    expiresAt: expiresAt.toISOString(),
    session: id,
    ...(created ? { created } : {}),
  });

/** The metadata without the note. */
export function withoutDevSession(metadata: ObjectMeta | undefined): ObjectMeta {
  const { annotations = {}, ...rest } = metadata ?? {};
  const others = Object.entries(annotations).filter(([key]) => key !== DEV_URL_ANNOTATION);
  return others.length === 0 ? rest : { ...rest, annotations: Object.fromEntries(others) };
}
