/** Checks certificates and CA bundles: Gatehouse's own, those that others ask for, and other controllers that write them. */
import { devSessionOf } from '../../../../admission/webhooks/dev-entries.ts';
import {
  CA_BUNDLE_KEY,
  CABUNDLE_CONFIGMAP,
  SERVING_SECRET,
  INJECT_CABUNDLE,
  INJECT_CABUNDLE_FROM,
  INJECTION_MANAGER,
  SERVING_CERT_LABEL,
  SERVING_CERT_SECRET_NAME,
} from '../../../../pki/annotations.ts';
import { isOriginal } from '../../../../pki/serving-certs/secret.ts';
import { holdsSameCertificates } from '../../../../pki/x509/pem.ts';
import { isTrustedBy } from '../../../../pki/x509/chains.ts';
import {
  TARGET_KINDS,
  type RawTarget,
  type TargetKind,
  type FieldSet,
} from '../../../../pki/injection/target.ts';
import type { InstallationReadings, Managed } from '../../read-cluster/read-installation.ts';
import { describeUnread, valueOf, type Judged, type Listing } from '../../read-cluster/reading.ts';
import { judgeReading, logsOf, ok, orElse, problem, unknown, warning, type Results } from '../finding.ts';
import { WEBHOOK_CONFIGURATION_NAME } from '../../../../admission/webhooks/webhook-configurations.ts';
import { counted, someOf } from '../../../../json/counted.ts';
import { objectKey } from '../../../../json/kube-object.ts';
import { authorityPart } from '../../status/report/authority.ts';
import { injectionTargetsPart } from '../../status/report/injection-targets.ts';
import { servingCertsPart } from '../../status/report/serving-certs.ts';

export const checkBundles = (readings: InstallationReadings): Results =>
  judgeReading(readings.caBundle, (configMap) => {
    const { namespace, chain, mutating, validating, converted } = readings;
    const bundle = configMap?.data?.[CA_BUNDLE_KEY];
    if (bundle === undefined) {
      const seen = `the ConfigMap ${namespace}/${CABUNDLE_CONFIGMAP} lacks a CA bundle`;
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
    `the ConfigMap ${CABUNDLE_CONFIGMAP} does not verify the certificate in the ${name}: it has expired, clients cannot read its text, or another authority has signed it`,
    `kubectl -n ${namespace} delete secret ${SERVING_SECRET} (the leader issues a new certificate immediately)`,
  );
}

/** A bundle that differs from the published one is a problem only if it does not verify the certificate. */
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
    ? warning(
        `${what} contains a different bundle than the ConfigMap, but it still verifies the certificate`,
        next,
      )
    : problem(`${what} contains a stale bundle: the API server does not trust Gatehouse`, next);
}

/** Annotations that request the same fields from other controllers. */
const RIVALS = {
  'service-ca of OpenShift':
    /^service\.(alpha|beta)\.openshift\.io\/(inject-cabundle|serving-cert-secret-name)$/,
  'cert-manager':
    /^cert-manager\.io\/(inject-ca-from|inject-ca-from-secret|inject-apiserver-ca|certificate-name)$/,
};

export function checkRivals({ managed }: InstallationReadings): Results {
  const findings = managed.flatMap((reading) =>
    judgeReading(reading, (objects) =>
      objects.filter(isManaged).flatMap((object) => [claims(object), writers(object)].flat()),
    ),
  );
  return orElse(findings, ok('no other controller writes or claims the fields that Gatehouse manages'));
}

function isManaged({ kind, metadata }: Managed): boolean {
  const { annotations = {}, labels = {}, name } = metadata;
  return (
    (kind.endsWith('WebhookConfiguration') && name === WEBHOOK_CONFIGURATION_NAME) ||
    (labels[SERVING_CERT_LABEL.name] === SERVING_CERT_LABEL.value && isOriginal({ metadata })) ||
    [INJECT_CABUNDLE, INJECT_CABUNDLE_FROM, SERVING_CERT_SECRET_NAME].some(
      (key) => annotations[key] !== undefined && annotations[key] !== 'false',
    )
  );
}

function claims({ kind, metadata }: Managed): Results {
  const names = Object.keys(metadata.annotations ?? {});
  return Object.entries(RIVALS).flatMap(([system, annotation]) => {
    const found = names.filter((name) => annotation.test(name));
    if (found.length === 0) return [];
    const remove = found.map((name) => `${name}-`).join(' ');
    return warning(
      `${kind} ${objectKey(metadata)} requests the same fields from Gatehouse and, with ${someOf(found)}, from ${system}: if both run, they overwrite each other`,
      `keep one of them: kubectl annotate ${commandPlace(kind, metadata)} ${remove}`,
    );
  });
}

/** Gatehouse doesn't inject bundles into Secrets and Services. */
function writers({ kind, metadata }: Managed): Results {
  const others = (metadata.managedFields ?? [])
    .filter(
      ({ manager = '', fieldsV1 = {} }) =>
        !['gatehouse', INJECTION_MANAGER].includes(manager) && holdsBundle(fieldsV1),
    )
    .map(({ manager = '' }) => `"${manager}"`);
  if (others.length === 0 || kind === 'Secret' || kind === 'Service') return [];
  return problem(
    `${kind} ${objectKey(metadata)}: ${someOf([...new Set(others)])} also writes caBundle`,
    'keep the other writer from writing the field: remove its annotation, or caBundle from its manifest: ' +
      `kubectl get ${commandPlace(kind, metadata)} -o yaml --show-managed-fields`,
  );
}

function holdsBundle(fields: FieldSet): boolean {
  return Object.entries(fields).some(([key, below]) => key === 'f:caBundle' || holdsBundle(below));
}

const commandPlace = (kind: string, { namespace, name = '' }: Managed['metadata']): string =>
  `${namespace === undefined ? '' : `-n ${namespace} `}${kind.toLowerCase()} ${name}`;

const MAX_FINDINGS = 20;

export function checkServingCerts(readings: InstallationReadings): Results {
  const { namespace, now } = readings;
  const { signers } = authorityPart(readings, namespace, now);
  const judged = servingCertsPart(readings, signers, now);
  return toResults(judged, (count) =>
    count === 0 ? 'no Service asks for a certificate' : `${counted(count, 'certificate')} can be used`,
  );
}

export function checkInjectionTargets(readings: InstallationReadings): Results {
  const { namespace, now } = readings;
  const { bundle } = authorityPart(readings, namespace, now);
  const judged = injectionTargetsPart(readings, bundle, namespace, now);
  return toResults(judged, (count) => `${counted(count, 'object')} with a CA bundle`);
}

function toResults(
  { part, problems }: Judged<Listing<unknown>>,
  success: (count: number) => string,
): Results {
  const found = problems
    .slice(0, MAX_FINDINGS)
    .map(({ object, message, command }) =>
      problem(`${object}: ${message}`, command ?? 'gatehouse status; see its events and the check leader'),
    );
  const unread = part.unread.map((one) =>
    unknown(describeUnread(one), 'run the command as a user who may read this'),
  );
  return orElse([...found, ...unread], ok(success(part.items.length)));
}
