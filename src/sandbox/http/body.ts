import type { IncomingMessage } from 'node:http';

import { ApiFailure } from '../failure.ts';

/** As much as kube-apiserver takes, in bytes. */
const LIMIT = 3 * 1024 * 1024;

/** The whole body. @throws ApiFailure 413 when it is larger than the API server takes */
export function readBody(request: IncomingMessage): Promise<Uint8Array> {
  // Events are a good deal cheaper than the stream's iterator, and most bodies are one chunk.
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let size = 0;
    request.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size <= LIMIT) chunks.push(chunk);
      else reject(tooLarge());
    });
    request.once('end', () => {
      resolve(Buffer.concat(chunks));
    });
    request.once('error', reject);
  });
}

const tooLarge = () =>
  new ApiFailure(413, 'RequestEntityTooLarge', `Request entity too large: limit is ${LIMIT}`, {});
