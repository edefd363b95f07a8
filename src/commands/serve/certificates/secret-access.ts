/** Secrets, read from the API server and written with care. */
import type { KubeClient } from '../../../kube/client.ts';
import { secrets } from '../../../kube/well-known.ts';
import type { Secret } from '../../../pki/secret.ts';

export interface SecretAccess {
  /** From the API server, never from a store. */
  readonly readSecret: (namespace: string, name: string, signal: AbortSignal) => Promise<Secret | undefined>;
  /** Fails when the Secret exists. */
  readonly createSecret: (secret: Secret, signal: AbortSignal) => Promise<unknown>;
  /** Writes the Secret if it still has the resourceVersion in its metadata. */
  readonly replaceSecret: (secret: Secret, signal: AbortSignal) => Promise<unknown>;
}

export function secretAccessOf(client: KubeClient): SecretAccess {
  return {
    readSecret: (namespace, name, signal) => client.get<Secret>(secrets, { namespace, name }, { signal }),
    createSecret: (secret, signal) => client.create(secrets, secret, { signal }),
    replaceSecret: (secret, signal) => client.replace(secrets, secret, { signal }),
  };
}
