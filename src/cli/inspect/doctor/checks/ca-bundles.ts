/** Checks that the API server trusts the serving certificate of Gatehouse. */
import { devSessionOf } from '../../../../admission/webhooks/dev-session.ts';
import { CA_BUNDLE_KEY, CABUNDLE_CONFIGMAP, SERVING_SECRET } from '../../../../pki/annotations.ts';
import { holdsSameCertificates } from '../../../../pki/x509/pem.ts';
import { isTrustedBy } from '../../../../pki/x509/chain-trust.ts';
import { TARGET_KINDS, type RawTarget, type TargetKind } from '../../../../pki/injection/target.ts';
import type { InstallationReadings } from '../../read-cluster/read-installation.ts';
import { valueOf } from '../../read-cluster/reading.ts';
import { judgeReading, logsOf, ok, orElse, problem, someOf, warning, type Results } from '../finding.ts';

export const checkBundles = (readings: InstallationReadings): Results =>
  judgeReading(readings.caBundle, (configMap) => {
    const { namespace, chain, mutating, validating, converted } = readings;
    const bundle = configMap?.data?.[CA_BUNDLE_KEY];
    if (bundle === undefined) {
      const seen = `the ConfigMap ${namespace}/${CABUNDLE_CONFIGMAP} has no CA bundle`;
      return problem(seen, `no leader has published the bundle yet: ${logsOf(namespace)}`);
    }
    const ofConfiguration = (kind: TargetKind) => (live: RawTarget | undefined) =>
      live === undefined ? [] : judgeTarget(kind, live, bundle, readings);
    const entries = [
      judgeReading(mutating, ofConfiguration(TARGET_KINDS.mutating)),
      judgeReading(validating, ofConfiguration(TARGET_KINDS.validating)),
      judgeReading(converted, (all) =>
        all.flatMap((one) => judgeTarget(TARGET_KINDS.customResourceDefinition, one, bundle, readings)),
      ),
    ];
    const fine = ok(`all entries of Gatehouse contain the bundle of the ConfigMap ${CABUNDLE_CONFIGMAP}`);
    return [judgeReading(chain, (pem) => judgeChain(pem, bundle, readings)), orElse(entries, fine)].flat();
  });

function judgeChain(
  chain: string | undefined,
  bundle: string,
  { namespace, now }: InstallationReadings,
): Results {
  const name = `Secret ${namespace}/${SERVING_SECRET}`;
  if (chain === undefined) return problem(`the ${name} contains no certificate`, logsOf(namespace));
  if (isTrustedBy(chain, bundle, now))
    return ok(`the ConfigMap ${CABUNDLE_CONFIGMAP} verifies the serving certificate`);
  return problem(
    `the ConfigMap ${CABUNDLE_CONFIGMAP} does not verify the certificate in the ${name}: it has expired, or another authority has signed it`,
    `kubectl -n ${namespace} delete secret ${SERVING_SECRET} (the leader issues a new certificate at once)`,
  );
}

/**
 * A bundle that differs from the published one is stale. It is a problem only if it does not verify the certificate.
 */
function judgeTarget(
  kind: TargetKind,
  object: RawTarget,
  bundle: string,
  { chain, now, namespace }: InstallationReadings,
): Results {
  // A developer machine has its own CA, which the check dev-session reports.
  const hasDevSession = devSessionOf(object, now).kind !== 'none';
  const stale = kind
    .slots(object, '')
    .filter(({ reach }) => !hasDevSession || reach === 'service')
    .map(({ name, present = '' }) => ({ name, pem: Buffer.from(present, 'base64').toString() }))
    .filter(({ pem }) => !holdsSameCertificates(pem, bundle));
  if (stale.length === 0) return [];
  const served = valueOf(chain);
  const isTrusted = served !== undefined && stale.every(({ pem }) => isTrustedBy(served, pem, now));
  const what = `${kind.kind} ${object.metadata?.name ?? ''}: ${someOf(stale.map(({ name }) => name))}`;
  const next = `the leader updates it within a minute; if it stays stale, see the checks leader and rivals: ${logsOf(namespace)}`;
  return isTrusted
    ? warning(`${what} contains another bundle than the published one, but still a valid one`, next)
    : problem(`${what} contains a stale bundle: the API server does not trust Gatehouse`, next);
}
