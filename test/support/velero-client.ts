/** Sends requests like client-go in a backup tool: one after the other, repeated only if the server asks for it. */
import { setTimeout as sleep } from 'node:timers/promises';
import { Pool } from 'undici';

import type { ControlPlane } from './control-plane.ts';

interface Identity {
  readonly user: string;
  readonly groups: readonly string[];
  readonly userAgent: string;
}

export const VELERO: Identity = {
  user: 'system:serviceaccount:velero:velero',
  groups: ['system:serviceaccounts', 'system:serviceaccounts:velero', 'system:authenticated'],
  userAgent: 'velero-server/v1.18.2 (linux/amd64) abc',
};

export type Json = Readonly<Record<string, unknown>>;

export interface Answer {
  readonly code: number;
  readonly body: Json;
}

type Method = 'GET' | 'POST' | 'PATCH';

export interface Sent {
  readonly method: Method;
  readonly path: string;
  readonly milliseconds: number;
}

export type ToolClient = ReturnType<typeof createToolClient>;

/** client-go gives up after this many repeats, even if the server asks for more. */
const MOST_REPEATS = 10;

/** Patches are merge patches: a backup tool sends no others. */
export function createToolClient(
  plane: Pick<ControlPlane, 'server' | 'ca' | 'token'>,
  { user, groups, userAgent }: Identity = VELERO,
) {
  // The self-signed certificates name the machine, not always the address that we dial.
  const connect = { ca: plane.ca, checkServerIdentity: () => undefined };
  // Over HTTP/2, undici joins repeated group headers with commas, which produces a single group with a wrong name.
  const pool = new Pool(plane.server, { connections: 1, allowH2: false, connect });
  const sent: Sent[] = [];
  const once = async (method: Method, path: string, body?: object) => {
    const start = performance.now();
    const response = await pool.request({
      method,
      path,
      headers: {
        authorization: `Bearer ${plane.token('admin')}`,
        accept: 'application/json',
        'user-agent': userAgent,
        'impersonate-user': user,
        'impersonate-group': [...groups],
        ...(body === undefined
          ? {}
          : { 'content-type': method === 'PATCH' ? 'application/merge-patch+json' : 'application/json' }),
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    });
    const text = await response.body.text();
    sent.push({ method, path, milliseconds: performance.now() - start });
    const { 'retry-after': retryAfter } = response.headers;
    return {
      code: response.statusCode,
      body: JSON.parse(text) as Json, // the API server answers with objects
      retryAfterSeconds: retryAfter === undefined ? undefined : Number(retryAfter),
    };
  };
  return {
    send: async (method: Method, path: string, body?: object) => {
      for (let repeats = 0; ; repeats++) {
        const answer = await once(method, path, body);
        const { code, retryAfterSeconds } = answer;
        const asked = (code === 429 || code >= 500) && retryAfterSeconds !== undefined;
        if (!asked || repeats === MOST_REPEATS) return answer;
        await sleep(retryAfterSeconds * 1_000);
      }
    },
    sent: () => sent,
    stop: () => pool.close(),
  };
}

export const isRefusal = ({ code }: Answer): boolean => code >= 400;

export const sayOf = ({ code, body }: Answer): string =>
  `${code} ${typeof body.message === 'string' ? body.message : ''}`;
