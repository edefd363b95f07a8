/** The user name that the API server gives this client. */
import type { KubeObject } from '../json/kube-object.ts';
import { isForbidden } from './api-error.ts';
import type { KubeClient } from './client.ts';
import { selfSubjectReviews } from './well-known.ts';

interface SelfSubjectReview extends KubeObject {
  readonly status?: { readonly userInfo?: { readonly username?: string } };
}

/** Undefined: an administrator has revoked the permission to ask, which Kubernetes grants to all users. */
export async function readOwnUser(
  client: Pick<KubeClient, 'create'>,
  signal: AbortSignal,
): Promise<string | undefined> {
  try {
    const { status } = await client.create<SelfSubjectReview>(
      selfSubjectReviews,
      { metadata: {} },
      { signal },
    );
    return status?.userInfo?.username;
  } catch (error) {
    if (isForbidden(error)) return undefined;
    throw error;
  }
}
