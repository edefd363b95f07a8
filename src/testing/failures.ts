/** Failures between a controller and its API server: below the client's retries, so that the client reacts as in a cluster. */
import { setImmediate } from 'node:timers/promises';

import { groupResourceName } from '../json/kube-object.ts';
import type { Connection } from '../kube/connection.ts';
import type { RequestInfo } from '../machinery/request.ts';
import { requestInfoOf } from '../sandbox/http/request-info.ts';

/**
 * With `status`, the API server refuses the request. With `delaySeconds`, its response arrives so late, by the controller's
 * clock. With neither, the API server executes the request, and the connection breaks before the response: a watch breaks
 * before its first event.
 */
export interface Failure {
  readonly verb?: 'get' | 'list' | 'watch' | 'create' | 'update' | 'patch' | 'delete';
  /** The plural and the group, e.g. `secrets` or `users.people.example.com`. */
  readonly kind?: string;
  readonly name?: string;
  /** How many requests fail. Default: 1. */
  readonly times?: number;
  readonly status?: number;
  /** The controller's clock moves on by this time. */
  readonly retryAfterSeconds?: number;
  readonly delaySeconds?: number;
}

export interface ArmedFailure {
  /** How many requests have failed: a test can prove that its failure happened. */
  readonly happened: () => number;
}

type Send = Connection['dispatcher']['request'];
type Response = Awaited<ReturnType<Send>>;
type ResourceRequest = Extract<RequestInfo, { kind: 'resource' }>;

const REASONS: Readonly<Record<number, string>> = {
  403: 'Forbidden',
  404: 'NotFound',
  409: 'Conflict',
  410: 'Expired',
  422: 'Invalid',
  429: 'TooManyRequests',
  500: 'InternalError',
  503: 'ServiceUnavailable',
};
const statusOf = (code: number) => {
  const message = 'the suite injects this failure';
  return { kind: 'Status', apiVersion: 'v1', status: 'Failure', reason: REASONS[code] ?? '', message, code };
};
const EXPIRED = `${JSON.stringify({ type: 'ERROR', object: statusOf(410) })}\n`;
/** The client begins to wait for a retry in this time. */
const UNTIL_WAITING_MS = 20;

export function createFailures(advance: (seconds: number) => void) {
  const armed: { readonly failure: Failure; happened: number }[] = [];
  const open = new Set<(isExpired: boolean) => void>();
  /** Paths whose watch has not been opened again. */
  const lost = new Set<string>();
  const take = (request: ResourceRequest): Failure | undefined => {
    const found = armed.find(
      ({ failure, happened }) => happened < (failure.times ?? 1) && matches(failure, request),
    );
    if (found !== undefined) found.happened += 1;
    return found?.failure;
  };

  const refusal = ({ status = 500, retryAfterSeconds }: Failure): Response => {
    const headers = retryAfterSeconds === undefined ? {} : { 'retry-after': String(retryAfterSeconds) };
    // The client adds up to a fifth.
    if (retryAfterSeconds !== undefined)
      setTimeout(() => advance(retryAfterSeconds * 1.2 + 0.1), UNTIL_WAITING_MS);
    const body = { text: () => Promise.resolve(JSON.stringify(statusOf(status))) };
    return { statusCode: status, headers, body } as unknown as Response; // what `apiErrorOf` reads
  };

  const watched = (response: Response, path: string, breaks: boolean): Response => {
    lost.delete(path);
    const { body } = response;
    let isExpired = false;
    const drop = (expires: boolean): void => {
      isExpired = expires;
      lost.add(path);
      body.destroy(reset());
    };
    open.add(drop);
    body.on('error', () => undefined); // The loop reports it.
    const events = async function* () {
      try {
        for await (const chunk of body) {
          if (breaks) drop(false);
          else yield chunk as Uint8Array;
        }
      } catch (error) {
        if (!isExpired) throw error;
        yield Buffer.from(EXPIRED);
      } finally {
        open.delete(drop);
      }
    };
    return { ...response, body: events() as unknown as Response['body'] }; // the client only iterates over it
  };

  const failing =
    (send: Send): Send =>
    async (options: Parameters<Send>[0]) => {
      const { pathname, searchParams } = new URL(options.path, 'http://localhost');
      const request = requestInfoOf(options.method, pathname, searchParams);
      if (request.kind !== 'resource') return await send(options);
      const isWatch = request.verb === 'watch';
      const failure = take(request);
      if (failure?.status !== undefined) {
        if (isWatch) lost.add(pathname);
        return refusal(failure);
      }
      const response = await send(options);
      if (isWatch && response.statusCode === 200) return watched(response, pathname, failure !== undefined);
      if (failure?.delaySeconds !== undefined) {
        advance(failure.delaySeconds);
        await setImmediate();
      } else if (failure !== undefined) {
        await response.body.dump();
        throw reset();
      }
      return response;
    };
  const through = <D extends Connection['dispatcher']>(dispatcher: D): D => {
    const request = failing(dispatcher.request.bind(dispatcher));
    return new Proxy(dispatcher, {
      get: (target, key): unknown => (key === 'request' ? request : Reflect.get(target, key)),
    });
  };
  return {
    fail: (failure: Failure): ArmedFailure => {
      const one = { failure, happened: 0 };
      armed.push(one);
      return { happened: () => one.happened };
    },
    /** @throws Error if no watch is open */
    dropWatches: ({ isExpired = false } = {}): void => {
      if (open.size === 0)
        throw new Error('no watch is open: call dropWatches while settle runs, e.g. in a pass');
      for (const drop of open) drop(isExpired);
    },
    hasLostWatches: () => lost.size > 0,
    /** When the controllers have stopped. */
    forgetWatches: () => {
      lost.clear();
      open.clear(); // A response that arrived after the stop is never read.
    },
    connection: (connection: Connection): Connection => ({
      ...connection,
      dispatcher: through(connection.dispatcher),
      backgroundDispatcher: through(connection.backgroundDispatcher),
      watchDispatcher: through(connection.watchDispatcher),
    }),
  };
}

const matches = ({ verb, kind, name }: Failure, request: ResourceRequest): boolean =>
  (verb === undefined || verb === request.verb) &&
  (kind === undefined || kind === groupResourceName(request)) &&
  (name === undefined || name === request.name);

const reset = (): Error => Object.assign(new Error('read ECONNRESET'), { code: 'ECONNRESET' });
