import { readFile } from 'node:fs/promises';
import type { RequestOptions } from 'node:https';
import { pick } from '../../json/json.ts';
import type { Clock } from '../clock.ts';

export interface ClusterAccess {
  readonly server: string;
  readonly namespace: string | undefined;
  readonly proxyUrl: string | undefined;
  readonly tokenFilePath: string | undefined;
  readonly impersonation: Impersonation | undefined;
  readonly requestOptions: () => Promise<RequestOptions>;
}

const TLS_FIELDS = ['ca', 'cert', 'key', 'pfx', 'passphrase', 'rejectUnauthorized', 'servername'] as const;
export type TlsMaterial = Pick<RequestOptions, (typeof TLS_FIELDS)[number]>;

export interface Credentials {
  readonly headers: Headers;
  readonly tls: TlsMaterial;
}

/** Like client-go: the kubelet replaces a token long before it expires. */
const TOKEN_FILE_MS = 60_000;

export function createTokenFile(path: string, clock: Pick<Clock, 'monotonic'>): () => Promise<string> {
  let last: { readonly token: string; readonly readAt: number } | undefined;
  return async () => {
    const now = clock.monotonic();
    if (last !== undefined && now - last.readAt < TOKEN_FILE_MS) return last.token;
    try {
      const token = (await readFile(path, 'utf8')).trim();
      if (token === '') throw new Error('the file is empty');
      last = { token, readAt: now };
    } catch (cause) {
      // The kubelet replaces the file. After one failed read, the cached token is still valid.
      if (last === undefined) throw new Error(`could not read the token file ${path}`, { cause });
      last = { token: last.token, readAt: now };
    }
    return last.token;
  };
}

/** Adds the credentials that client-node does not support. */
export async function readCredentials(
  { impersonation, requestOptions }: ClusterAccess,
  tokenFile: (() => Promise<string>) | undefined,
): Promise<Credentials> {
  const options = await requestOptions();
  const headers: Record<string, string | readonly string[]> = {};
  for (const [name, value] of Object.entries(options.headers ?? {})) {
    if (typeof value === 'string' && !/^impersonate-/i.test(name)) headers[name] = value.trim();
  }
  if (typeof options.auth === 'string')
    headers.Authorization = `Basic ${Buffer.from(options.auth).toString('base64')}`;
  if (tokenFile !== undefined) headers.Authorization = `Bearer ${await tokenFile()}`;
  if (impersonation !== undefined) Object.assign(headers, impersonationHeaders(impersonation));
  return { headers, tls: pick(options, ...TLS_FIELDS) };
}

export interface Impersonation {
  readonly user: string;
  readonly groups?: readonly string[] | undefined;
  readonly uid?: string | undefined;
  readonly extra?: Readonly<Record<string, readonly string[]>> | undefined;
}

export type Headers = Readonly<Record<string, string | readonly string[]>>;

/** One header line per value, because the API server would read a comma-separated list as one group. */
export function impersonationHeaders({ user, groups = [], uid, extra = {} }: Impersonation): Headers {
  if (user === '') throw new Error('impersonation: the name of the user is empty');
  return {
    'Impersonate-User': headerValue(user),
    ...(groups.length === 0 ? {} : { 'Impersonate-Group': groups.map(headerValue) }),
    ...(uid === undefined || uid === '' ? {} : { 'Impersonate-Uid': headerValue(uid) }),
    ...Object.fromEntries(
      Object.entries(extra)
        .filter(([, values]) => values.length > 0)
        .map(([key, values]) => [`Impersonate-Extra-${headerKey(key)}`, values.map(headerValue)]),
    ),
  };
}

/** The API server reads header bytes as UTF-8, but undici writes them as Latin-1. */
function headerValue(text: string): string {
  if (/[\r\n\0]/.test(text)) throw new Error('impersonation: a user, group or uid contains a line break');
  return Buffer.from(text, 'utf8').toString('latin1');
}

function headerKey(key: string): string {
  return encodeURIComponent(key).replace(/[()]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
}
