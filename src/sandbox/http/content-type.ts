import { parseDocument } from 'yaml';

import { isDeeperThan, jsonIn, type JsonValue, parseJson } from '../../json/json.ts';
import { badRequest, notAcceptable, unsupportedMediaType } from '../../machinery/failure.ts';
import type { ApiRequest } from '../pipeline/context.ts';
import { parseProtobuf } from '../protobuf/parse-protobuf.ts';
import { textOf } from '../protobuf/wire.ts';

/** The API server also writes protobuf, but every client that asks for protobuf accepts JSON. */
export type Encoding = 'json' | 'yaml';

/** The representation of objects that a client asks for. A list of metadata has the same form as its items. */
export interface Form {
  readonly kind: 'object' | 'table' | 'partial-metadata';
}

type Accepted<F> = F & { readonly encoding: Encoding };

/** The form for the parameters of a media type (`as`, `g`, `v`); undefined if there is no such form. */
type FormFor<F> = (parameters: ReadonlyMap<string, string>) => F | undefined;

const ENCODINGS: readonly Encoding[] = ['json', 'yaml'];

export const mediaTypeOf = (encoding: Encoding): string => `application/${encoding}`;

/** Negotiates the answer to a read or write of objects. */
export const negotiate = (accept: string | undefined): Accepted<Form> => negotiateDocument(accept, formOf);

/** Negotiates the answer with a document that is not an API object. @throws ApiFailure 406 */
export function negotiateDocument<F extends object>(
  accept: string | undefined,
  formFor: FormFor<F>,
): Accepted<F> {
  return choose(accept, ENCODINGS, formFor) ?? refuse(ENCODINGS);
}

/** Negotiates the answer to a watch: only JSON can be streamed. @throws ApiFailure 406 */
export function negotiateWatch(accept: string | undefined): Accepted<Form> {
  return choose(accept, ['json'], formOf) ?? refuse(['json']);
}

/** The encoding of an error; JSON if no accepted encoding is available. */
export function negotiateRefusal(accept: string | undefined): Encoding {
  return choose(accept, ENCODINGS, formOf)?.encoding ?? 'json';
}

export const plainForm: FormFor<{ readonly kind: 'plain' }> = (parameters) =>
  asksForConversion(parameters) ? undefined : { kind: 'plain' };

const asksForConversion = (parameters: ReadonlyMap<string, string>): boolean =>
  ['as', 'g', 'v'].some((key) => parameters.has(key));

function choose<F extends object>(
  accept: string | undefined,
  encodings: readonly Encoding[],
  formFor: FormFor<F>,
): Accepted<F> | undefined {
  const clauses = accept === undefined || accept === '' ? parseAccept('*/*') : parseAccept(accept);
  for (const { mediaType, parameters } of clauses) {
    const encoding = encodings.find((one) => covers(mediaType, mediaTypeOf(one)));
    const form = encoding === undefined ? undefined : formFor(parameters);
    if (encoding !== undefined && form !== undefined) return { ...form, encoding };
  }
  return undefined;
}

function refuse(encodings: readonly Encoding[]): never {
  const known = encodings.map(mediaTypeOf).join(', ');
  throw notAcceptable(`only the following media types are accepted: ${known}`);
}

type Clause = ReturnType<typeof parseClause>;

/** The clauses of an Accept header by preference; clauses that are not `type/subtype` are skipped. */
function parseAccept(header: string): readonly Clause[] {
  return header
    .split(',')
    .map(parseClause)
    .filter(({ mediaType }) => /^[^/]+\/[^/]+$/.test(mediaType))
    .toSorted((left, right) => right.quality - left.quality || wildcards(left) - wildcards(right));
}

function parseClause(text: string) {
  const [mediaType = '', ...rest] = text.split(';').map((part) => part.trim());
  const parameters = new Map(
    rest.map((part) => {
      const [key = '', value = ''] = part.split('=', 2);
      return [key.trim(), value.trim()] as const;
    }),
  );
  const quality = Number(parameters.get('q') ?? 1);
  return { mediaType: mediaType.toLowerCase(), quality: Number.isNaN(quality) ? 1 : quality, parameters };
}

const wildcards = ({ mediaType }: Clause): number => mediaType.split('*').length;

function covers(wanted: string, mediaType: string): boolean {
  return wanted === '*/*' || wanted === mediaType || wanted === `${mediaType.split('/', 1)[0] ?? ''}/*`;
}

const FORMS = new Map<string, Form['kind']>([
  ['Table', 'table'],
  ['PartialObjectMetadata', 'partial-metadata'],
  ['PartialObjectMetadataList', 'partial-metadata'],
]);

