/** For serving cert tests: Services and Secrets in memory, and their reconciler. */
import { X509Certificate } from 'node:crypto';
import { objectKey } from '../../../src/json/kube-object.ts';
import type { NamedRef, Resource } from '../../../src/kube/object.ts';
import type { Authority } from '../../../src/pki/authority/authority.ts';
import { generateKeyPair, randomSerial } from '../../../src/pki/x509/keys.ts';
import { toStoredSecret, type StoredSecret } from '../../../src/pki/serving-certs/facts.ts';
import { markedService, type Secret } from '../../../src/pki/serving-certs/secret.ts';
import {
  claimOf,
  servingCertRequest,
  type RequestRules,
  type Service,
} from '../../../src/pki/serving-certs/request.ts';
import { LEAF_PURPOSES, type LeafPurpose } from '../../../src/pki/x509/certificate-fields.ts';
import { secrets as SECRETS, services as SERVICES } from '../../../src/kube/well-known.ts';
import { createCertInventory } from '../../../src/runtime/certificates/serving-cert-stores.ts';
import {
  createContendedSecrets,
  type ServingCertsContext,
} from '../../../src/runtime/certificates/serving-cert-task.ts';
import { createServingCertsReconciler } from '../../../src/runtime/certificates/serving-certs.ts';
import type { Reconcile, ReconcileResult } from '../../../src/runtime/controller.ts';
import { ApiError, createCluster, NEVER, silent } from './fixtures.ts';

export const NAMESPACE = 'prod';

export type Change = Partial<Omit<ServingCertsContext, 'client' | 'stores' | 'requests'>> & {
  readonly client?: Partial<ServingCertsContext['client']>;
  readonly stores?: Partial<ServingCertsContext['stores']>;
  readonly requests?: Partial<ServingCertsContext['requests']>;
};

export type ServingCertsWorld = ReturnType<typeof createWorld>;

const RULES: RequestRules = {
  clusterDomain: 'cluster.local',
  dnsSuffixes: [],
  namespaceSuffixes: new Map<string, string>(),
  shortNames: false,
  clusterIPs: false,
  nameConstraints: false,
  openshift: false,
  maxLifetimeMs: 365 * 86_400_000,
  renewAfter: 66,
};

export function createWorld(authority: Authority, now: Date) {
  const state = { authority: authority as Authority | undefined, now, rules: RULES };
  const cluster = createCluster();
  const services = cluster.objects<Service>(SERVICES);
  const secrets = cluster.objects<Secret>(SECRETS);
  const { events } = cluster;
  const calls = { keys: 0, reads: 0, deletes: 0, annotated: 0 };
  const observed: string[] = [];
  const keyOf = (name: string) => `${NAMESPACE}/${name}`;
  const isServing = ({ metadata }: Secret) => metadata?.labels?.['gatehouse.dev/serving-cert'] === 'true';
  const stored = (key: string): StoredSecret | undefined => {
    const secret = secrets.read(key);
    return secret !== undefined && isServing(secret) ? toStoredSecret(secret) : undefined;
  };
  const allStored = () => secrets.list().filter(isServing).map(toStoredSecret);
  let steady: Reconcile | undefined;

  const client = {
    ...cluster.client,
    get: (kind: Resource, ref: NamedRef) => {
      if (kind.resource === SECRETS.resource) calls.reads++;
      return cluster.client.get(kind, ref) as Promise<never>;
    },
    // A refused creation counts as no write.
    create: (kind: Resource, secret: Secret) =>
      secrets.read(objectKey(secret.metadata ?? {})) === undefined
        ? (cluster.client.create(kind, secret) as Promise<never>)
        : Promise.reject(new ApiError(409, 'already exists', 'AlreadyExists')),
    delete: (kind: Resource, ref: NamedRef) => {
      calls.deletes++;
      return cluster.client.delete(kind, ref);
    },
    patchMerge: (kind: Resource, ref: NamedRef, patch: object) => {
      calls.annotated++;
      return cluster.client.patchMerge<never>(kind, ref, patch);
    },
  };
  const stores = {
    synced: () => true,
    service: services.read,
    claimants: (secretKey: string) =>
      services
        .list()
        .filter((one) => requests.claims(one).some(({ secretName }) => keyOf(secretName) === secretKey)),
    secret: stored,
    secrets: allStored,
    secretsOf: (key: string) => allStored().filter((secret) => keyOf(markedService(secret) ?? '') === key),
  };
  const requests = {
    request: (wanted: Service, purpose: LeafPurpose) => servingCertRequest(wanted, state.rules, purpose),
    claimOf: (wanted: Service, purpose?: LeafPurpose) => claimed(wanted, state.rules, purpose),
    claims: (wanted: Service) =>
      LEAF_PURPOSES.flatMap((purpose) => claimed(wanted, state.rules, purpose) ?? []),
  };

  const secret = (name = 'db-tls') => secrets.read(keyOf(name));
  const file = (key: string, name?: string) => Buffer.from(secret(name)?.data?.[key] ?? '', 'base64');
  const contended = createContendedSecrets();
  const inventory = createCertInventory(stores, requests, () => state.authority);
  /** The stores are never stale, unless `change` replaces their functions. */
  const reconciler = (change: Change = {}): Reconcile =>
    createServingCertsReconciler({
      onRemoval: 'retain',
      openshift: state.rules.openshift,
      authority: () => state.authority,
      extendTrust: () => undefined,
      inventory,
      contended,
      pacer: { take: () => true, forget: () => undefined },
      serverClock: { now: () => state.now, skewMs: () => 0 },
      generateKeyPair: (algorithm) => {
        calls.keys++;
        return generateKeyPair(algorithm);
      },
      randomSerial,
      record: events.record,
      observe: (result, reason) => void observed.push(`${result} ${reason}`),
      log: silent,
      ...change,
      client: { ...client, ...change.client },
      stores: { ...stores, ...change.stores },
      requests: { ...requests, ...change.requests },
    });
  const run = (name: string, change?: Change): Promise<ReconcileResult> => {
    steady ??= reconciler();
    return (change === undefined ? steady : reconciler(change))(keyOf(name), NEVER);
  };
  const leaf = (name?: string) => new X509Certificate(file('tls.crt', name));
  const world = { services, secrets, events, inventory, contended, calls, observed, reconciler, run };
  return Object.assign(state, { ...world, secret, file, leaf, add: services.add });
}

function claimed(service: Service, rules: RequestRules, purpose?: LeafPurpose) {
  const claim = claimOf(service, rules, purpose);
  const { name = '', uid = '', creationTimestamp } = service.metadata ?? {};
  return claim && { secretName: claim.secretName, name, uid, createdAt: creationTimestamp, own: false };
}

/** A Service that requests the Secret `db-tls`, unless `annotations` says otherwise. */
export function serviceNamed(name: string, annotations: Record<string, string> = {}): Service {
  return {
    metadata: {
      namespace: NAMESPACE,
      name,
      uid: `uid-of-${name}`,
      creationTimestamp: '2026-11-01T00:00:00Z',
      annotations: { 'gatehouse.dev/serving-cert-secret-name': 'db-tls', ...annotations },
    },
  };
}
