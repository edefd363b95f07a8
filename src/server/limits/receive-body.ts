import type { Server } from 'node:https';
import type { Readable } from 'node:stream';
import type { FastifyInstance } from 'fastify';

import type { ReviewBody } from '../../admission/review/read-review.ts';

type Done = (error: Error | null, body?: ReviewBody) => void;

/** Fastify's own parser answers 413 to a large body, and 400 to the key `__proto__`, which is valid in a ConfigMap. */
export function acceptBodies(app: FastifyInstance<Server>, limitBytes: number): void {
  app.addContentTypeParser('application/json', (_request, payload, done: Done) => {
    receiveBody(payload, limitBytes, done);
  });
}

/** Discards the rest above the limit: the API server possibly reads the response only after it has sent the request. */
export function receiveBody(payload: Readable, limitBytes: number, done: Done): void {
  const chunks: Buffer[] = [];
  let [kept, isComplete] = [0, true];
  const onData = (chunk: Buffer): void => {
    isComplete &&= kept + chunk.length <= limitBytes;
    const start = isComplete ? chunk : chunk.subarray(0, limitBytes - kept);
    if (start.length > 0) chunks.push(start);
    kept += start.length;
  };
  payload
    .on('data', onData)
    .on('end', () => {
      const [only] = chunks;
      const bytes = only !== undefined && chunks.length === 1 ? only : Buffer.concat(chunks, kept);
      done(null, { bytes, isComplete });
    })
    .on('error', (error) => {
      // The client has hung up. Afterwards, the request fails only while it waits for its answer.
      if (!payload.readableEnded) done(Object.assign(error, { statusCode: 400 }));
    });
}
