import { parseDocument } from 'yaml';

import { parseJson, type JsonValue } from '../../json/json.ts';
import { badRequest, notAcceptable, unsupportedMediaType } from '../../machinery/failure.ts';
import { parseProtobuf } from '../protobuf/parse-protobuf.ts';

/** The encoding of an answer. */
export type Encoding = 'json' | 'yaml';

/** The versions of meta.k8s.io in which a Table or PartialObjectMetadata is available. */
export type MetaVersion = 'v1' | 'v1beta1';

/** The representation of objects that a client asks for. */
export type Form =
  | { readonly kind: 'object' }
  | { readonly kind: 'table'; readonly version: MetaVersion }
  | { readonly kind: 'partial-metadata'; readonly version: MetaVersion }
  | { readonly kind: 'partial-metadata-list'; readonly version: MetaVersion };

export type Accepted = Form & { readonly encoding: Encoding };

/**
 * The encodings that the sandbox writes, the preferred first. The API server also writes protobuf; every client that
 * asks for it also accepts JSON.
 */
const ENCODINGS = [
  { encoding: 'json', mediaType: 'application/json', streams: true },
  { encoding: 'yaml', mediaType: 'application/yaml', streams: false },
] as const satisfies readonly { encoding: Encoding; mediaType: string; streams: boolean }[];

const MEDIA_TYPES = ENCODINGS.map(({ mediaType }) => mediaType);

/**
 * Negotiates the answer to a read or write of objects.
 * @param accept the header; JSON if absent
 * @throws ApiFailure 406 if no accepted encoding is available
 */
export function negotiate(accept: string | undefined): Accepted {
  return choose(accept, ENCODINGS, formOf) ?? refuse(MEDIA_TYPES);
}

/**
 * Rejects, before the request is processed, an Accept header that cannot be satisfied. For built-in kinds the API
 * server's router does this, with its own message.
 *
 * @throws ApiFailure 406
 */
export function refuseUnacceptable(
  accept: string | undefined,
  { isWatch, custom }: { readonly isWatch: boolean; readonly custom: boolean },
): void {
  if (!custom && choose(accept, ENCODINGS, () => ({})) === undefined) {
    const available = `Available representations: ${MEDIA_TYPES.join(', ')}`;
    throw notAcceptable(`406: Not Acceptable\n\n${available}`, {});
  }
  if (isWatch) negotiateWatch(accept);
  else negotiate(accept);
}

/** The encoding of an error; JSON if no accepted encoding is available. */
export function negotiateRefusal(accept: string | undefined): Encoding {
  return choose(accept, ENCODINGS, formOf)?.encoding ?? 'json';
}

/** Negotiates the answer to a watch: only JSON can be streamed. @throws ApiFailure 406 */
export function negotiateWatch(accept: string | undefined): Accepted {
  const streaming = ENCODINGS.filter(({ streams }) => streams);
  return (
    choose(accept, streaming, formOf) ?? refuse(streaming.map(({ mediaType }) => `${mediaType};stream=watch`))
  );
}

/**
 * Negotiates the answer with a document that is not an API object.
 * @param formFor the form for the parameters of a media type (`as`, `g`, `v`); undefined if there is no such form
 * @throws ApiFailure 406
 */
export function negotiateDocument<F extends object>(
  accept: string | undefined,
  formFor: (parameters: ReadonlyMap<string, string>) => F | undefined,
): F & { readonly encoding: Encoding } {
  return choose(accept, ENCODINGS, formFor) ?? refuse(MEDIA_TYPES);
}

/** The only form that most documents have. */
export const plainForm = (parameters: ReadonlyMap<string, string>): { readonly kind: 'plain' } | undefined =>
  asksForConversion(parameters) ? undefined : { kind: 'plain' };

const asksForConversion = (parameters: ReadonlyMap<string, string>): boolean =>
  ['as', 'g', 'v'].some((key) => parameters.has(key));

