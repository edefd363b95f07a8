/** Certificates and issuers of cert-manager. Gatehouse issues only for Services, from one CA. */
import { keyOf } from '../../../json/kube-object.ts';
import { quote } from '../../../json/printable.ts';
import {
  CLIENT_CERT_SECRET_NAME,
  SERVING_CERT_ADOPT,
  SERVING_CERT_DNS_NAMES,
  SERVING_CERT_SECRET_NAME,
  SERVING_CERT_SHORT_NAMES,
  SERVING_CERT_WILDCARD,
} from '../../../pki/annotations.ts';
import { servingCertRequest, type Service } from '../../../pki/serving-certs/request.ts';
import { someOf } from '../doctor/finding.ts';
import { valueOf } from '../read-cluster/reading.ts';
import {
  DEFAULT_RULES,
  ownerOfSecret,
  placeOf,
  type MigrationContext,
  type MigrationRow,
} from './migration-row.ts';
import type { Certificate, Issuer } from './read-migration.ts';

export function certificateRows(context: MigrationContext): readonly MigrationRow[] {
  const taken = new Map<string, string>();
  return (valueOf(context.readings.certificates) ?? []).map((certificate) => {
    const { metadata, spec } = certificate;
    const secretKey = `${metadata?.namespace ?? ''}/${spec?.secretName ?? ''}`;
    const owner = ownerOfSecret(context.readings.secrets.get(secretKey), context);
    return { ...placeOf('Certificate', metadata), owner, ...judge(certificate, owner, context, taken) };
  });
}

type Judgement = Pick<MigrationRow, 'state' | 'changes'>;

const blocked = (why: string): Judgement => ({ state: 'Blocked', changes: [why] });

/** @param taken the Certificates that come before, by the Service that replaces them */
function judge(
  certificate: Certificate,
  owner: string | undefined,
  { readings }: MigrationContext,
  taken: Map<string, string>,
): Judgement {
  const { metadata, spec: { secretName = '', dnsNames = [] } = {} } = certificate;
  if (owner === 'Gatehouse')
    return { state: 'Ready', changes: [`Gatehouse fills Secret ${secretName}: delete the Certificate`] };
  const problem = problemOf(certificate);
  if (problem !== undefined) return blocked(problem);
  if (readings.services.kind === 'unread')
    return { state: 'Unknown', changes: ['the Services of its namespace are unreadable'] };
  const offers = readings.services.value
    .filter((service) => service.metadata?.namespace === metadata?.namespace && isNear(service, dnsNames))
    .map((service) => offerOf(service, secretName, dnsNames));
  const best = offers.toSorted((a, b) => a.others.length - b.others.length)[0];
  if (best === undefined || best.others.length > 0)
    return blocked(
      `no Service of its namespace has the names ${someOf(best?.others ?? dnsNames)} with the default settings ` +
        '(--cluster-domain, --serving-cert-dns-suffixes)',
    );
  const { service, needed, additional } = best;
  const { name = '', annotations = {} } = service.metadata ?? {};
  const present = annotations[SERVING_CERT_SECRET_NAME] ?? secretName;
  if (present !== secretName)
    return blocked(`Service ${name} can fill only one Secret, and it already asks for ${present}`);
  const first = taken.get(keyOf(service));
  if (first !== undefined)
    return blocked(`Service ${name} can fill only one Secret, and it replaces Certificate ${first}`);
  taken.set(keyOf(service), metadata?.name ?? '');
  const changes = [
    `Secret ${secretName} stays: annotate it with ${SERVING_CERT_ADOPT}=${name}, and Service ${name} with ` +
      `${Object.entries(needed)
        .map(([annotation, value]) => `${annotation}=${value}`)
        .join(' and ')}, then delete the Certificate`,
    'new key and certificate, from another CA: its clients need the bundle of Gatehouse first',
    ...(additional.length === 0 ? [] : [`additional DNS names: ${someOf(additional)}`]),
  ];
  return { state: 'Ready', changes };
}

/** Cheap: a namespace can have thousands of Services. */
function isNear(
  { metadata: { name = '', namespace = '' } = {} }: Service,
  dnsNames: readonly string[],
): boolean {
  return dnsNames.some((dnsName) => dnsName === name || dnsName.includes(`${name}.${namespace}`));
}

