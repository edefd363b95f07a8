/** Leader: stores of the Services that may ask for a serving cert, and of the Secrets that hold one. */
import { readFileSync } from 'node:fs';
import { isDeepStrictEqual } from 'node:util';
import type { Config } from '../../config/config.ts';
import { keyOf, type KubeObject } from '../../json/kube-object.ts';
import { memoizeWeak, pick } from '../../json/json.ts';
import { secrets, services } from '../../kube/well-known.ts';
import { SERVING_CERT_SECRET_NAME, SERVING_CERT_SELECTOR, SERVING_SECRET } from '../../pki/annotations.ts';
import type { Authority } from '../../pki/authority/authority.ts';
import { rootOf } from '../../pki/authority/generation.ts';
import type { TrialScope } from '../../pki/authority/trial.ts';
import { OWN_SERVING_CERT_LIFETIME } from '../../pki/durations.ts';
import {
  clusterDomainFrom,
  DEFAULT_CLUSTER_DOMAIN,
  permittedDomains,
  servingCertNames,
} from '../../pki/serving-certs/dns-names.ts';
import {
  ownAnnotations,
  type ServingCertFacts,
  type ServingCertSummary,
  signerOf,
  type StoredSecret,
  toStoredSecret,
} from '../../pki/serving-certs/facts.ts';
import {
  claimOf,
  firstClaim,
  requestedLifetime,
  type RequestRules,
  type SecretClaim,
  type Service,
  servingCertRequest,
  type ServingCertRequest,
} from '../../pki/serving-certs/request.ts';
import { isOriginal, markedService } from '../../pki/serving-certs/secret.ts';
import { LEAF_PURPOSES, type LeafPurpose } from '../../pki/x509/certificate-fields.ts';
import type { Context } from '../context.ts';
import { versionsOf, watch, type Watched, type WatchOptions } from '../watch.ts';
import { ownStateLabels } from './ca-bundle.ts';

export type ServingCertStores = ReturnType<typeof watchServingCerts>;

interface Listeners {
  readonly onService: (key: string) => void;
  readonly onEdit: (key: string) => void;
  readonly onSecret: () => void;
}

const BY_CLAIM = 'claim';
const BY_SERVICE = 'service';

export function watchServingCerts(
  context: Context,
  requests: Pick<ServiceRequests, 'claims'>,
  { onService, onEdit, onSecret }: Listeners,
  signal: AbortSignal,
) {
  const serviceWatch = watchServices(context, requests, { onService, onEdit }, signal);
  const claimants = (secretKey: string) => serviceWatch.store.byIndex(BY_CLAIM, secretKey);
  const secretWatch = watch<StoredSecret>(
    context,
    {
      resource: secrets,
      ...scopeOf(context, SERVING_SECRET),
      labelSelector: SERVING_CERT_SELECTOR,
      transform: toStoredSecret,
      indexes: { [BY_SERVICE]: markedFor },
      onChange: (secretKey, change) => {
        // An edit may change the mark itself: tell the marked Services of both versions, and the claimants.
        for (const key of new Set([
          ...versionsOf(change).flatMap(markedFor),
          ...claimants(secretKey).map(keyOf),
        ])) {
          if (change.kind === 'changed') onEdit(key);
          onService(key);
        }
        onSecret();
      },
    },
    signal,
  );
  return {
    synced: () => serviceWatch.hasSynced() && secretWatch.hasSynced(),
    whenSynced: (waiting: AbortSignal) =>
      Promise.all([serviceWatch.whenSynced(waiting), secretWatch.whenSynced(waiting)]),
    service: serviceWatch.store.get,
    serviceKeys: serviceWatch.store.keys,
    claimants,
    secret: secretWatch.store.get,
    secrets: secretWatch.store.list,
    secretsOf: (serviceKey: string): readonly StoredSecret[] =>
      secretWatch.store.byIndex(BY_SERVICE, serviceKey),
  };
}

/** @param own the only object that matters without serving certificates for Services of users */
function scopeOf({ config }: Context, own: string): Pick<WatchOptions<KubeObject>, 'namespace' | 'name'> {
  const { namespace, without } = config;
  return without.includes('certificates') ? { namespace, name: own } : {};
}

function watchServices(
  context: Context,
  { claims }: Pick<ServiceRequests, 'claims'>,
  { onService, onEdit }: Pick<Listeners, 'onService' | 'onEdit'>,
  signal: AbortSignal,
): Watched<Service> {
  const claimedBy = (service: Service): readonly string[] => [
    ...new Set(claims(service).map(({ secretName }) => `${service.metadata?.namespace ?? ''}/${secretName}`)),
  ];
  const watched = watch<Service>(
    context,
    {
      resource: services,
      ...scopeOf(context, context.config.service),
      transform: onlyCertificateFields,
      indexes: { [BY_CLAIM]: claimedBy },
      onChange: (key, change) => {
        if (change.kind === 'changed' && !isSameRequest(change.object, change.previous)) onEdit(key);
        onService(key);
        // The Secret may have become free for another Service.
        for (const secretKey of versionsOf(change).flatMap(claimedBy))
          for (const other of watched.store.byIndex(BY_CLAIM, secretKey)) onService(keyOf(other));
      },
    },
    signal,
  );
  return watched;
}

