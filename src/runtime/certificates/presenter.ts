/** Which serving certificate the listener presents: a new one takes the place of the old one when clients trust it as much. */
import { isTrustedBy } from '../../pki/x509/chain-trust.ts';
import type { ServingCertificate } from '../../server/listener/serving-certificate.ts';

export interface PresenterDeps {
  /** @throws when key and certificate do not belong together */
  readonly present: (certificate: ServingCertificate) => Promise<void>;
  /** PEM, from the API server: by these clients judge us now, the API server first of all. */
  readonly readBundles: (signal: AbortSignal) => Promise<readonly string[]>;
  /** @throws when the signal aborts */
  readonly sleep: (ms: number, signal: AbortSignal) => Promise<void>;
  readonly now: () => Date;
  readonly log: {
    readonly warn: (fields: object, message: string) => void;
    readonly error: (fields: object, message: string) => void;
  };
}

export interface Presenter {
  /** What the Secret holds now. Resolves when it is presented, was refused, or another one has come since. Never rejects. */
  readonly offer: (certificate: ServingCertificate, signal: AbortSignal) => Promise<void>;
}

/** The bundles are published by a leader that is quick; a backup that brings old ones back is mended as quickly. */
const LOOK_AGAIN_MS = 500;

export function createPresenter(deps: PresenterDeps): Presenter {
  const { present, readBundles, sleep, now, log } = deps;
  let presented: ServingCertificate | undefined;
  let offered: ServingCertificate | undefined;

  /** A certificate that was restored from a backup may be signed by a CA that nobody trusts any more. */
  const isWorse = async (certificate: ServingCertificate, signal: AbortSignal): Promise<boolean> => {
    if (presented === undefined || presented.chain === certificate.chain) return false;
    const current = presented.chain;
    const bundles = await readBundles(signal);
    const trusting = (chain: string) => bundles.filter((bundle) => isTrustedBy(chain, bundle, now())).length;
    return trusting(certificate.chain) < trusting(current);
  };

  const untilAsGood = async (certificate: ServingCertificate, signal: AbortSignal): Promise<void> => {
    for (let looks = 0; offered === certificate; looks++) {
      try {
        if (!(await isWorse(certificate, signal))) return;
        if (looks === 0)
          log.warn(
            {},
            'the serving certificate in the secret is trusted less than the one in use: going on with that',
          );
      } catch (err) {
        signal.throwIfAborted();
        log.warn({ err }, 'could not read which CA bundles are published');
      }
      await sleep(LOOK_AGAIN_MS, signal);
    }
  };

  return {
    offer: async (certificate, signal) => {
      offered = certificate;
      try {
        await untilAsGood(certificate, signal);
        if (offered !== certificate) return;
        await present(certificate);
        presented = certificate;
      } catch (err) {
        if (!signal.aborted) log.error({ err }, 'could not present the serving certificate');
      }
    },
  };
}
