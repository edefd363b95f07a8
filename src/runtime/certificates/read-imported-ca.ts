/** Reads the Secret with the CA that its owner makes and rotates. */
import { messageOf } from '../../json/error-message.ts';
import { secrets } from '../../kube/well-known.ts';
import type { Authority } from '../../pki/authority/authority.ts';
import type { ImportedAuthority } from '../../pki/authority/generation.ts';
import { importAuthority } from '../../pki/authority/import.ts';
import { forbidsClientCerts } from '../../pki/authority/trial.ts';
import type { Secret } from '../../pki/serving-certs/secret.ts';
import { caForServersOnly, caRefused, caUnreadable, type AuthorityEvent } from './authority-events.ts';
import type { RotationContext } from './rotation.ts';
import { trialScope } from './service-requests.ts';

interface ReadCa {
  readonly imported?: ImportedAuthority;
  /** It can be used, but not for everything that Services request. */
  readonly limited?: AuthorityEvent;
  /** It cannot be used. */
  readonly refused?: AuthorityEvent;
  /** It could not be read. */
  readonly cause?: unknown;
}

/**
 * Reads the CA that its owner makes and rotates, if the configuration names one. What the authority needs without it
 * continues.
 */
export async function readImported(
  { client, config, evidence }: Pick<RotationContext, 'client' | 'config' | 'evidence'>,
  now: Date,
  signal: AbortSignal,
): Promise<ReadCa> {
  const { namespace, ca } = config;
  if (ca.secret === undefined) return {};
  const ref = [namespace, ca.secret] as const;
  let secret: Secret | undefined;
  try {
    secret = await client.get<Secret>(secrets, { namespace, name: ca.secret }, { signal });
  } catch (cause) {
    signal.throwIfAborted();
    return { refused: caUnreadable(...ref, messageOf(cause)), cause };
  }
  if (secret === undefined) return { refused: caRefused(...ref, 'the secret does not exist') };
  const result = await importAuthority(secret.data, trialScope(config, evidence.clusterIPs()), now);
  if (result.kind === 'refused') return { refused: caRefused(...ref, result.problem) };
  const isShort = evidence.wantsClientCerts() && forbidsClientCerts(result.authority);
  return { imported: result.authority, ...(isShort ? { limited: caForServersOnly(...ref) } : {}) };
}

/**
 * While the owner's Secret is unusable, the latest CA from it counts as imported, so that Gatehouse neither replaces an
 * active one nor withdraws a pending one.
 */
export function standIn({ generations: [newest] }: Authority): ImportedAuthority | undefined {
  if (newest?.key === undefined) return undefined;
  const { id, certificate, chain, key } = newest;
  return { id, certificate, chain, key };
}
