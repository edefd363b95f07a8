/** Tests cannot wait until the certs of an old CA have expired, so they shorten its record. */
import { isConflict } from '../../src/kube/api-error.ts';
import { secrets } from '../../src/kube/well-known.ts';
import { after, DAY } from '../../src/pki/durations.ts';
import { parseAuthority, withAuthority } from '../../src/pki/authority/secret.ts';
import type { Cluster } from './cluster.ts';
import type { SecretObject } from './objects.ts';
import { AUTHORITY } from './own-objects.ts';
import { eventually } from './processes.ts';

/** Records that the last cert of every retiring generation expired a day ago. */
export async function endTrust({ admin }: Pick<Cluster, 'admin'>): Promise<void> {
  await eventually('the record of the old CA is shortened', async () => {
    const secret = await admin.get<SecretObject>(secrets, AUTHORITY);
    if (secret === undefined) throw new Error('there is no authority');
    const authority = parseAuthority(secret.data ?? {});
    const generations = authority.generations.map((generation) =>
      generation.state === 'retiring' ? { ...generation, trustedUntil: after(new Date(), -DAY) } : generation,
    );
    const data = withAuthority(secret.data, { ...authority, generations });
    try {
      await admin.replace(secrets, { ...secret, data });
      return true;
    } catch (error) {
      if (isConflict(error)) return false; // a leader wrote it at the same time
      throw error;
    }
  });
}
