/** The API client of a case: one-line verbs that record every exchange. */
import type { AuditEvent, ControlPlane, User } from '../support/control-plane.ts';
import { eventually } from '../support/processes.ts';
import type { CaseHooks, Configuration, Review } from './hook-server.ts';
import type { Exchange } from './transcript.ts';
import type { RawAnswer, RawStream, Transport } from './transport.ts';

/** An object with the fields that cases read. */
export interface Loose {
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly resourceVersion: string;
    readonly continue: string;
    readonly [key: string]: unknown;
  };
  readonly [key: string]: unknown;
}

export interface Answer {
  readonly status: number;
  readonly body: unknown;
  /** The body as an object. */
  readonly object: Loose;
  /** The texts of the Warning headers. */
  readonly warnings: readonly string[];
}

export interface SendOptions {
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
  /** The part of the answer to record; the whole answer unless given. */
  readonly show?: (body: Loose) => unknown;
}

export type Options = Omit<SendOptions, 'body'>;

/** An open watch. */
export interface Watch {
  /** Waits for this many events, ends the watch and records them; fewer if the server ends it first. */
  readonly events: (count: number) => Promise<void>;
  /** Waits until the server ends the watch. */
  readonly untilClosed: () => Promise<void>;
}

export type PatchType = 'json' | 'merge' | 'strategic';

/**
 * Paths with a leading slash are absolute. Others are relative to the core resources of the case's namespace:
 * `configmaps/a` is `/api/v1/namespaces/<ns>/configmaps/a`.
 */
export interface Api {
  /** A word unique to the case, which is also the name of its namespace. */
  readonly id: string;
  readonly minor: number;
  readonly get: (path: string, options?: Options) => Promise<Answer>;
  readonly create: (path: string, body: unknown, options?: Options) => Promise<Answer>;
  readonly update: (path: string, body: unknown, options?: Options) => Promise<Answer>;
  readonly patch: (path: string, type: PatchType, body: unknown, options?: Options) => Promise<Answer>;
  /** Server-side apply. The query must name the manager: `?fieldManager=a`. */
  readonly apply: (path: string, body: unknown, options?: Options) => Promise<Answer>;
  readonly delete: (path: string, body?: unknown, options?: Options) => Promise<Answer>;
  readonly send: (method: string, path: string, options?: SendOptions) => Promise<Answer>;
  /** Opens a watch; `path` needs no `watch=1`. */
  readonly watch: (path: string) => Promise<Watch>;
  /** The same verbs for another user; undefined: without a token. */
  readonly as: (user: User | undefined) => Api;
  readonly with: (headers: Readonly<Record<string, string>>) => Api;
  /** The same verbs, unrecorded, for preparation; an error fails the case. */
  readonly given: Api;
  /** Polls, unrecorded, until `accept` is true for the answer of a GET. */
  readonly until: (path: string, accept: (answer: Answer) => boolean) => Promise<Answer>;
  readonly hooks: CaseHooks;
  /** Creates a webhook configuration for this case, and waits until the API server calls its webhooks. */
  readonly install: (configuration: Configuration) => Promise<void>;
  /** Records the reviews that the case's webhook `path` received; consecutive duplicates are recorded once. */
  readonly noteReviews: (path: string, show: (review: Review) => unknown) => void;
  readonly note: (note: string, seen: unknown) => void;
  /** Waits for the first audit event in the case's namespace that `accept` matches. */
  readonly audited: (accept: (event: AuditEvent) => boolean) => Promise<AuditEvent>;
  /** Polls, unrecorded, until `probe` does not throw. */
  readonly eventually: (what: string, probe: () => Promise<unknown>) => Promise<void>;
}

export interface ApiContext {
  readonly id: string;
  readonly plane: ControlPlane;
  readonly transport: Transport;
  readonly transcript: Exchange[];
  readonly hooks: CaseHooks;
}

interface Voice {
  readonly user: User | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly recorded: boolean;
}

const PATCH_TYPES: Readonly<Record<PatchType | 'apply', string>> = {
  json: 'application/json-patch+json',
  merge: 'application/merge-patch+json',
  strategic: 'application/strategic-merge-patch+json',
  apply: 'application/apply-patch+yaml',
};

/** Longer request bodies are not repeated in the transcript. */
const LONG_BODY = 300;

