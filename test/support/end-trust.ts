/** Tests cannot wait until the certs of an old CA have expired, so they shorten its record. */
import { isConflict } from '../../src/kube/api-error.ts';
import { secrets } from '../../src/kube/well-known.ts';
import { NEW_AUTHORITY } from '../../src/pki/annotations.ts';
import { after, DAY } from '../../src/pki/durations.ts';
import { parseAuthority, withAuthority } from '../../src/pki/authority/secret.ts';
import { AUTHORITY, SERVING, type Cluster } from './cluster.ts';
import type { SecretObject } from './objects.ts';
import { eventually } from './processes.ts';

export const LONG_AGO_MS = 200 * DAY;

export async function endTrust({ admin }: Pick<Cluster, 'admin'>): Promise<void> {
  await eventually('the record of the old CA is shortened', async () => {
    const secret = await admin.get<SecretObject>(secrets, AUTHORITY);
    if (secret === undefined) throw new Error('there is no authority');
    const authority = parseAuthority(secret.data ?? {});
    const longAgo = after(new Date(), -LONG_AGO_MS);
    const generations = authority.generations.map((generation) =>
      generation.state === 'retiring'
        ? { ...generation, activatedAt: longAgo, trustedUntil: after(new Date(), -DAY) }
        : { ...generation, activatedAt: longAgo },
    );
    const data = withAuthority(secret.data, { ...authority, generations });
    // Without consent, the leader restores a shortened record.
    const annotations = { ...secret.metadata?.annotations, [NEW_AUTHORITY]: 'the test shortens the record' };
    try {
      await admin.replace(secrets, { ...secret, metadata: { ...secret.metadata, annotations }, data });
      return true;
    } catch (error) {
      if (isConflict(error)) return false; // a leader wrote it at the same time
      throw error;
    }
  });
}

/** Rotates until only the new CA is left. `signed` resolves when its certificate is in use. */
export async function rotateAuthority(
  { admin }: Pick<Cluster, 'admin'>,
  reason: string,
  signed: () => Promise<unknown> = () => Promise.resolve(),
): Promise<void> {
  const ids = async () => {
    const secret = await admin.get<SecretObject>(secrets, AUTHORITY);
    return parseAuthority(secret?.data ?? {}).generations.map(({ id }) => id);
  };
  const leaf = async () => (await admin.get<SecretObject>(secrets, SERVING))?.data?.['tls.crt'];
  const [[old], replaced] = [await ids(), await leaf()];
  await admin.patchMerge(secrets, AUTHORITY, {
    metadata: { annotations: { 'gatehouse.dev/rotate': reason } },
  });
  const patient = { timeoutMs: 120_000, everyMs: 100 };
  await eventually('the new CA signs', async () => ![undefined, replaced].includes(await leaf()), patient);
  await signed();
  await endTrust({ admin });
  const isLast = async () => {
    const [first, ...others] = await ids();
    return first !== old && others.length === 0;
  };
  await eventually('only the new CA is left', isLast, patient);
}
