/** An end that no client can hold up. */
import type { Server } from 'node:https';
import type { Socket } from 'node:net';

/**
 * Prepares `server` for its end. Call the function returned just before the server closes: from then on whoever is silent is
 * cut off at once, and whoever is slow after `graceMs`.
 *
 * A server that closes waits for its connections, and Node stops looking for overdue ones at that moment. It counts a connection
 * as busy that was opened and never used, of which the API server keeps some in reserve.
 */
export function prepareClosing(server: Server, graceMs: number): () => void {
  const unused = new Set<Socket>();
  server.on('secureConnection', (socket) => {
    unused.add(socket);
    socket.once('close', () => unused.delete(socket));
  });
  server.on('request', ({ socket }) => unused.delete(socket));

  return () => {
    for (const socket of unused) socket.destroy();
    setTimeout(() => {
      server.closeAllConnections();
    }, graceMs).unref();
  };
}