function choose<F extends object>(
  accept: string | undefined,
  encodings: readonly { readonly encoding: Encoding; readonly mediaType: string }[],
  formFor: (parameters: ReadonlyMap<string, string>) => F | undefined,
): (F & { readonly encoding: Encoding }) | undefined {
  const clauses = accept === undefined || accept === '' ? parseAccept('*/*') : parseAccept(accept);
  for (const { mediaType: wanted, parameters } of clauses) {
    const match = encodings.find(({ mediaType }) => covers(wanted, mediaType));
    const form = match === undefined ? undefined : formFor(parameters);
    if (match !== undefined && form !== undefined) return { ...form, encoding: match.encoding };
  }
  return undefined;
}

function refuse(mediaTypes: readonly string[]): never {
  throw notAcceptable(`only the following media types are accepted: ${mediaTypes.join(', ')}`);
}

interface Clause {
  readonly mediaType: string;
  readonly quality: number;
  readonly parameters: ReadonlyMap<string, string>;
}

/** The clauses of an Accept header by preference; clauses that are not `type/subtype` are skipped. */
function parseAccept(header: string): readonly Clause[] {
  return header
    .split(',')
    .map(parseClause)
    .filter(({ mediaType }) => /^[^/]+\/[^/]+$/.test(mediaType))
    .toSorted((left, right) => right.quality - left.quality || wildcards(left) - wildcards(right));
}

function parseClause(text: string): Clause {
  const [mediaType = '', ...rest] = text.split(';').map((part) => part.trim());
  const parameters = new Map(rest.map(parseParameter));
  const quality = Number(parameters.get('q') ?? 1);
  return { mediaType: mediaType.toLowerCase(), quality: Number.isNaN(quality) ? 1 : quality, parameters };
}

function parseParameter(text: string): readonly [string, string] {
  const [key = '', value = ''] = text.split('=', 2);
  return [key.trim(), value.trim()];
}

const wildcards = ({ mediaType }: Clause): number => mediaType.split('*').length;

function covers(wanted: string, mediaType: string): boolean {
  return wanted === '*/*' || wanted === mediaType || wanted === `${mediaType.split('/', 1)[0] ?? ''}/*`;
}

const FORMS: Readonly<Record<string, Exclude<Form['kind'], 'object'>>> = {
  Table: 'table',
  PartialObjectMetadata: 'partial-metadata',
  PartialObjectMetadataList: 'partial-metadata-list',
};

/** The form for `as`, `g`, `v` and `stream`; undefined if there is none, in which case the clause is skipped. */
function formOf(parameters: ReadonlyMap<string, string>): Form | undefined {
  const stream = parameters.get('stream') ?? '';
  if (stream !== '' && stream !== 'watch') return undefined;
  if (!asksForConversion(parameters)) return { kind: 'object' };

  const as = parameters.get('as') ?? '';
  const version = parameters.get('v');
  const kind = Object.hasOwn(FORMS, as) ? FORMS[as] : undefined;
  if (kind === undefined || parameters.get('g') !== 'meta.k8s.io') return undefined;
  return version === 'v1' || version === 'v1beta1' ? { kind, version } : undefined;
}

/** The media type of an encoding for the Content-Type header. */
export const mediaTypeOf = (encoding: Encoding): string => `application/${encoding}`;

/**
 * Parses the body of a request.
 * @param contentType the header; JSON if absent
 * @param explain makes the client's message from the parse error
 * @throws ApiFailure 415 if the type is not supported, 400 if the body is malformed
 */
export function parseBody(
  body: Uint8Array,
  contentType: string | undefined,
  explain: (problem: string, encoding: 'json' | 'yaml') => string = noVersionAndKind,
): JsonValue {
  switch (encodingOf(contentType ?? '')) {
    case 'json':
      return parsed(
        () => parseShallow(textOf(body)),
        (problem) => explain(problem, 'json'),
      );
    case 'yaml':
      return parsed(
        () => jsonIn(textOf(body)) ?? parseYaml(textOf(body)),
        (problem) => explain(problem, 'yaml'),
      );
    case 'protobuf':
      return parseProtobuf(body);
    case undefined:
      throw unsupportedMediaType(
        `the body of the request was in an unknown format - accepted media types include: ${READABLE.map(([mediaType]) => mediaType).join(', ')}`,
      );
  }
}