/** The annotations by which the Service gets these names, other names that it then gets, and those that it cannot have. */
function offerOf(service: Service, secretName: string, dnsNames: readonly string[]) {
  const { metadata = {} } = service;
  const namesWith = (more: Readonly<Record<string, string>>): readonly string[] => {
    const asking = {
      ...service,
      metadata: { ...metadata, annotations: { ...metadata.annotations, ...more } },
    };
    const request = servingCertRequest(asking, DEFAULT_RULES);
    return request.kind === 'request' ? request.dnsNames : [];
  };
  const without = (names: readonly string[]) => dnsNames.filter((dnsName) => !names.includes(dnsName));
  let needed: Readonly<Record<string, string>> = { [SERVING_CERT_SECRET_NAME]: secretName };
  let others = without(namesWith(needed));
  const attempt = (annotation: string, value: string): void => {
    const left = without(namesWith({ ...needed, [annotation]: value }));
    if (left.length < others.length) [needed, others] = [{ ...needed, [annotation]: value }, left];
  };
  attempt(SERVING_CERT_SHORT_NAMES, 'true');
  attempt(SERVING_CERT_WILDCARD, 'true');
  for (const dnsName of others) {
    const before = needed[SERVING_CERT_DNS_NAMES] ?? metadata.annotations?.[SERVING_CERT_DNS_NAMES];
    attempt(SERVING_CERT_DNS_NAMES, before === undefined ? dnsName : `${before},${dnsName}`);
  }
  return {
    service,
    needed,
    others,
    additional: namesWith(needed).filter((name) => !dnsNames.includes(name)),
  };
}

function problemOf({ spec = {} }: Certificate): string | undefined {
  const { isCA, usages = [], ipAddresses = [], uris = [], emailAddresses = [], otherNames = [] } = spec;
  if (isCA === true)
    return 'it is a CA: Gatehouse has its own, or takes one from a Secret in its namespace (--ca-secret)';
  if (usages.includes('client auth'))
    return `it is for a client too (spec.usages): a Service asks for such a certificate in another Secret, with ${CLIENT_CERT_SECRET_NAME}`;
  if (usages.length > 0 && !usages.includes('server auth'))
    return 'it is not for a server (spec.usages): keep it in cert-manager';
  if (ipAddresses.length + uris.length + emailAddresses.length + otherNames.length > 0)
    return 'it has names that are not DNS names: keep it in cert-manager';
  return (spec.dnsNames ?? []).length === 0 ? 'it has no DNS names: keep it in cert-manager' : undefined;
}

export function issuerRows({ readings }: MigrationContext): readonly MigrationRow[] {
  const certificates = valueOf(readings.certificates) ?? [];
  const rowOf = (kind: 'Issuer' | 'ClusterIssuer', issuer: Issuer): MigrationRow => {
    const { metadata, spec = {} } = issuer;
    const users = certificates.filter(
      (one) =>
        one.spec?.issuerRef?.name === metadata?.name &&
        (one.spec?.issuerRef?.kind ?? 'Issuer') === kind &&
        (kind === 'ClusterIssuer' || one.metadata?.namespace === metadata?.namespace),
    );
    const type = Object.keys(spec).join(', ');
    const row = { ...placeOf(kind, metadata), owner: 'cert-manager' };
    if (spec.ca !== undefined) {
      const from = `Secret ${quote(spec.ca.secretName ?? '')}`;
      return {
        ...row,
        state: 'Ready',
        changes: [`the CA stays if Gatehouse imports it: copy ${from} (--ca-secret)`],
      };
    }
    const used = `used by ${users.length === 0 ? 'no Certificate' : someOf(users.map(keyOf))}`;
    return users.length === 0 || type === 'selfSigned'
      ? { ...row, state: 'Ready', changes: [`nothing replaces it (${type}); ${used}`] }
      : { ...row, state: 'Blocked', changes: [`Gatehouse has nothing like it (${type}); ${used}`] };
  };
  return [
    ...(valueOf(readings.issuers) ?? []).map((issuer) => rowOf('Issuer', issuer)),
    ...(valueOf(readings.clusterIssuers) ?? []).map((issuer) => rowOf('ClusterIssuer', issuer)),
  ];
}
