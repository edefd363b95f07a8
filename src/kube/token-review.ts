import type { AccessSubject } from './access.ts';
import type { CallOptions, KubeClient } from './client.ts';
import type { KubeObject } from '../json/kube-object.ts';
import { tokenReviews } from './well-known.ts';

interface TokenReview extends KubeObject {
  readonly spec: { readonly token: string; readonly audiences?: readonly string[] };
  readonly status?: {
    readonly authenticated?: boolean;
    readonly user?: Partial<AccessSubject>;
    readonly audiences?: readonly string[];
  };
}

/**
 * Whose bearer token this is, as the API server says; undefined when it is nobody's, or not for this audience.
 *
 * @param audience whom the token is to be made for. Undefined: the API server itself
 * @throws as the client does, and when the answer decides nothing
 */
export async function reviewToken(
  client: Pick<KubeClient, 'create'>,
  token: string,
  audience: string | undefined,
  options?: CallOptions,
): Promise<AccessSubject | undefined> {
  const spec = { token, ...(audience === undefined ? {} : { audiences: [audience] }) };
  const { status } = await client.create<TokenReview>(tokenReviews, { metadata: {}, spec }, options);
  if (status === undefined) throw new Error('the API server answered a TokenReview without a status');
  const { authenticated = false, user = {}, audiences = [] } = status;
  // An authenticator that knows nothing of audiences takes every token: that it has looked, it says by naming them.
  if (!authenticated || (audience !== undefined && !audiences.includes(audience))) return undefined;
  const { username = '', uid = '', groups = [], extra = {} } = user;
  return username === '' ? undefined : { username, uid, groups, extra };
}
