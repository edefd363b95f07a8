import type { IncomingMessage } from 'node:http';

import { ApiFailure } from '../failure.ts';

/** As much as kube-apiserver takes, in bytes. */
const LIMIT = 3 * 1024 * 1024;

/** The whole body. @throws ApiFailure 413 when it is larger than the API server takes */
export async function readBody(request: IncomingMessage): Promise<Uint8Array> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > LIMIT) {
      throw new ApiFailure(413, 'RequestEntityTooLarge', `Request entity too large: limit is ${LIMIT}`, {});
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks, size);
}