/** The form for `as`, `g`, `v` and `stream`; undefined if the clause must be skipped. */
function formOf(parameters: ReadonlyMap<string, string>): Form | undefined {
  const stream = parameters.get('stream') ?? '';
  if (stream !== '' && stream !== 'watch') return undefined;
  if (!asksForConversion(parameters)) return { kind: 'object' };

  const kind = FORMS.get(parameters.get('as') ?? '');
  const isMeta = parameters.get('g') === 'meta.k8s.io' && parameters.get('v') === 'v1';
  return kind === undefined || !isMeta ? undefined : { kind };
}

/** The media type of a Content-Type header; empty if absent. */
export const mediaTypeIn = (contentType = ''): string =>
  contentType.split(';', 1)[0]?.trim().toLowerCase() ?? '';

/** The body of a request, which must hold an object of this kind. */
export function objectBody(
  { body, contentType }: Pick<ApiRequest, 'body' | 'contentType'>,
  kind: string,
): JsonValue {
  return parseBody(
    body,
    contentType,
    (problem, encoding) =>
      `the object provided is unrecognized (must be of type ${kind}): ${noVersionAndKind(problem, encoding)} (${summaryOf(body)})`,
  );
}

const SHOWN = 30;

/** The beginning of a body: as text if it looks like JSON, otherwise in hexadecimal. */
function summaryOf(body: Uint8Array): string {
  if (body.length === 0) return '<empty>';
  const start = Buffer.from(body.subarray(0, SHOWN));
  const text = start[0] === 0x7b ? start.toString() : start.toString('hex');
  return body.length > SHOWN ? `${text} ...` : text;
}

export function parseBody(
  body: Uint8Array,
  contentType: string | undefined,
  explain: (problem: string, encoding: Encoding) => string = noVersionAndKind,
): JsonValue {
  const encoding = READABLE.get(mediaTypeIn(contentType) || mediaTypeOf('json'));
  if (encoding === 'protobuf') return parseProtobuf(body);
  if (encoding === undefined) throw unknownFormat([...READABLE.keys()]);
  const text = textOf(body);
  try {
    if (encoding === 'json') return parseShallow(text);
    // Most clients that apply send JSON, which parses much faster than YAML.
    return (isDeeperThan(MAX_DEPTH, text) ? undefined : jsonIn(text)) ?? parseYaml(text);
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    throw badRequest(explain(error.message, encoding));
  }
}

/** @param known the media types that the API server accepts here */
export const unknownFormat = (known: readonly string[]) =>
  unsupportedMediaType(
    `the body of the request was in an unknown format - accepted media types include: ${known.join(', ')}`,
  );

/** The API server's message for a malformed body. */
const noVersionAndKind = (problem: string, encoding: Encoding): string =>
  `couldn't get version/kind; ${encoding === 'json' ? 'json parse error' : 'error converting YAML to JSON'}: ${problem}`;

/** The supported body types, in the order in which the API server lists them. */
const READABLE = new Map<string, Encoding | 'protobuf'>([
  ['application/json', 'json'],
  ['application/yaml', 'yaml'],
  ['application/vnd.kubernetes.protobuf', 'protobuf'],
]);

/** The maximum depth of Go's decoder. */
const MAX_DEPTH = 10_000;

/** @throws SyntaxError if the text is not JSON or is nested more deeply than the API server accepts */
function parseShallow(text: string): JsonValue {
  if (isDeeperThan(MAX_DEPTH, text)) throw new SyntaxError('exceeded max depth');
  return parseJson(text);
}

/** @throws Error if the text is not a single YAML document with a JSON equivalent */
function parseYaml(text: string): JsonValue {
  // Like in JSON, the last of two equal keys wins. Integers are parsed as bigints, so that long ones are exact.
  const document = parseDocument(text, { merge: true, uniqueKeys: false, intAsBigInt: true });
  const [problem] = document.errors;
  if (problem !== undefined) throw problem;
  return ofYaml(document.toJS({ mapAsMap: true }));
}

function ofYaml(value: unknown): JsonValue {
  if (value instanceof Map) {
    // Like in the API server, every scalar key becomes a string.
    return Object.fromEntries([...value].map(([key, item]) => [String(key), ofYaml(item)]));
  }
  if (Array.isArray(value)) return value.map(ofYaml);
  if (typeof value === 'bigint') return ofInteger(value);
  if (value === undefined || value === null) return null;
  if (typeof value === 'string' || typeof value === 'boolean') return value;
  if (typeof value === 'number' && Number.isFinite(value)) return value;
  throw new Error(`a ${typeof value} cannot be written as JSON`);
}

/** Like in JSON, an int64 is exact, and a larger number becomes a double. */
function ofInteger(value: bigint): JsonValue {
  const number = Number(value);
  if (!Number.isSafeInteger(number) && BigInt.asIntN(64, value) === value) return value;
  return Number.isFinite(number) ? number : ofYaml(number);
}
