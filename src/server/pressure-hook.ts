import type { Server } from 'node:https';
import type { FastifyRequest } from 'fastify';

import { busy, send, type Answer, type Reply } from './answer.ts';
import type { Overload, Pressure } from './pressure.ts';

interface EntryRoute {
  Params: { entry: string };
}

/**
 * Refuses a review before its body is read. Node reads the body all the same, and throws it away, so the connection stays open.
 * @param mostBytes of a body; one without a length may have as many
 */
export function refuseUnderPressure(pressure: Pressure, mostBytes: number) {
  return (request: FastifyRequest<EntryRoute, Server>, reply: Reply, done: () => void): void => {
    const length = Number(request.headers['content-length'] ?? mostBytes);
    const arrival = pressure.arrive(request.params.entry, Math.min(length, mostBytes), () => {
      request.raw.destroy();
    });
    if (arrival.kind === 'refused') {
      void send(reply, toBusy(arrival.why));
      return;
    }
    if (arrival.body !== undefined) {
      request.raw.once('end', arrival.body.received);
      reply.raw.once('close', arrival.body.release);
    }
    done();
  };
}

const MESSAGES = {
  reviews: 'as many admission reviews are under way here as may be at a time',
  entry: 'as many admission reviews of this webhook are under way here as leave room for others',
  bodies: 'as many large objects are held here as there is memory for',
  'event-loop': 'there is more to do here than can be done in time',
} as const satisfies Record<Overload, string>;

/** 429 with Retry-After, on which the API server asks again within the webhook's own timeout. */
export const toBusy = (why: Overload): Answer => busy(`${MESSAGES[why]}: ask again`);
