/** The API client of a case: one-line verbs that record every exchange. */
import type { ControlPlane } from '../support/control-plane.ts';
import { eventually } from '../support/processes.ts';
import type { CaseHooks, Configuration, Review } from './hook-server.ts';
import type { RawAnswer, Transport } from '../support/transport.ts';

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

interface Answer {
  readonly status: number;
  readonly body: unknown;
  /** The body as an object. */
  readonly object: Loose;
}

interface Options {
  /** The part of the answer to record. Default: the whole answer. */
  readonly show?: (body: Loose) => unknown;
}

interface ApiContext {
  readonly id: string;
  readonly plane: ControlPlane;
  readonly transport: Transport;
  readonly transcript: Exchange[];
  readonly hooks: CaseHooks;
}

const PATCH_TYPES = {
  json: 'application/json-patch+json',
  merge: 'application/merge-patch+json',
  strategic: 'application/strategic-merge-patch+json',
  apply: 'application/apply-patch+yaml',
} as const;

/** Longer request bodies are not repeated in the transcript. */
const LONG_BODY = 300;

export type Api = ReturnType<typeof createApi>;
export type Verbs = ReturnType<typeof verbsThrough>;

/**
 * Paths with a leading slash are absolute. Others are relative to the core resources of the case's namespace:
 * `configmaps/a` is `/api/v1/namespaces/<ns>/configmaps/a`.
 */
export function createApi({ id, plane, transport, transcript, hooks }: ApiContext) {
  const absolute = (path: string) => (path.startsWith('/') ? path : `/api/v1/namespaces/${id}/${path}`);
  const headers = { 'user-agent': 'conformance/1', authorization: `Bearer ${plane.token('admin')}` };

  const call = async (method: string, path: string, body?: unknown, contentType = 'application/json') => {
    const text = body === undefined || typeof body === 'string' ? body : JSON.stringify(body);
    const type = text === undefined ? {} : { 'content-type': contentType };
    const asked = { method, path: absolute(path), headers: { ...headers, ...type }, body: text };
    return { raw: await transport.call(asked), isLong: text === undefined || text.length > LONG_BODY };
  };
  const given = verbsThrough(async (method, path, body, _options, contentType) => {
    const { raw } = await call(method, path, body, contentType);
    if (raw.status >= 400) throw new Error(`${method} ${path}: ${raw.status} ${raw.text.slice(0, 500)}`);
    return parse(raw);
  });
  const recorded = verbsThrough(async (method, path, body, { show } = {}, contentType) => {
    const { raw, isLong } = await call(method, path, body, contentType);
    const answer = parse(raw);
    transcript.push({
      request: `${method} ${absolute(path)}`,
      ...(isLong ? {} : { body }),
      status: raw.status,
      ...tellingHeaders(raw),
      answer: show === undefined || raw.status >= 400 ? answer.body : show(answer.object),
    });
    return answer;
  });
  return {
    /** A word unique to the case, which is also the name of its namespace. */
    id,
    ...recorded,
    /** The same verbs, unrecorded, for preparation; an error fails the case. */
    given,
    /** Polls, unrecorded, until `accept` is true for the answer of a GET. */
    until: (path: string, accept: (answer: Answer) => boolean) =>
      eventually(
        `${path} has the expected answer`,
        async () => {
          const answer = parse((await call('GET', path)).raw);
          return accept(answer) ? answer : undefined;
        },
        { timeoutMs: 40_000, everyMs: 30 },
      ),
    hooks,
    /** Creates a webhook configuration for this case, and waits until the API server calls its webhooks. */
    install: (configuration: Configuration) => hooks.install(given, configuration),
    /** Records the reviews that the case's webhook `path` received; consecutive duplicates are recorded once. */
    noteReviews: (path: string, show: (review: Review) => unknown) => {
      const seen = hooks.reviewsAt(path).map(show);
      const texts = seen.map((review) => JSON.stringify(review));
      // A server retries after a conflict and calls the webhook again.
      const once = seen.filter((_review, index) => texts[index] !== texts[index - 1]);
      transcript.push({ note: `reviews at ${path}`, seen: once });
    },
    note: (note: string, seen: unknown) => void transcript.push({ note, seen }),
  };
}

type Send = (
  method: string,
  path: string,
  body?: unknown,
  options?: Options,
  contentType?: string,
) => Promise<Answer>;

const verbsThrough = (send: Send) => ({
  get: (path: string, options?: Options) => send('GET', path, undefined, options),
  create: (path: string, body: unknown, options?: Options) => send('POST', path, body, options),
  update: (path: string, body: unknown, options?: Options) => send('PUT', path, body, options),
  patch: (path: string, type: keyof typeof PATCH_TYPES, body: unknown, options?: Options) =>
    send('PATCH', path, body, options, PATCH_TYPES[type]),
  /** Server-side apply. The query must name the manager: `?fieldManager=a`. */
  apply: (path: string, body: unknown, options?: Options) =>
    send('PATCH', path, body, options, PATCH_TYPES.apply),
  delete: (path: string, body?: unknown, options?: Options) => send('DELETE', path, body, options),
});

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
