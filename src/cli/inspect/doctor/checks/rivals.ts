/** Checks whether another controller writes, or is asked to write, the fields that Gatehouse manages. */
import {
  INJECT_CABUNDLE,
  INJECT_CABUNDLE_FROM,
  INJECTION_MANAGER,
  SERVING_CERT_LABEL,
  SERVING_CERT_SECRET_NAME,
} from '../../../../pki/annotations.ts';
import { WEBHOOK_CONFIGURATION_NAME } from '../../../../admission/webhooks/webhook-configurations.ts';
import type { FieldSet } from '../../../../pki/injection/target.ts';
import type { InstallationReadings, Managed } from '../../read-cluster/read-installation.ts';
import { judgeReading, ok, orElse, problem, someOf, warning, type Finding } from '../finding.ts';

const CHECK = 'rivals';

/** Annotations that ask another controller for the same fields. */
const RIVALS: readonly { readonly system: string; readonly claims: (annotation: string) => boolean }[] = [
  {
    system: 'service-ca of OpenShift',
    claims: (name) =>
      /^service\.(alpha|beta)\.openshift\.io\/(inject-cabundle|serving-cert-secret-name)$/.test(name),
  },
  {
    system: 'cert-manager',
    claims: (name) =>
      /^cert-manager\.io\/(inject-ca-from|inject-ca-from-secret|inject-apiserver-ca|certificate-name)$/.test(
        name,
      ),
  },
];

export function checkRivals({ managed }: InstallationReadings): readonly Finding[] {
  const findings = managed.flatMap((reading) =>
    judgeReading(CHECK, reading, (objects) =>
      objects.filter(isManaged).flatMap((object) => [...claims(object), ...writers(object)]),
    ),
  );
  return orElse(
    findings,
    ok(CHECK, 'no other controller writes or claims the fields that Gatehouse manages'),
  );
}

/** Whether Gatehouse manages fields of the object: on request of an annotation, or because it owns the object. */
function isManaged({ kind, metadata }: Managed): boolean {
  const { annotations = {}, labels = {}, name } = metadata;
  return (
    isOwnConfiguration(kind, name) ||
    labels[SERVING_CERT_LABEL.name] === SERVING_CERT_LABEL.value ||
    [INJECT_CABUNDLE, INJECT_CABUNDLE_FROM, SERVING_CERT_SECRET_NAME].some(
      (key) => annotations[key] !== undefined && annotations[key] !== 'false',
    )
  );
}

const isOwnConfiguration = (kind: string, name: string | undefined): boolean =>
  kind.endsWith('WebhookConfiguration') && name === WEBHOOK_CONFIGURATION_NAME;

function claims({ kind, metadata }: Managed): readonly Finding[] {
  const names = Object.keys(metadata.annotations ?? {});
  return RIVALS.flatMap(({ system, claims: isClaim }) => {
    const found = names.filter(isClaim);
    if (found.length === 0) return [];
    const place = placeOf(kind, metadata);
    const remove = found.map((name) => `${name}-`).join(' ');
    return [
      warning(
        CHECK,
        `${place} asks Gatehouse and, with ${someOf(found)}, also ${system}: if both run, they overwrite each other`,
        `keep one of them: kubectl annotate ${commandPlace(kind, metadata)} ${remove}`,
      ),
    ];
  });
}

/** Gatehouse injects no bundle into Secrets and Services. */
function writers({ kind, metadata }: Managed): readonly Finding[] {
  const others = (metadata.managedFields ?? [])
    .filter(({ manager = '', fieldsV1 = {} }) => !isGatehouse(manager) && holdsBundle(fieldsV1))
    .map(({ manager = '' }) => `"${manager}"`);
  if (others.length === 0 || kind === 'Secret' || kind === 'Service') return [];
  return [
    problem(
      CHECK,
      `${placeOf(kind, metadata)}: ${someOf([...new Set(others)])} also writes caBundle`,
      'make the other writer leave the field alone: remove its annotation, or caBundle from its manifest: ' +
        `kubectl get ${commandPlace(kind, metadata)} -o yaml --show-managed-fields`,
    ),
  ];
}

/** The field managers of Gatehouse: the API server derives the first from the user agent; the second injects. */
const isGatehouse = (manager: string): boolean => manager === 'gatehouse' || manager === INJECTION_MANAGER;

function holdsBundle(fields: FieldSet): boolean {
  return Object.entries(fields).some(([key, below]) => key === 'f:caBundle' || holdsBundle(below));
}

const placeOf = (kind: string, { namespace, name = '' }: Managed['metadata']): string =>
  `${kind} ${namespace === undefined ? '' : `${namespace}/`}${name}`;

const commandPlace = (kind: string, { namespace, name = '' }: Managed['metadata']): string =>
  `${namespace === undefined ? '' : `-n ${namespace} `}${kind.toLowerCase()} ${name}`;
