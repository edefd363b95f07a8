/** Reads the Secret with the CA that its owner makes and rotates. */
import { messageOf } from '../../json/error-message.ts';
import { secrets } from '../../kube/well-known.ts';
import type { Authority } from '../../pki/authority/authority.ts';
import type { ImportedAuthority } from '../../pki/authority/generation.ts';
import { importAuthority } from '../../pki/authority/import.ts';
import type { Secret } from '../../pki/serving-certs/secret.ts';
import { caRefused, caUnreadable, type AuthorityEvent } from './authority-events.ts';
import type { RotationContext } from './rotation.ts';
import { namesOfTrial } from './service-requests.ts';

/**
 * Reads the CA that its owner makes and rotates, if the configuration names one. `refused`: it cannot be used. `cause`:
 * it could not be read. What the authority needs without it continues.
 */
export async function readImported(
  { client, config }: Pick<RotationContext, 'client' | 'config'>,
  now: Date,
  signal: AbortSignal,
): Promise<{ imported?: ImportedAuthority; refused?: AuthorityEvent; cause?: unknown }> {
  const { namespace, ca } = config;
  if (ca.secret === undefined) return {};
  let secret: Secret | undefined;
  try {
    secret = await client.get<Secret>(secrets, { namespace, name: ca.secret }, { signal });
  } catch (cause) {
    signal.throwIfAborted();
    return { refused: caUnreadable(namespace, ca.secret, messageOf(cause)), cause };
  }
  if (secret === undefined) return { refused: caRefused(namespace, ca.secret, 'the secret does not exist') };
  const result = importAuthority(secret.data, namesOfTrial(config), now);
  return result.kind === 'imported'
    ? { imported: result.authority }
    : { refused: caRefused(namespace, ca.secret, result.problem) };
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
