/**
 * On the leader: the Secret with every generation of the authority exists. It is made once, by whoever comes first; what
 * cannot be read is reported and never replaced, because every client still trusts what it was.
 */
import { EXCLUDE_FROM_BACKUP_LABEL } from '../api/group.ts';
import { AUTHORITY_SECRET } from '../pki/annotations.ts';
import { parseAuthority, toSecretData } from '../pki/authority-secret.ts';
import { createAuthority, type Authority } from '../pki/authority.ts';
import { DEFAULT_AUTHORITY_LIFETIME } from '../pki/generation.ts';
import { DEFAULT_KEY_ALGORITHM, type KeyAlgorithm, type KeyPair } from '../pki/keys.ts';
import type { Secret } from '../pki/secret.ts';
import { AWAIT_CHANGE, type Log, type Reconcile } from './reconcile.ts';

export interface AuthorityDeps {
  /** Our own namespace. */
  readonly namespace: string;
  /** From the API server, never from a store: "absent" leads to a new authority. */
  readonly readSecret: (name: string, signal: AbortSignal) => Promise<Secret | undefined>;
  /** Fails when the Secret exists. */
  readonly createSecret: (secret: Secret, signal: AbortSignal) => Promise<unknown>;
  readonly generateKeyPair: (algorithm: KeyAlgorithm) => Promise<KeyPair>;
  readonly randomSerial: () => Uint8Array;
  /** The authority as it is stored, for those who sign and publish. */
  readonly onAuthority: (authority: Authority) => void;
  readonly now: () => Date;
  readonly log: Log;
}

export function createAuthorityReconciler(deps: AuthorityDeps): Reconcile {
  return async (_key, signal) => {
    const stored = await deps.readSecret(AUTHORITY_SECRET, signal);
    if (stored !== undefined) {
      deps.onAuthority(parseAuthority(stored.data ?? {}));
      return AWAIT_CHANGE;
    }
    const authority = createAuthority({
      keyPair: await deps.generateKeyPair(DEFAULT_KEY_ALGORITHM),
      serial: deps.randomSerial(),
      now: deps.now(),
      lifetimeMs: DEFAULT_AUTHORITY_LIFETIME,
    });
    // Another leader may be as far as we are: one of the two creations fails, and its authority is forgotten.
    await deps.createSecret(toSecret(authority, deps.namespace), signal);
    deps.log.info({ generation: authority.generations[0]?.id }, 'created the authority');
    deps.onAuthority(authority);
    return AWAIT_CHANGE;
  };
}

function toSecret(authority: Authority, namespace: string): Secret {
  return {
    apiVersion: 'v1',
    kind: 'Secret',
    metadata: { namespace, name: AUTHORITY_SECRET, labels: ownStateLabels },
    type: 'gatehouse.dev/authority',
    data: toSecretData(authority),
  };
}

/** State of ours belongs to this cluster: a backup must not bring it back, here or elsewhere. */
export const ownStateLabels: Readonly<Record<string, string>> = {
  'app.kubernetes.io/managed-by': 'gatehouse',
  [EXCLUDE_FROM_BACKUP_LABEL]: 'true',
};
