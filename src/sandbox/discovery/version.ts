import { arch, platform, version } from 'node:process';
import { type JsonObject, stringifyJson, type JsonValue } from '../../json/json.ts';
import { mediaTypeOf, negotiateDocument, plainForm, type Encoding } from '../http/content-type.ts';

export const GIT_VERSION = 'v1.37.0+sandbox';

/** `/version`: the emulated Kubernetes release. */
export const VERSION: JsonObject = {
  major: '1',
  minor: '37',
  emulationMajor: '1',
  emulationMinor: '37',
  minCompatibilityMajor: '1',
  minCompatibilityMinor: '36',
  gitVersion: GIT_VERSION,
  gitCommit: '',
  gitTreeState: 'clean',
  buildDate: '1970-01-01T00:00:00Z',
  goVersion: `node ${version}`,
  compiler: 'none',
  platform: `${platform}/${arch}`,
};

const TITLE = 'Kubernetes';

/**
 * `/openapi/v2`, as an empty document. kubectl reads it before it sends a `kind: List`, or a kind that no version 3
 * document contains, and rejects the file if the document is missing. It leaves validation of kinds that are not in
 * the document to the server. Undefined for all other paths.
 *
 * @see https://kubernetes.io/docs/concepts/overview/kubernetes-api/#openapi-v2
 */
export function swaggerAnswer(
  path: string,
  accept: string | undefined,
): { readonly contentType: string; readonly text: string } | undefined {
  if (path !== '/openapi/v2') return undefined;
  if (accept?.includes('proto-openapi.spec.v2') === true) return { contentType: PROTOBUF, text: BINARY };
  return { contentType: 'application/json', text: JSON_TEXT };
}

/** With a dot instead of the `@` in the Accept header, which a Content-Type must not contain. */
const PROTOBUF = 'application/com.github.proto-openapi.spec.v2.v1.0+protobuf';

const JSON_TEXT = stringifyJson({ swagger: '2.0', info: { title: TITLE, version: GIT_VERSION }, paths: {} });

/**
 * A bytes field in protobuf: key, length, content. Numbers below 16 and lengths below 128 take one byte, which is one
 * character.
 */
const field = (number: number, content: string): string =>
  String.fromCharCode(number * 8 + 2, content.length) + content;

/** openapi.v2.Document of gnostic: swagger, info (title, version), paths. */
const BINARY = field(1, '2.0') + field(2, field(1, TITLE) + field(2, GIT_VERSION)) + field(8, '');

/** A document that is not an API object, with its Content-Type. */
export interface DocumentAnswer {
  readonly body: JsonValue;
  readonly encoding: Encoding;
  readonly contentType: string;
}

/** Encodes the document as the client accepts it. @throws ApiFailure 406 */
export function documentAnswer(body: JsonValue, accept: string | undefined): DocumentAnswer {
  const { encoding } = negotiateDocument(accept, plainForm);
  return { body, encoding, contentType: mediaTypeOf(encoding) };
}
