/** The user name that the API server gives this client. */
import { X509Certificate } from 'node:crypto';

import { textIn } from '../json/json.ts';
import type { KubeObject } from '../json/kube-object.ts';
import { ApiError } from './api-error.ts';
import type { KubeClient } from './client.ts';
import type { Discovery } from './discovery.ts';
import type { Credentials } from './rest/credentials.ts';

interface SelfSubjectReview extends KubeObject {
  readonly status?: { readonly userInfo?: { readonly username?: string } };
}

/** Kubernetes serves it in v1 since 1.28, in v1beta1 since 1.27 and in v1alpha1 since 1.26. */
const SELF_SUBJECT_REVIEWS = { group: 'authentication.k8s.io', resource: 'selfsubjectreviews' };

/** Asks the API server, or an older one reads the credentials. Undefined: neither says. */
export async function readOwnUser(
  client: Pick<KubeClient, 'create'>,
  discovery: Pick<Discovery, 'resolve'>,
  credentials: () => Promise<Credentials>,
  signal: AbortSignal,
): Promise<string | undefined> {
  const served = await discovery.resolve(SELF_SUBJECT_REVIEWS, signal);
  if (served !== undefined) {
    try {
      const { status } = await client.create<SelfSubjectReview>(served, { metadata: {} }, { signal });
      if (status?.userInfo?.username !== undefined) return status.userInfo.username;
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== 403) throw error;
    }
  }
  return userIn(await credentials());
}

const SERVICE_ACCOUNT = /^system:serviceaccount:[^:]+:[^:]+$/;

/** Other tokens name a user by rules of the API server that no client knows. */
export function userIn({ headers, tls: { cert } }: Credentials): string | undefined {
  const [impersonated, authorization] = [headers['Impersonate-User'], headers.Authorization];
  if (typeof impersonated === 'string') return Buffer.from(impersonated, 'latin1').toString('utf8');
  if (typeof authorization === 'string') {
    const subject = subjectOf(authorization);
    return SERVICE_ACCOUNT.test(subject) ? subject : undefined;
  }
  if (typeof cert !== 'string' && !Buffer.isBuffer(cert)) return undefined;
  return /^CN=(.+)$/m.exec(new X509Certificate(cert).subject)?.[1];
}

/** The claim `sub` of a JSON Web Token. Empty: it is another kind of token. */
function subjectOf(authorization: string): string {
  const payload = /^Bearer [^.]+\.([^.]+)\.[^.]*$/.exec(authorization)?.[1] ?? '';
  try {
    return textIn(JSON.parse(Buffer.from(payload, 'base64url').toString('utf8')), 'sub');
  } catch {
    return '';
  }
}
