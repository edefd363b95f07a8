import { parseDocument } from 'yaml';

import { parseJson, type JsonValue } from '../../../json/json.ts';
import { badRequest, notAcceptable, unsupportedMediaType } from '../../machinery/failure.ts';
import { parseProtobuf } from '../protobuf/parse-protobuf.ts';

/** How an answer is spelt. */
export type Encoding = 'json' | 'yaml';

/** Both versions of meta.k8s.io that a Table or PartialObjectMetadata can be asked for in. */
export type MetaVersion = 'v1' | 'v1beta1';

/** The form in which a client wants objects. */
export type Form =
  | { readonly kind: 'object' }
  | { readonly kind: 'table'; readonly version: MetaVersion }
  | { readonly kind: 'partial-metadata'; readonly version: MetaVersion }
  | { readonly kind: 'partial-metadata-list'; readonly version: MetaVersion };

export type Accepted = Form & { readonly encoding: Encoding };

/** What we write, the preferred first. The API server writes protobuf too; every client that asks for it also takes JSON. */
const ENCODINGS = [
  { encoding: 'json', mediaType: 'application/json', streams: true },
  { encoding: 'yaml', mediaType: 'application/yaml', streams: false },
] as const satisfies readonly { encoding: Encoding; mediaType: string; streams: boolean }[];

const MEDIA_TYPES = ENCODINGS.map(({ mediaType }) => mediaType);

/**
 * How to answer a read or a write of objects.
 *
 * @param accept the header; none means JSON
 * @throws ApiFailure 406 when nothing that the client accepts can be had
 */
export function negotiate(accept: string | undefined): Accepted {
  return choose(accept, ENCODINGS, formOf) ?? refuse(MEDIA_TYPES);
}

/**
 * Refuses before anything is done what could not be answered in the end. Built-in kinds have routes that are chosen by media
 * type, and say so in the words of the router.
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

/** How to spell a refusal: as asked, but nobody is left without one. */
export function negotiateRefusal(accept: string | undefined): Encoding {
  return choose(accept, ENCODINGS, formOf)?.encoding ?? 'json';
}

/** How to answer a watch: only JSON comes in pieces. @throws ApiFailure 406 */
export function negotiateWatch(accept: string | undefined): Accepted {
  const streaming = ENCODINGS.filter(({ streams }) => streams);
  return (
    choose(accept, streaming, formOf) ?? refuse(streaming.map(({ mediaType }) => `${mediaType};stream=watch`))
  );
}

/**
 * How to answer with a document that is no object.
 *
 * @param formFor the form that parameters of a media type (`as`, `g`, `v`) ask for; undefined when there is no such form
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

/** Clauses of an Accept header, the most wanted first; what is not of the form `type/subtype` is passed over. */
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

/** What `as`, `g`, `v` and `stream` ask for; undefined when there is no such thing, which passes the clause over. */
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

/** The media type of an encoding, as the Content-Type header of an answer has it. */
export const mediaTypeOf = (encoding: Encoding): string => `application/${encoding}`;

/**
 * The body of a request as a value.
 *
 * @param contentType the header; none means JSON
 * @param explain what to tell the client of a body that cannot be read, from what is wrong with it
 * @throws ApiFailure 415 when we do not read this type, 400 when the body is not what its type says
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

/** How the API server says that a body is not what its type says. */
export const noVersionAndKind = (problem: string, encoding: 'json' | 'yaml'): string =>
  `couldn't get version/kind; ${encoding === 'json' ? 'json parse error' : 'error converting YAML to JSON'}: ${problem}`;

/** What bodies may be, in the order in which the API server names them. */
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

/** As deep as Go's decoder goes. */
const MAX_DEPTH = 10_000;

/** @throws SyntaxError when it is not JSON, or when it is nested deeper than the API server takes */
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

/** JSON is YAML, and clients that apply mostly send it: it is read in a fraction of the time. Undefined when it is not JSON. */
function jsonIn(text: string): JsonValue | undefined {
  if (!text.startsWith('{')) return undefined;
  try {
    return parseShallow(text);
  } catch {
    return undefined;
  }
}

/** @throws Error when it is not one YAML document that JSON could say */
function parseYaml(text: string): JsonValue {
  // As in JSON, the last of two equal keys wins; integers come as bigints, so that long ones keep their value.
  const document = parseDocument(text, { merge: true, uniqueKeys: false, intAsBigInt: true });
  const [problem] = document.errors;
  if (problem !== undefined) throw problem;
  return ofYaml(document.toJS({ mapAsMap: true }));
}

function ofYaml(value: unknown): JsonValue {
  if (value instanceof Map) {
    // Every scalar key becomes text, as it does in the API server.
    return Object.fromEntries([...value].map(([key, item]) => [String(key), ofYaml(item)]));
  }
  if (Array.isArray(value)) return value.map(ofYaml);
  if (typeof value === 'bigint') return ofInteger(value);
  if (value === undefined || value === null) return null;
  if (typeof value === 'string' || typeof value === 'boolean') return value;
  if (typeof value === 'number' && Number.isFinite(value)) return value;
  throw new Error(`JSON has no such ${typeof value}`);
}

/** As in JSON: an int64 keeps its value, what is larger is a double. */
function ofInteger(value: bigint): JsonValue {
  const number = Number(value);
  if (!Number.isSafeInteger(number) && BigInt.asIntN(64, value) === value) return value;
  return Number.isFinite(number) ? number : ofYaml(number);
}
