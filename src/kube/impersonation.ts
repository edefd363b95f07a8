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
