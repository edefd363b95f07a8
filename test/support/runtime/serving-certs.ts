/** For serving cert tests: Services and Secrets in memory, and their reconciler. */
import { X509Certificate } from 'node:crypto';
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
import { secrets as SECRETS } from '../../../src/kube/well-known.ts';
import { createCertInventory } from '../../../src/runtime/certificates/serving-cert-stores.ts';
import {
  createContendedSecrets,
  type ServingCertsContext,
} from '../../../src/runtime/certificates/serving-cert-task.ts';
import { createServingCertsReconciler } from '../../../src/runtime/certificates/serving-certs.ts';
import type { Reconcile, ReconcileResult } from '../../../src/runtime/controller.ts';
import { ApiError, createEvents, createObjects, NEVER, silent } from './fixtures.ts';

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
  const services = new Map<string, Service>();
  const secrets = createObjects<Secret>();
  const events = createEvents();
  const calls = { keys: 0, reads: 0, deletes: 0, annotated: 0 };
  const observed: string[] = [];
  const keyOf = (name: string) => `${NAMESPACE}/${name}`;
  const isServing = ({ metadata }: Secret) => metadata?.labels?.['gatehouse.dev/serving-cert'] === 'true';
  const stored = (key: string): StoredSecret | undefined => {
    const secret = secrets.read(key);
    return secret !== undefined && isServing(secret) ? toStoredSecret(secret) : undefined;
  };
  const allStored = () => secrets.list().filter(isServing).map(toStoredSecret);
  const add = (service: Service) => void services.set(keyOf(service.metadata?.name ?? ''), service);
  let steady: Reconcile | undefined;

  const client = {
    get: ({ resource }: Resource, { name }: NamedRef) => {
      if (resource !== SECRETS.resource) return Promise.resolve(services.get(keyOf(name)) as never);
      calls.reads++;
      return Promise.resolve(secrets.read(keyOf(name)) as never);
    },
    create: (_resource: Resource, secret: Secret) => {
      const exists = secrets.read(keyOf(secret.metadata?.name ?? '')) !== undefined;
      if (exists) return Promise.reject(new ApiError(409, 'already exists', 'AlreadyExists'));
      return secrets.create(secret) as Promise<never>;
    },
    replace: (_resource: Resource, secret: Secret) => secrets.replace(secret) as Promise<never>,
    delete: (_resource: Resource, { name }: NamedRef) => {
      calls.deletes++;
      secrets.remove(keyOf(name));
      return Promise.resolve('deleted' as const);
    },
    patchMerge: (_resource: Resource, { name }: NamedRef, patch: object) => {
      calls.annotated++;
      const service = services.get(keyOf(name));
      const { metadata } = patch as { metadata: { annotations: Record<string, string | null> } };
      if (service !== undefined) add(annotated(service, metadata.annotations));
      return Promise.resolve(service as never);
    },
  };
  const stores = {
    synced: () => true,
    service: (key: string) => services.get(key),
    claimants: (secretKey: string) =>
      [...services.values()].filter((one) =>
        requests.claims(one).some(({ secretName }) => keyOf(secretName) === secretKey),
      ),
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
  return Object.assign(state, { ...world, secret, file, leaf, add });
}

function claimed(service: Service, rules: RequestRules, purpose?: LeafPurpose) {
  const claim = claimOf(service, rules, purpose);
  const { name = '', uid = '', creationTimestamp } = service.metadata ?? {};
  return claim && { secretName: claim.secretName, name, uid, createdAt: creationTimestamp, own: false };
}

function annotated(service: Service, change: Readonly<Record<string, string | null>>): Service {
  const merged: Record<string, string | null> = { ...service.metadata?.annotations, ...change };
  const annotations = Object.fromEntries(
    Object.entries(merged).flatMap(([name, value]) => (value === null ? [] : [[name, value] as const])),
  );
  return { ...service, metadata: { ...service.metadata, annotations } };
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
