import type { JsonValue } from '../../json/json.ts';
import { mediaTypeOf, negotiateDocument, plainForm, type Encoding } from '../content-type.ts';

/** A document that is no object, and the Content-Type that it goes out with. */
export interface DocumentAnswer {
  readonly body: JsonValue;
  readonly encoding: Encoding;
  readonly contentType: string;
}

/** The document in the encoding that the client accepts. @throws ApiFailure 406 */
export function documentAnswer(body: JsonValue, accept: string | undefined): DocumentAnswer {
  const { encoding } = negotiateDocument(accept, plainForm);
  return { body, encoding, contentType: mediaTypeOf(encoding) };
}
