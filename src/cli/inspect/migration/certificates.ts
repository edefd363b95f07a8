/** Certificates and issuers of cert-manager. Gatehouse issues only for Services, from one CA. */
import { keyOf } from '../../../json/kube-object.ts';
import { quote } from '../../../json/printable.ts';
import {
  CLIENT_CERT_SECRET_NAME,
  SERVING_CERT_ADOPT,
  SERVING_CERT_SECRET_NAME,
} from '../../../pki/annotations.ts';
import { someOf } from '../doctor/finding.ts';
import { valueOf } from '../read-cluster/reading.ts';
import { ownerOfSecret, placeOf, type MigrationContext, type MigrationRow } from './migration-row.ts';
import type { Certificate, Issuer } from './read-migration.ts';

export const certificateRows = (context: MigrationContext): readonly MigrationRow[] =>
  (valueOf(context.readings.certificates) ?? []).map((certificate) => {
    const { metadata, spec } = certificate;
    const secretKey = `${metadata?.namespace ?? ''}/${spec?.secretName ?? ''}`;
    const owner = ownerOfSecret(context.readings.secrets.get(secretKey), context);
    return { ...placeOf('Certificate', metadata), owner, ...judge(certificate, owner, context) };
  });

type Judgement = Pick<MigrationRow, 'state' | 'changes'>;

function judge(certificate: Certificate, owner: string | undefined, context: MigrationContext): Judgement {
  const { metadata, spec: { secretName = '', dnsNames = [] } = {} } = certificate;
  if (owner === 'Gatehouse')
    return { state: 'Ready', changes: [`Gatehouse fills Secret ${secretName}: delete the Certificate`] };
  const problem = problemOf(certificate);
  if (problem !== undefined) return { state: 'Blocked', changes: [problem] };
  if (context.readings.services.kind === 'unread')
    return { state: 'Unknown', changes: ['the Services of its namespace are unreadable'] };
  const services = context.readings.services.value.filter(
    (service) => service.metadata?.namespace === metadata?.namespace,
  );
  const names = services.map(({ metadata: { name = '', namespace = '' } = {} }) => ({
    name,
    others: dnsNames.filter((dnsName) => !isOfService(dnsName, name, namespace)),
  }));
  const best = names.toSorted((a, b) => a.others.length - b.others.length)[0];
  if (best === undefined || best.others.length > 0) {
    const outside = best === undefined || best.others.length === dnsNames.length ? dnsNames : best.others;
    return { state: 'Blocked', changes: [`no Service of its namespace has the names ${someOf(outside)}`] };
  }
  const changes = [
    `Secret ${secretName} stays: annotate it with ${SERVING_CERT_ADOPT}=${best.name}, and Service ${best.name} with ` +
      `${SERVING_CERT_SECRET_NAME}=${secretName}, then delete the Certificate`,
    'new key and certificate, from another CA: its clients need the bundle of Gatehouse first',
  ];
  return { state: 'Ready', changes };
}

/** E.g. `db`, `db.prod.svc`, `*.db.prod.svc.cluster.local`. */
const isOfService = (dnsName: string, name: string, namespace: string): boolean =>
  [name, `${name}.${namespace}`].includes(dnsName) || `.${dnsName}.`.includes(`.${name}.${namespace}.svc.`);

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