/** The API server's message for a malformed body. */
export const noVersionAndKind = (problem: string, encoding: 'json' | 'yaml'): string =>
  `couldn't get version/kind; ${encoding === 'json' ? 'json parse error' : 'error converting YAML to JSON'}: ${problem}`;

/** The supported body types, in the order in which the API server lists them. */
const READABLE = [
  ['application/json', 'json'],
  ['application/yaml', 'yaml'],
  ['application/vnd.kubernetes.protobuf', 'protobuf'],
] as const;

function encodingOf(contentType: string): (typeof READABLE)[number][1] | undefined {
  const mediaType = contentType.split(';', 1)[0]?.trim().toLowerCase() ?? '';
  return mediaType === '' ? 'json' : READABLE.find(([known]) => known === mediaType)?.[1];
}

/** A byte order mark is part of the text. */
const UTF_8 = new TextDecoder('utf-8', { ignoreBOM: true });
const textOf = (body: Uint8Array): string => UTF_8.decode(body);

function parsed(parse: () => JsonValue, explain: (problem: string) => string): JsonValue {
  try {
    return parse();
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    throw badRequest(explain(error.message));
  }
}

/** The maximum depth of Go's decoder. */
const MAX_DEPTH = 10_000;

/** @throws SyntaxError if the text is not JSON or is nested more deeply than the API server accepts */
function parseShallow(text: string): JsonValue {
  if (text.length > MAX_DEPTH && isTooDeep(text)) throw new SyntaxError('exceeded max depth');
  return parseJson(text);
}

const BRACKETS = /"(?:[^"\\]|\\.)*"|[[{]|[\]}]/gs;

function isTooDeep(text: string): boolean {
  let depth = 0;
  for (const [found] of text.matchAll(BRACKETS)) {
    if (found === '[' || found === '{') depth += 1;
    else if (found === ']' || found === '}') depth -= 1;
    if (depth > MAX_DEPTH) return true;
  }
  return false;
}

/**
 * Fast path: JSON is valid YAML, clients that apply mostly send it, and it parses in a fraction of the time.
 * Undefined if the text is not JSON.
 */
function jsonIn(text: string): JsonValue | undefined {
  if (!text.startsWith('{')) return undefined;
  try {
    return parseShallow(text);
  } catch {
    return undefined;
  }
}

/** @throws Error if the text is not a single YAML document with a JSON equivalent */
function parseYaml(text: string): JsonValue {
  // As in JSON, the last of two equal keys wins. Integers are parsed as bigints, so that long ones are exact.
  const document = parseDocument(text, { merge: true, uniqueKeys: false, intAsBigInt: true });
  const [problem] = document.errors;
  if (problem !== undefined) throw problem;
  return ofYaml(document.toJS({ mapAsMap: true }));
}

function ofYaml(value: unknown): JsonValue {
  if (value instanceof Map) {
    // Every scalar key becomes a string, as in the API server.
    return Object.fromEntries([...value].map(([key, item]) => [String(key), ofYaml(item)]));
  }
  if (Array.isArray(value)) return value.map(ofYaml);
  if (typeof value === 'bigint') return ofInteger(value);
  if (value === undefined || value === null) return null;
  if (typeof value === 'string' || typeof value === 'boolean') return value;
  if (typeof value === 'number' && Number.isFinite(value)) return value;
  throw new Error(`JSON has no such ${typeof value}`);
}

/** As in JSON: an int64 stays exact; a larger number becomes a double. */
function ofInteger(value: bigint): JsonValue {
  const number = Number(value);
  if (!Number.isSafeInteger(number) && BigInt.asIntN(64, value) === value) return value;
  return Number.isFinite(number) ? number : ofYaml(number);
}
