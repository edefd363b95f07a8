/** Secrets, read from the API server and written with care. */
import type { KubeClient } from '../../kube/client.ts';
import { secrets } from '../../kube/well-known.ts';
import type { Secret } from '../../pki/serving-certs/secret.ts';
import { CLUSTER_ROLE, refusable } from '../write-refused.ts';

export interface SecretAccess {
  /** From the API server, never from a store. */
  readonly readSecret: (namespace: string, name: string, signal: AbortSignal) => Promise<Secret | undefined>;
  /** Fails when the Secret exists. @throws WriteRefused */
  readonly createSecret: (secret: Secret, signal: AbortSignal) => Promise<unknown>;
  /** Writes the Secret if it still has the resourceVersion in its metadata. @throws WriteRefused */
  readonly replaceSecret: (secret: Secret, signal: AbortSignal) => Promise<unknown>;
}

export function secretAccessOf(client: KubeClient): SecretAccess {
  return {
    readSecret: (namespace, name, signal) => client.get<Secret>(secrets, { namespace, name }, { signal }),
    createSecret: (secret, signal) =>
      refusable(CLUSTER_ROLE, () => client.create(secrets, secret, { signal })),
    replaceSecret: (secret, signal) =>
      refusable(CLUSTER_ROLE, () => client.replace(secrets, secret, { signal })),
  };
}
