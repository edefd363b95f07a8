/** Who else writes what Gatehouse writes, and who else lays claim to it. */
import {
  INJECT_CABUNDLE,
  INJECT_CABUNDLE_FROM,
  INJECTION_MANAGER,
  SERVING_CERT_LABEL,
  SERVING_CERT_SECRET_NAME,
} from '../../../../pki/annotations.ts';
import { WEBHOOK_CONFIGURATION_NAME } from '../../../../admission/webhooks/webhook-configurations.ts';
import type { FieldSet } from '../../../../pki/injection/target.ts';
import type { Claimed, Evidence } from '../evidence.ts';
import { ok, orElse, warning, problem, someOf, type Finding } from '../finding.ts';
import { judgeLook } from '../look.ts';

const CHECK = 'rivals';

/** Annotations by which somebody else is asked to fill the same place. */
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

export function checkRivals({ claimed }: Pick<Evidence, 'claimed'>): readonly Finding[] {
  const findings = claimed.flatMap((looked) =>
    judgeLook(CHECK, looked, (objects) => objects.filter(isOurs).flatMap(judge)),
  );
  return orElse(findings, ok(CHECK, 'nobody else writes or claims what Gatehouse keeps'));
}

/** Whether Gatehouse keeps something in it: because it asks for it, or because it is our own. */
function isOurs({ kind, metadata }: Claimed): boolean {
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

function judge(object: Claimed): readonly Finding[] {
  return [...claims(object), ...writers(object)];
}

function claims({ kind, metadata }: Claimed): readonly Finding[] {
  const names = Object.keys(metadata.annotations ?? {});
  return RIVALS.flatMap(({ system, claims: isClaim }) => {
    const found = names.filter(isClaim);
    if (found.length === 0) return [];
    const place = placeOf(kind, metadata);
    const remove = found.map((name) => `${name}-`).join(' ');
    return [
      warning(
        CHECK,
        `${place} asks Gatehouse, and by ${someOf(found)} also ${system}: where that runs, the two overwrite each other`,
        `keep one: kubectl annotate ${commandPlace(kind, metadata)} ${remove}`,
      ),
    ];
  });
}

/** Secrets and Services have no bundle of ours that others could hold. */
function writers({ kind, metadata }: Claimed): readonly Finding[] {
  const others = (metadata.managedFields ?? [])
    .filter(({ manager = '', fieldsV1 = {} }) => !isGatehouse(manager) && holdsBundle(fieldsV1))
    .map(({ manager = '' }) => `"${manager}"`);
  if (others.length === 0 || kind === 'Secret' || kind === 'Service') return [];
  return [
    problem(
      CHECK,
      `${placeOf(kind, metadata)}: caBundle is also written by ${someOf([...new Set(others)])}`,
      'have that one leave the field alone, e.g. take its annotation away, or the caBundle out of its manifest: ' +
        `kubectl get ${commandPlace(kind, metadata)} -o yaml --show-managed-fields`,
    ),
  ];
}

/** The name that the API server takes from the user agent, and the one that injects. */
const isGatehouse = (manager: string): boolean => manager === 'gatehouse' || manager === INJECTION_MANAGER;

function holdsBundle(fields: FieldSet): boolean {
  return Object.entries(fields).some(([key, below]) => key === 'f:caBundle' || holdsBundle(below));
}

const placeOf = (kind: string, { namespace, name = '' }: Claimed['metadata']): string =>
  `${kind} ${namespace === undefined ? '' : `${namespace}/`}${name}`;

const commandPlace = (kind: string, { namespace, name = '' }: Claimed['metadata']): string =>
  `${namespace === undefined ? '' : `-n ${namespace} `}${kind.toLowerCase()} ${name}`;