const isSameRequest = (a: Service, b: Service): boolean =>
  isDeepStrictEqual([a.spec, a.metadata?.annotations], [b.spec, b.metadata?.annotations]);

export function markedFor(secret: StoredSecret): readonly string[] {
  const service = markedService(secret);
  return service === undefined ? [] : [`${secret.metadata?.namespace ?? ''}/${service}`];
}

/** Most Services ask for nothing, and decisions need only these fields. */
function onlyCertificateFields({ metadata = {}, spec = {} }: Service): Service {
  return {
    metadata: {
      ...pick(metadata, 'name', 'namespace', 'uid', 'resourceVersion', 'creationTimestamp'),
      annotations: ownAnnotations(metadata.annotations ?? {}),
    },
    spec: pick(spec, 'type', 'clusterIP', 'clusterIPs'),
  };
}

type StoppedReason = 'NotRequested' | 'ServiceGone' | 'InvalidRequest';
export type CertInventory = ReturnType<typeof createCertInventory>;
type Summary = Extract<ServingCertSummary, { kind: 'usable' }>;

export function createCertInventory(
  stores: Pick<ServingCertStores, 'secrets' | 'service' | 'claimants' | 'synced'>,
  requests: Pick<ServiceRequests, 'request' | 'claims'>,
  authority: () => Authority | undefined,
) {
  const { secrets, service, claimants, synced } = stores;
  const signers = createSigners();
  const namesRenewedFor = memoizeWeak((one: Service) =>
    LEAF_PURPOSES.flatMap((purpose) => {
      const request = requests.request(one, purpose);
      return request.kind === 'request' ? [request.secretName] : [];
    }),
  );
  /** Undefined: its cert is renewed, or the Secret is a copy. */
  const stoppedReason = (secret: StoredSecret): StoppedReason | undefined => {
    const { name = '' } = secret.metadata ?? {};
    const asking = claimants(keyOf(secret));
    if (asking.length === 0) {
      if (!isOriginal(secret) || secret.summary === undefined) return undefined;
      return markedFor(secret).some((key) => service(key) !== undefined) ? 'NotRequested' : 'ServiceGone';
    }
    const claims = asking.flatMap(requests.claims).filter(({ secretName }) => secretName === name);
    const holder = asking.find(({ metadata }) => metadata?.name === firstClaim(claims)?.name);
    return holder === undefined || namesRenewedFor(holder).includes(name) ? undefined : 'InvalidRequest';
  };
  return {
    stoppedByReason: (): ReadonlyMap<StoppedReason, number> => {
      const reasons = synced() ? secrets().flatMap((one) => stoppedReason(one) ?? []) : [];
      return new Map(
        [...Map.groupBy(reasons, (reason) => reason)].map(([reason, { length }]) => [reason, length]),
      );
    },
    factsOf: ({ summary }: StoredSecret, current: Authority): ServingCertFacts | undefined => {
      if (summary?.kind !== 'usable') return summary;
      return { ...summary, signedBy: signers.of(summary, current) };
    },
    /** The renewed Secrets whose `ca.crt` lacks the root of this generation, for users. Undefined: not known yet. */
    secretsWithout: (id: string): readonly string[] | undefined => {
      const generation = authority()?.generations.find((one) => one.id === id);
      if (generation === undefined || !synced()) return undefined;
      const root = rootOf(generation).fingerprint256;
      return secrets().flatMap((one) => {
        const { summary } = one;
        if (summary?.kind !== 'usable' || summary.bundle?.split(',').includes(root) === true) return [];
        const key = keyOf(one);
        return stoppedReason(one) !== undefined || claimants(key).length === 0 ? [] : [`Secret ${key}`];
      });
    },
    all: () => {
      const current = authority();
      if (current === undefined || !synced()) return [];
      // Stops when the budget is used up; the next call gets further. Reconciles look up signers too.
      let budget = SIGNATURES_AT_ONCE;
      return secrets().flatMap((one) => {
        const { summary } = one;
        if (summary?.kind !== 'usable') return [];
        if (!isOriginal(one) && claimants(keyOf(one)).length === 0) return []; // a copy
        if (!signers.knows(summary, current) && budget-- <= 0) return [];
        return [{ notAfter: summary.notAfter, generation: signers.of(summary, current) }];
      });
    },
  };
}

/** Each signature check blocks the event loop for 0.2 ms. */
const SIGNATURES_AT_ONCE = 500;

