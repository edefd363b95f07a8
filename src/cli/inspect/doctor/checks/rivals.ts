/** Checks whether another controller writes, or is asked to write, the fields that Gatehouse manages. */
import {
  INJECT_CABUNDLE,
  INJECT_CABUNDLE_FROM,
  INJECTION_MANAGER,
  SERVING_CERT_LABEL,
  SERVING_CERT_SECRET_NAME,
} from '../../../../pki/annotations.ts';
import { WEBHOOK_CONFIGURATION_NAME } from '../../../../admission/webhooks/webhook-configurations.ts';
import { objectKey } from '../../../../json/kube-object.ts';
import type { FieldSet } from '../../../../pki/injection/target.ts';
import type { InstallationReadings, Managed } from '../../read-cluster/read-installation.ts';
import { judgeReading, ok, orElse, problem, someOf, warning, type Results } from '../finding.ts';

/** Annotations that ask another controller for the same fields. */
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

/** Whether Gatehouse manages fields of the object: on request of an annotation, or because it owns the object. */
function isManaged({ kind, metadata }: Managed): boolean {
  const { annotations = {}, labels = {}, name } = metadata;
  return (
    (kind.endsWith('WebhookConfiguration') && name === WEBHOOK_CONFIGURATION_NAME) ||
    labels[SERVING_CERT_LABEL.name] === SERVING_CERT_LABEL.value ||
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
      `${kind} ${objectKey(metadata)} asks Gatehouse and, with ${someOf(found)}, also ${system}: if both run, they overwrite each other`,
      `keep one of them: kubectl annotate ${commandPlace(kind, metadata)} ${remove}`,
    );
  });
}

/** Gatehouse injects no bundle into Secrets and Services. */
function writers({ kind, metadata }: Managed): Results {
  const others = (metadata.managedFields ?? [])
    .filter(({ manager = '', fieldsV1 = {} }) => !isGatehouse(manager) && holdsBundle(fieldsV1))
    .map(({ manager = '' }) => `"${manager}"`);
  if (others.length === 0 || kind === 'Secret' || kind === 'Service') return [];
  return problem(
    `${kind} ${objectKey(metadata)}: ${someOf([...new Set(others)])} also writes caBundle`,
    'make the other writer leave the field alone: remove its annotation, or caBundle from its manifest: ' +
      `kubectl get ${commandPlace(kind, metadata)} -o yaml --show-managed-fields`,
  );
}

/** The field managers of Gatehouse: the API server derives the first from the user agent; the second injects. */
const isGatehouse = (manager: string): boolean => manager === 'gatehouse' || manager === INJECTION_MANAGER;

function holdsBundle(fields: FieldSet): boolean {
  return Object.entries(fields).some(([key, below]) => key === 'f:caBundle' || holdsBundle(below));
}

const commandPlace = (kind: string, { namespace, name = '' }: Managed['metadata']): string =>
  `${namespace === undefined ? '' : `-n ${namespace} `}${kind.toLowerCase()} ${name}`;
