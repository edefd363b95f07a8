/** Sends requests like client-go in a backup tool: one after the other, repeated only if the server asks for it. */
import { setTimeout as sleep } from 'node:timers/promises';

import type { ControlPlane } from './control-plane.ts';
import { createTransport } from './transport.ts';
import type { KubeObject, ObjectMeta } from '../../src/json/kube-object.ts';
import { definitionOf, resourceOf } from './definitions.ts';

export const RESTORES = resourceOf('velero.io', 'restores', 'Restore');

/** Like Velero's own CRD, without a status subresource: users who write a Restore may write its phase. */
export const restoreDefinition = definitionOf(RESTORES);

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

type Json = Readonly<Record<string, unknown>>;

interface Answer {
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
  const { call, stop } = createTransport(plane.server, plane.ca, 1);
  const sent: Sent[] = [];
  const once = async (method: Method, path: string, body?: object) => {
    const start = performance.now();
    const type = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json';
    const headers = {
      authorization: `Bearer ${plane.token('admin')}`,
      accept: 'application/json',
      'user-agent': userAgent,
      'impersonate-user': user,
      'impersonate-group': [...groups],
      ...(body === undefined ? {} : { 'content-type': type }),
    };
    const answer = await call({ method, path, headers, body: JSON.stringify(body) });
    sent.push({ method, path, milliseconds: performance.now() - start });
    const [retryAfter] = answer.headers['retry-after'] ?? [];
    return {
      code: answer.status,
      body: JSON.parse(answer.text) as Json, // the API server answers with objects
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
    stop,
  };
}

export const isRefusal = ({ code }: Answer): boolean => code >= 400;

export const sayOf = ({ code, body }: Answer): string =>
  `${code} ${typeof body.message === 'string' ? body.message : ''}`;

export type BackupObject = KubeObject & {
  readonly metadata: ObjectMeta & { readonly name: string; readonly managedFields?: readonly object[] };
  readonly status?: unknown;
};

export function backupObject(object: KubeObject): BackupObject {
  if (object.metadata?.name === undefined) throw new Error('an object in a backup must have a name');
  return object as BackupObject; // just checked; the API server gives managedFields as a list
}

const STRIPPED = new Set([
  ...['generateName', 'selfLink', 'uid', 'resourceVersion', 'generation', 'creationTimestamp'],
  ...['deletionTimestamp', 'deletionGracePeriodSeconds', 'ownerReferences'],
]);

export function stripped(object: BackupObject): BackupObject {
  const metadata = Object.fromEntries(Object.entries(object.metadata).filter(([key]) => !STRIPPED.has(key)));
  const rest = Object.fromEntries(Object.entries(object).filter(([key]) => key !== 'status'));
  return { ...rest, metadata: metadata as BackupObject['metadata'] }; // the name is not among the removed fields
}

export const restoreLabels = (backup: string, restore: string): Readonly<Record<string, string>> => ({
  'velero.io/backup-name': backup,
  'velero.io/restore-name': restore,
});
