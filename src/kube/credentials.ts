import { readFile } from 'node:fs/promises';
import type { RequestOptions } from 'node:https';
import type { ConnectionOptions } from 'node:tls';
import type { Clock } from './clock.ts';
import type { ClusterAccess } from './cluster-access.ts';
import { impersonationHeaders, type Headers } from './impersonation.ts';

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
