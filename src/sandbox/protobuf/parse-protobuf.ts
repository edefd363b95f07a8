import type { JsonObject } from '../../json/json.ts';
import { ApiFailure, badRequest, unsupportedMediaType } from '../../machinery/failure.ts';
import { record, text } from '../../machinery/fields.ts';
import { messageOf } from './message-of.ts';
import { BYTES, TEXT, message } from './wire.ts';

const MAGIC = Buffer.from('k8s\0', 'latin1');

/** runtime.Unknown of k8s.io/apimachinery: the envelope of every body. */
const ENVELOPE = message({
  typeMeta: [1, message({ apiVersion: [1, TEXT], kind: [2, TEXT] })],
  raw: [2, BYTES],
});

/**
 * Decodes a body of `application/vnd.kubernetes.protobuf` into the object that JSON would give.
 * @throws ApiFailure 400 if the body is malformed, 415 if the kind is not supported
 */
export function parseProtobuf(body: Uint8Array): JsonObject {
  try {
    return parse(body);
  } catch (error) {
    if (error instanceof ApiFailure || !(error instanceof Error)) throw error;
    throw badRequest(`couldn't get version/kind; protobuf parse error: ${error.message}`);
  }
}

function parse(body: Uint8Array): JsonObject {
  if (!MAGIC.equals(body.subarray(0, MAGIC.length))) {
    throw new Error('provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]');
  }
  const envelope = ENVELOPE.decode(body.subarray(MAGIC.length), '');
  const typeMeta = record(envelope, 'typeMeta') ?? {};
  const [apiVersion, kind] = [text(typeMeta, 'apiVersion'), text(typeMeta, 'kind')];
  const found = messageOf(apiVersion, kind);
  if (found === undefined) {
    throw unsupportedMediaType(
      `the sandbox cannot read ${kind === '' ? 'an object without a kind' : `${apiVersion} ${kind}`} in protobuf: send application/json`,
    );
  }
  return { apiVersion, kind, ...found.decode(Buffer.from(text(envelope, 'raw'), 'base64'), '') };
}
