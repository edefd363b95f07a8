/** Services for which service-ca makes certificates. */
import { SERVING_CERT_DNS_NAMES } from '../../../pki/annotations.ts';
import { DEFAULT_CLUSTER_DOMAIN, listOf } from '../../../pki/serving-certs/dns-names.ts';
import {
  claimOf,
  firstClaim,
  servingCertRequest,
  type AcceptedRequest,
  type ServingCertRequest,
  type Service,
} from '../../../pki/serving-certs/request.ts';
import { openshiftSecretName } from '../../../pki/serving-certs/openshift.ts';
import { ownership } from '../../../pki/serving-certs/secret.ts';
import { nameOf } from '../../../pki/x509/path-problem.ts';
import { explain } from '../../../runtime/certificates/serving-cert-events.ts';
import { identityOf } from '../../../runtime/certificates/serving-cert-task.ts';
import { someOf } from '../doctor/finding.ts';
import { valueOf } from '../read-cluster/reading.ts';
import { signerAmong } from '../status/report/serving-certs.ts';
import {
  DEFAULT_RULES,
  ownerOfSecret,
  placeOf,
  type MigrationContext,
  type MigrationRow,
} from './migration-row.ts';
import { isServiceCaService, type PresentSecret } from './read-migration.ts';

const OPENSHIFT = { openshift: true } as const;

export function serviceRows(context: MigrationContext): readonly MigrationRow[] {
  const { readings, system } = context;
  const services = valueOf(readings.services) ?? [];
  if (system !== 'service-ca') return [];
  const claimants = Map.groupBy(services, secretKeyOf);
  return services.filter(isServiceCaService).map((service) => ({
    ...placeOf('Service', service.metadata),
    owner: ownerOfSecret(readings.secrets.get(secretKeyOf(service)), context),
    ...judge(service, claimants.get(secretKeyOf(service)) ?? [], context),
  }));
}

const secretKeyOf = (service: Service): string =>
  `${service.metadata?.namespace ?? ''}/${claimOf(service, OPENSHIFT)?.secretName ?? ''}`;

type Judgement = Pick<MigrationRow, 'state' | 'changes'>;

const blocked = (...changes: readonly string[]): Judgement => ({ state: 'Blocked', changes });

function judge(service: Service, claimants: readonly Service[], context: MigrationContext): Judgement {
  const identity = identityOf(service);
  const reading = context.readings.secrets.get(secretKeyOf(service));
  const present = reading === undefined ? undefined : valueOf(reading);
  const { request, settings } = requestOf(service, present);
  if (request.kind !== 'request') return blocked(request.kind === 'invalid' ? request.message : '');
  const { secretName } = request;
  const first = firstClaim(
    claimants.map(({ metadata: { name = '', uid = '', creationTimestamp } = {} }) => ({
      ...{ name, uid, createdAt: creationTimestamp, own: false },
    })),
  );
  if (first !== undefined && first.name !== identity.name)
    return blocked(explain({ kind: 'taken', by: first.name }, request).message);
  if (reading?.kind === 'unread')
    return { state: 'Unknown', changes: [`Secret ${secretName} is unreadable`] };
  const before = [...settings, ...otherSecret(service, request)];
  if (present === undefined)
    return { state: 'Ready', changes: [...before, `Secret ${secretName} is created`] };
  const owner = ownership(present, identity, OPENSHIFT);
  if (owner !== 'ours')
    return blocked(explain({ kind: owner === 'another-service' ? 'foreign' : owner }, request).message);
  if (ownerOfSecret(reading, context) === 'Gatehouse') return { state: 'Done', changes: [] };
  const changes = [...before, ...certificateChanges(request, present), ...trustChanges(present, context)];
  return { state: 'Ready', changes };
}

/**
 * With the default settings and the cluster domain of the present certificate. `settings`: what the Service lacks with
 * the defaults, each with the name of its flag.
 */
function requestOf(
  service: Service,
  present: PresentSecret | undefined,
): { readonly request: ServingCertRequest; readonly settings: readonly string[] } {
  const { name = '', namespace = '', annotations } = service.metadata ?? {};
  const prefix = `${name}.${namespace}.svc.`;
  const names = present?.summary?.kind === 'usable' ? present.summary.dnsNames : [];
  const clusterDomain =
    names.find((one) => one.startsWith(prefix))?.slice(prefix.length) ?? DEFAULT_CLUSTER_DOMAIN;
  const rules = { ...DEFAULT_RULES, ...OPENSHIFT, clusterDomain };
  const dnsSuffixes = listOf(annotations?.[SERVING_CERT_DNS_NAMES] ?? '');
  const byDefault = servingCertRequest(service, rules);
  const request = servingCertRequest(service, { ...rules, dnsSuffixes });
  return {
    request,
    settings: [
      ...(byDefault.kind === 'invalid' ? [`invalid with the default settings: ${byDefault.message}`] : []),
      ...(request.kind === 'request' && request.lacksAddresses
        ? ['no IP addresses with the default settings: they need --serving-cert-cluster-ips']
        : []),
    ],
  };
}

/** If the Service also has Gatehouse's annotation, that one wins. */
function otherSecret({ metadata }: Service, { secretName }: AcceptedRequest): readonly string[] {
  const before = openshiftSecretName(metadata?.annotations ?? {}) ?? secretName;
  return before === secretName
    ? []
    : [`another Secret: ${before} is no longer renewed; mount ${secretName} instead`];
}

function certificateChanges(request: AcceptedRequest, { summary, chain }: PresentSecret): readonly string[] {
  if (summary?.kind !== 'usable') return ['the certificate, which is unusable now, is replaced'];
  const { dnsNames, algorithm = 'unknown algorithm' } = summary;
  const added = request.dnsNames.filter((name) => !dnsNames.includes(name));
  const dropped = dnsNames.filter((name) => !request.dnsNames.includes(name));
  const days = (ms: number): string => `${Math.round(ms / 86_400_000)} days`;
  const life = days(summary.notAfter.getTime() - summary.notBefore.getTime());
  return [
    `new key and certificate: ${request.algorithm}, ${days(request.lifetimeMs)} (now ${algorithm}, ${life})`,
    ...(added.length === 0 ? [] : [`additional DNS names: ${someOf(added)}`]),
    ...(dropped.length === 0 ? [] : [`without the DNS names ${someOf(dropped)}`]),
    ...(chain.slice(1).some((one) => one.checkIssued(one))
      ? ['tls.crt no longer contains the root: clients that take it from there need ca.crt']
      : []),
  ];
}

function trustChanges(
  { summary, chain: [leaf] }: PresentSecret,
  { authority, ownRoots }: MigrationContext,
): readonly string[] {
  if (leaf === undefined || summary?.kind !== 'usable') return [];
  const isKnown =
    signerAmong(authority.signers, summary.leaf) !== undefined ||
    ownRoots?.some((root) => leaf.checkIssued(root) && leaf.verify(root.publicKey)) === true;
  if (isKnown) return ['the CA stays'];
  const issuer = nameOf({ subject: leaf.issuer });
  return [`another CA: clients that trust only ${issuer} reject the new certificate`];
}
