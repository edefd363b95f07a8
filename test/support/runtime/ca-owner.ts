/** The owner of an imported CA, who renews its root well or badly, replaces the CA, or imports another one by mistake. */
import { generationId, signWith } from '../../../src/pki/authority/generation.ts';
import { after, DAY, HOUR } from '../../../src/pki/durations.ts';
import { nameConstraints, signRoot } from '../../../src/pki/x509/certificate.ts';
import { type KeyPair, randomSerial } from '../../../src/pki/x509/keys.ts';
import type { Secret } from '../../../src/pki/serving-certs/secret.ts';
import { base64 } from '../pki/fixtures.ts';
import { type Objects, OWN_NAMESPACE } from './fixtures.ts';

export const CA_SECRET = 'corporate-ca';

/** When a renewed root begins and ends, in days from now. The last one is shorter than the life of most certs. */
const TERMS = [
  [0, 1_800],
  [0, 1_200],
  [7, 1_500],
  [0, 60],
] as const;

export async function createCaOwner(
  secrets: Pick<Objects<Secret>, 'add' | 'remove'>,
  { now, pick, newKey }: { now: () => Date; pick: (count: number) => number; newKey: () => KeyPair },
) {
  let keyPair = newKey();
  let name = 'Acme Root';
  let replaced = 0;
  const put = async (
    [from, to]: readonly [from: number, to: number],
    domains?: readonly string[],
    { publicKey, privateKey } = keyPair,
  ) => {
    const notBefore = after(now(), from * DAY - HOUR);
    const term = { serial: randomSerial(), notBefore, notAfter: after(now(), to * DAY) };
    const issuer = { publicKey, sign: signWith(privateKey) };
    const { certificate } = await signRoot(name, issuer, term, domains && nameConstraints(domains));
    secrets.remove(`${OWN_NAMESPACE}/${CA_SECRET}`);
    secrets.add({
      metadata: { namespace: OWN_NAMESPACE, name: CA_SECRET },
      data: { 'tls.crt': base64(certificate), 'tls.key': base64(privateKey) },
    });
  };
  await put(TERMS[0]);
  return {
    /** The key remains. Some renewals have other name constraints. */
    renew: (): Promise<void> =>
      put(TERMS[pick(TERMS.length)] ?? TERMS[0], pick(3) === 0 ? ['svc', 'cluster.local'] : undefined),
    /** No client would accept the server under this CA, until the next renewal or replacement. Returns its id. */
    mistake: async (): Promise<string> => {
      const other = newKey();
      await put(TERMS[0], ['example.com'], other);
      return generationId(other.publicKey);
    },
    replace: async (): Promise<void> => {
      keyPair = newKey();
      replaced += 1;
      if (pick(2) === 0) name = `Acme Root ${replaced}`;
      await put(TERMS[0]);
    },
  };
}
