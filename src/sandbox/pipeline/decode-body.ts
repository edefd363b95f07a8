import type { JsonValue } from '../../json/json.ts';
import { noVersionAndKind, parseBody } from '../http/content-type.ts';
import type { ApiRequest } from './context.ts';

/**
 * The body of a request, which must hold an object of this kind.
 * @throws ApiFailure 415, or 400 if it is malformed, in the words of transformDecodeError
 *   (k8s.io/apiserver/pkg/endpoints/handlers)
 */
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

/** The number of bytes of a body in a message. */
const SHOWN = 30;

/** The beginning of a body: as text if it looks like JSON, otherwise in hexadecimal. */
function summaryOf(body: Uint8Array): string {
  if (body.length === 0) return '<empty>';
  const start = Buffer.from(body.subarray(0, SHOWN));
  const text = start[0] === 0x7b ? start.toString() : start.toString('hex');
  return body.length > SHOWN ? `${text} ...` : text;
}