export function createApi(
  context: ApiContext,
  voice: Voice = { user: 'admin', headers: {}, recorded: true },
): Api {
  const { id, plane, transport, transcript, hooks } = context;
  const absolute = (path: string) => (path.startsWith('/') ? path : `/api/v1/namespaces/${id}/${path}`);
  const headers = {
    'user-agent': 'conformance/1',
    ...(voice.user === undefined ? {} : { authorization: `Bearer ${plane.token(voice.user)}` }),
    ...voice.headers,
  };
  const as = spokenBy(voice);

  const send: Api['send'] = async (method, path, { body, headers: more = {}, show } = {}) => {
    const text = body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body);
    const type = text === undefined ? {} : { 'content-type': 'application/json' };
    const raw = await transport.call({
      method,
      path: absolute(path),
      headers: { ...headers, ...type, ...more },
      body: text,
    });
    const answer = parse(raw);
    if (!voice.recorded && raw.status >= 400)
      throw new Error(`${method} ${path}: ${raw.status} ${raw.text.slice(0, 500)}`);
    if (voice.recorded)
      transcript.push({
        request: `${method} ${absolute(path)}`,
        ...as,
        ...(text === undefined || text.length > LONG_BODY ? {} : { body }),
        status: raw.status,
        ...tellingHeaders(raw),
        answer: show === undefined || raw.status >= 400 ? answer.body : show(answer.object),
      });
    return answer;
  };

  const patchWith =
    (type: string) =>
    (path: string, body: unknown, options: Options = {}) =>
      send('PATCH', path, { ...options, body, headers: { 'content-type': type, ...options.headers } });

  const watch: Api['watch'] = async (path) => {
    const full = `${absolute(path)}${path.includes('?') ? '&' : '?'}watch=1`;
    const stream = await transport.stream({ method: 'GET', path: full, headers, body: undefined });
    return recordedWatch(stream, (events) => {
      transcript.push({ watch: full, ...as, status: stream.status, events });
    });
  };

  const api: Api = {
    id,
    minor: plane.version.minor,
    send,
    watch,
    get: (path, options) => send('GET', path, options),
    create: (path, body, options) => send('POST', path, { ...options, body }),
    update: (path, body, options) => send('PUT', path, { ...options, body }),
    patch: (path, type, body, options) => patchWith(PATCH_TYPES[type])(path, body, options),
    apply: (path, body, options) => patchWith(PATCH_TYPES.apply)(path, body, options),
    delete: (path, body, options) =>
      send('DELETE', path, { ...options, ...(body === undefined ? {} : { body }) }),
    as: (user) => createApi(context, { ...voice, user }),
    with: (more) => createApi(context, { ...voice, headers: { ...voice.headers, ...more } }),
    get given() {
      return createApi(context, { ...voice, recorded: false });
    },
    until: (path, accept) =>
      eventually(
        `${path} has the expected answer`,
        async () => {
          const raw = await transport.call({ method: 'GET', path: absolute(path), headers, body: undefined });
          const answer = parse(raw);
          return accept(answer) ? answer : undefined;
        },
        { timeoutMs: 40_000, everyMs: 30 },
      ),
    hooks,
    install: (configuration) => hooks.install(api.given, configuration),
    noteReviews: (path, show) => {
      const seen = hooks.reviewsAt(path).map(show);
      const texts = seen.map((review) => JSON.stringify(review));
      // A server retries after a conflict and calls the webhook again.
      const once = seen.filter((_review, index) => texts[index] !== texts[index - 1]);
      transcript.push({ note: `reviews at ${path}`, seen: once });
    },
    note: (note, seen) => {
      transcript.push({ note, seen });
    },
    audited: (accept) =>
      eventually('the audit event is written', () =>
        plane.auditLog().find((event) => event.objectRef?.namespace === id && accept(event)),
      ),
    eventually: async (what, probe) => {
      await eventually(what, async () => {
        await probe();
        return true;
      });
    },
  };
  return api;
}

function spokenBy({ user, headers }: Voice): { readonly as?: string } {
  const impersonated = Object.entries(headers)
    .filter(([name]) => name.startsWith('impersonate-'))
    .map(([name, value]) => `${name}: ${value}`);
  const who = [...(user === 'admin' ? [] : [user ?? 'nobody']), ...impersonated].join(', ');
  return who === '' ? {} : { as: who };
}

function parse({ status, headers, text }: RawAnswer): Answer {
  const isJson = headers['content-type']?.[0]?.startsWith('application/json') ?? false;
  const body: unknown = isJson ? JSON.parse(text) : text;
  const object = body as Loose; // the case knows the shape of its answer
  return { status, body, object, warnings: headers.warning ?? [] };
}

function tellingHeaders({ headers }: RawAnswer): { readonly headers?: Record<string, readonly string[]> } {
  const telling: Record<string, readonly string[]> = {};
  for (const name of ['warning', 'retry-after']) {
    const values = headers[name];
    if (values !== undefined) telling[name] = values;
  }
  const type = headers['content-type'] ?? [];
  if (type[0] !== 'application/json') telling['content-type'] = type;
  return Object.keys(telling).length === 0 ? {} : { headers: telling };
}

function recordedWatch(stream: RawStream, record: (events: readonly unknown[]) => void): Watch {
  const take = async (count: number) => {
    const events: unknown[] = [];
    const deadline = setTimeout(stream.close, 20_000);
    try {
      if (count > 0)
        for await (const line of stream.lines) {
          events.push(JSON.parse(line));
          if (events.length >= count) break;
        }
    } catch {
      // The watch was interrupted: the transcript shows the events so far.
    } finally {
      clearTimeout(deadline);
      stream.close();
    }
    record(events);
  };
  return { events: take, untilClosed: () => take(Number.POSITIVE_INFINITY) };
}
