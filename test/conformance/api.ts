/** The API client of a case: one-line verbs that record every exchange. */
import type { ControlPlane } from '../support/control-plane.ts';
import { eventually } from '../support/processes.ts';
import type { CaseHooks, Configuration, Review } from './hook-server.ts';
import type { RawAnswer, Transport } from './transport.ts';

/** What the tests compare: a request with its answer, or what a webhook received. */
export type Exchange = object;

/** An object with the fields that cases read. */
export interface Loose {
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly resourceVersion: string;
    readonly [key: string]: unknown;
  };
  readonly [key: string]: unknown;
}

export interface Answer {
  readonly status: number;
  readonly body: unknown;
  /** The body as an object. */
  readonly object: Loose;
}

export interface Options {
  /** The part of the answer to record; the whole answer unless given. */
  readonly show?: (body: Loose) => unknown;
}

export type PatchType = 'json' | 'merge' | 'strategic';

/**
 * Paths with a leading slash are absolute. Others are relative to the core resources of the case's namespace:
 * `configmaps/a` is `/api/v1/namespaces/<ns>/configmaps/a`.
 */
export interface Api {
  /** A word unique to the case, which is also the name of its namespace. */
  readonly id: string;
  readonly get: (path: string, options?: Options) => Promise<Answer>;
  readonly create: (path: string, body: unknown, options?: Options) => Promise<Answer>;
  readonly update: (path: string, body: unknown, options?: Options) => Promise<Answer>;
  readonly patch: (path: string, type: PatchType, body: unknown, options?: Options) => Promise<Answer>;
  /** Server-side apply. The query must name the manager: `?fieldManager=a`. */
  readonly apply: (path: string, body: unknown, options?: Options) => Promise<Answer>;
  readonly delete: (path: string, body?: unknown, options?: Options) => Promise<Answer>;
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
}

export interface ApiContext {
  readonly id: string;
  readonly plane: ControlPlane;
  readonly transport: Transport;
  readonly transcript: Exchange[];
  readonly hooks: CaseHooks;
}

const PATCH_TYPES: Readonly<Record<PatchType | 'apply', string>> = {
  json: 'application/json-patch+json',
  merge: 'application/merge-patch+json',
  strategic: 'application/strategic-merge-patch+json',
  apply: 'application/apply-patch+yaml',
};

/** Longer request bodies are not repeated in the transcript. */
const LONG_BODY = 300;

export function createApi(context: ApiContext, recorded = true): Api {
  const { id, plane, transport, transcript, hooks } = context;
  const absolute = (path: string) => (path.startsWith('/') ? path : `/api/v1/namespaces/${id}/${path}`);
  const headers = { 'user-agent': 'conformance/1', authorization: `Bearer ${plane.token('admin')}` };

  const send = async (
    method: string,
    path: string,
    body: unknown,
    { show }: Options = {},
    contentType = 'application/json',
  ): Promise<Answer> => {
    const text = body === undefined ? undefined : typeof body === 'string' ? body : JSON.stringify(body);
    const type = text === undefined ? {} : { 'content-type': contentType };
    const raw = await transport.call({
      method,
      path: absolute(path),
      headers: { ...headers, ...type },
      body: text,
    });
    const answer = parse(raw);
    if (!recorded && raw.status >= 400)
      throw new Error(`${method} ${path}: ${raw.status} ${raw.text.slice(0, 500)}`);
    if (recorded)
      transcript.push({
        request: `${method} ${absolute(path)}`,
        ...(text === undefined || text.length > LONG_BODY ? {} : { body }),
        status: raw.status,
        ...tellingHeaders(raw),
        answer: show === undefined || raw.status >= 400 ? answer.body : show(answer.object),
      });
    return answer;
  };

  const api: Api = {
    id,
    get: (path, options) => send('GET', path, undefined, options),
    create: (path, body, options) => send('POST', path, body, options),
    update: (path, body, options) => send('PUT', path, body, options),
    patch: (path, type, body, options) => send('PATCH', path, body, options, PATCH_TYPES[type]),
    apply: (path, body, options) => send('PATCH', path, body, options, PATCH_TYPES.apply),
    delete: (path, body, options) => send('DELETE', path, body, options),
    get given() {
      return createApi(context, false);
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
  };
  return api;
}

function parse({ status, headers, text }: RawAnswer): Answer {
  const isJson = headers['content-type']?.[0]?.startsWith('application/json') ?? false;
  const body: unknown = isJson ? JSON.parse(text) : text;
  const object = body as Loose; // the case knows the shape of its answer
  return { status, body, object };
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