/** Memoises the signers: every scrape of the metrics needs thousands of them. */
function createSigners() {
  const known = new WeakMap<Summary, { readonly authority: Authority; readonly id: string | undefined }>();
  // A known signer never changes. An unknown signer may be a generation of a later authority.
  const lookUp = (summary: Summary, authority: Authority) => {
    const before = known.get(summary);
    return before !== undefined && (before.id !== undefined || before.authority === authority)
      ? before
      : undefined;
  };
  return {
    knows: (summary: Summary, authority: Authority): boolean => lookUp(summary, authority) !== undefined,
    of: (summary: Summary, authority: Authority): string | undefined => {
      const found = lookUp(summary, authority) ?? { authority, id: signerOf(summary.leaf, authority) };
      known.set(summary, found);
      return found.id;
    },
  };
}

type Claim = SecretClaim & { readonly secretName: string };
export type ServiceRequests = ReturnType<typeof createServiceRequests>;

export function createServiceRequests(
  config: Pick<Config, 'namespace' | 'service' | 'clusterDomain' | 'compat' | 'servingCerts' | 'ca'>,
) {
  const rules: RequestRules = {
    ...config.servingCerts,
    clusterDomain: clusterDomainOf(config),
    nameConstraints: config.ca.nameConstraints,
    openshift: config.compat.includes('openshift'),
  };
  const isOwn = ({ metadata }: Service): boolean =>
    metadata?.namespace === config.namespace && metadata.name === config.service;
  const annotated = (service: Service): Service =>
    isOwn(service)
      ? {
          ...service,
          metadata: { ...service.metadata, annotations: { [SERVING_CERT_SECRET_NAME]: SERVING_SECRET } },
        }
      : service;
  const claimFor = (service: Service, purpose: LeafPurpose = 'serving'): Claim | undefined => {
    const claim = claimOf(annotated(service), rules, purpose);
    const { name = '', uid = '', creationTimestamp } = service.metadata ?? {};
    if (claim === undefined) return undefined;
    return { secretName: claim.secretName, name, uid, createdAt: creationTimestamp, own: isOwn(service) };
  };
  return {
    isOwn,
    claimOf: claimFor,
    claims: (service: Service): readonly Claim[] =>
      LEAF_PURPOSES.flatMap((purpose) => claimFor(service, purpose) ?? []),
    /** The longest life of the certs that this Service requests, in milliseconds; 0: it requests none. */
    lifetimeMs: (service: Service): number => {
      const asking = LEAF_PURPOSES.filter((purpose) => claimFor(service, purpose) !== undefined);
      return Math.max(0, ...asking.map((one) => requestedLifetime(annotated(service), rules, one) ?? 0));
    },
    request: (service: Service, purpose: LeafPurpose): ServingCertRequest => {
      const request = servingCertRequest(annotated(service), rules, purpose);
      return request.kind === 'request' && isOwn(service)
        ? { ...request, own: true, lifetimeMs: OWN_SERVING_CERT_LIFETIME, labels: ownStateLabels }
        : request;
    },
  };
}

const clusterDomainOf = ({ clusterDomain }: Pick<Config, 'clusterDomain'>): string =>
  clusterDomain ?? clusterDomainOfPod() ?? DEFAULT_CLUSTER_DOMAIN;

export const domainsOfNewCa = ({
  ca,
  servingCerts,
  ...config
}: Pick<Config, 'ca' | 'servingCerts' | 'clusterDomain'>): readonly string[] | undefined =>
  ca.nameConstraints
    ? permittedDomains({ ...servingCerts, clusterDomain: clusterDomainOf(config) })
    : undefined;

/** Names in every domain in which certs hold names, and the cluster IPs of a Service: a CA must be able to sign all. */
export function trialScope(
  { servingCerts, ca, ...config }: Pick<Config, 'servingCerts' | 'clusterDomain' | 'ca'>,
  clusterIPs: readonly string[],
): TrialScope {
  const service = { name: 'name', namespace: 'namespace', headless: true, annotations: {} };
  const { shortNames, dnsSuffixes, namespaceSuffixes } = servingCerts;
  const isConstrained = ca.secret === undefined && ca.nameConstraints;
  const names = servingCertNames(service, {
    ...servingCerts,
    clusterDomain: clusterDomainOf(config),
    nameConstraints: false,
    namespaceSuffixes: new Map(), // such a domain may contain name.namespace
    shortNames: shortNames && !isConstrained,
  });
  const suffixes = [...dnsSuffixes, ...namespaceSuffixes.keys()];
  return {
    dnsNames: [...names, ...suffixes.map((suffix) => `name.${suffix}`)],
    addresses: servingCerts.clusterIPs ? clusterIPs : [],
  };
}

/** The kubelet writes the cluster domain into the resolver configuration of every pod. */
function clusterDomainOfPod(): string | undefined {
  try {
    return clusterDomainFrom(readFileSync('/etc/resolv.conf', 'utf8'));
  } catch {
    return undefined; // only Linux has this file
  }
}
