import { readFile } from 'node:fs/promises';
import type { RequestOptions } from 'node:https';
import type { ConnectionOptions } from 'node:tls';
import type { Clock } from '../clock.ts';

export interface ClusterAccess {
  /** The base URL; may have a path. */
  readonly server: string;
  readonly namespace: string | undefined;
  readonly proxyUrl: string | undefined;
  readonly tokenFilePath: string | undefined;
  readonly impersonation: Impersonation | undefined;
  /** TLS material, headers and `auth` as they are now: files change, and plugins hand out short tokens. */
  readonly requestOptions: () => Promise<RequestOptions>;
}

export type TlsMaterial = Pick<
  ConnectionOptions,
  'ca' | 'cert' | 'key' | 'pfx' | 'passphrase' | 'rejectUnauthorized' | 'servername'
>;

/** What proves to the API server who we are, and what proves to us that it is the API server. */
export interface Credentials {
  readonly headers: Headers;
  readonly tls: TlsMaterial;
}

/** As often as client-go does: the kubelet replaces a token long before it expires. */
const TOKEN_FILE_MS = 60_000;

/** The contents of a token file, read again when the last look is more than 60 s old. */
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
      // The kubelet swaps the file; one failed look does not make the token we hold worthless.
      if (last === undefined) throw new Error(`could not read the token file ${path}`, { cause });
      last = { token: last.token, readAt: now };
    }
    return last.token;
  };
}

export interface CredentialSources extends Pick<ClusterAccess, 'requestOptions' | 'impersonation'> {
  readonly tokenFile: (() => Promise<string>) | undefined;
}

/** What `requestOptions` says now, and what client-node does not know: see `kubeconfig.ts`. */
export async function readCredentials(sources: CredentialSources): Promise<Credentials> {
  const { tokenFile, impersonation } = sources;
  const options = await sources.requestOptions();
  const headers: Record<string, string | readonly string[]> = {};
  for (const [name, value] of Object.entries(options.headers ?? {})) {
    if (typeof value === 'string' && !/^impersonate-/i.test(name)) headers[name] = value.trim();
  }
  if (typeof options.auth === 'string') {
    headers.Authorization = `Basic ${Buffer.from(options.auth).toString('base64')}`;
  }
  if (tokenFile !== undefined) headers.Authorization = `Bearer ${await tokenFile()}`;
  if (impersonation !== undefined) Object.assign(headers, impersonationHeaders(impersonation));
  return { headers, tls: tlsOf(options) };
}

function tlsOf(options: RequestOptions): TlsMaterial {
  const { ca, cert, key, pfx, passphrase, rejectUnauthorized, servername } = options;
  const given = { ca, cert, key, pfx, passphrase, rejectUnauthorized, servername };
  return Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined));
}

export interface Impersonation {
  readonly user: string;
  readonly groups?: readonly string[] | undefined;
  /** Kubernetes 1.22 and newer; older API servers ignore it. */
  readonly uid?: string | undefined;
  readonly extra?: Readonly<Record<string, readonly string[]>> | undefined;
}

export type Headers = Readonly<Record<string, string | readonly string[]>>;

/**
 * The headers with which the API server acts as somebody else.
 * Arrays become one header line per value: joined by commas they would be one group with a strange name.
 * @see https://kubernetes.io/docs/reference/access-authn-authz/authentication/#user-impersonation
 */
export function impersonationHeaders({ user, groups = [], uid, extra = {} }: Impersonation): Headers {
  if (user === '') throw new Error('impersonation needs the name of a user');
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

/** Header lines are bytes. The API server reads them as UTF-8, undici writes them as Latin-1. */
function headerValue(text: string): string {
  if (/[\r\n\0]/.test(text)) throw new Error('a user, group or uid to impersonate cannot hold a line break');
  return Buffer.from(text, 'utf8').toString('latin1');
}

/** Keys are percent-encoded where HTTP allows no such character in a header name; the API server decodes them. */
function headerKey(key: string): string {
  return encodeURIComponent(key).replace(/[()]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`);
}
