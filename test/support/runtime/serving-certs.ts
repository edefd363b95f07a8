/** For the tests of serving certs: a cluster of Services and Secrets in memory, and a reconciler that looks after it. */
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
import { createEvents, createObjects, NEVER, silent, type Objects } from './fixtures.ts';
import type { Reconcile, ReconcileResult } from '../../../src/runtime/controller.ts';
import { createLeaves, type Leaves } from '../../../src/runtime/certificates/serving-certs-leaves.ts';
import {
  createServingCertsReconciler,
  type ServingCertsDeps,
} from '../../../src/runtime/certificates/serving-certs.ts';

export const NAMESPACE = 'prod';

export interface ServingCertsWorld {
  authority: Authority | undefined;
  now: Date;
  rules: RequestRules;
  readonly services: Map<string, Service>;
  readonly secrets: Objects<Secret>;
  readonly events: ReturnType<typeof createEvents>;
  readonly leaves: Leaves;
  /** What was asked of the API server and of the key generator. */
  readonly calls: { keys: number; reads: number; deletes: number; annotated: number };
  readonly observed: string[];
  /** Of Secrets that exist or existed. */
  readonly secretNames: Set<string>;
  /** With watches that are never late, unless `change` says otherwise. */
  readonly reconciler: (change?: Partial<ServingCertsDeps>) => Reconcile;
  readonly run: (service: string, change?: Partial<ServingCertsDeps>) => Promise<ReconcileResult>;
  readonly secret: (name: string) => Secret | undefined;
  readonly add: (service: Service) => void;
}

export function createWorld(authority: Authority, now: Date): ServingCertsWorld {
  const services = new Map<string, Service>();
  const secrets = createObjects<Secret>();
  const events = createEvents();
  const calls = { keys: 0, reads: 0, deletes: 0, annotated: 0 };
  const observed: string[] = [];
  const secretNames = new Set<string>();
  const keyOf = (name: string) => `${NAMESPACE}/${name}`;
  const stored = (key: string): StoredSecret | undefined => {
    const secret = secrets.read(key);
    return secret?.metadata?.labels?.['gatehouse.dev/serving-cert'] === 'true'
      ? toStoredSecret(secret)
      : undefined;
  };
  const allStored = () => [...secretNames].flatMap((name) => stored(keyOf(name)) ?? []);
  let steady: Reconcile | undefined;

  const world: ServingCertsWorld = {
    authority,
    now,
    rules: { clusterDomain: 'cluster.local', dnsSuffixes: [], openshift: false },
    services,
    secrets,
    events,
    calls,
    observed,
    secretNames,
    leaves: createLeaves({
      secrets: allStored,
      secret: stored,
      synced: () => true,
      authority: () => world.authority,
      now: () => world.now,
    }),
    secret: (name) => secrets.read(keyOf(name)),
    add: (service) => void services.set(keyOf(service.metadata?.name ?? ''), service),
    run: (name, change) => {
      steady ??= world.reconciler();
      return (change === undefined ? steady : world.reconciler(change))(keyOf(name), NEVER);
    },
    reconciler: (change = {}) =>
      createServingCertsReconciler({
        synced: () => true,
        service: (key) => services.get(key),
        readService: (_namespace, name) => Promise.resolve(services.get(keyOf(name))),
        request: (wanted) => servingCertRequest(wanted, world.rules),
        claimOf: (wanted) => claimed(wanted, world.rules),
        claimants: (secretKey) =>
          [...services.values()].filter(
            (one) => keyOf(claimed(one, world.rules)?.secretName ?? '') === secretKey,
          ),
        isClaimed: (secretKey) =>
          [...services.values()].some(
            (one) => keyOf(claimed(one, world.rules)?.secretName ?? '') === secretKey,
          ),
        secretNameOf: (wanted) => claimed(wanted, world.rules)?.secretName,
        storedSecret: stored,
        storedSecretsOf: (key) => allStored().filter((secret) => keyOf(markedService(secret) ?? '') === key),
        readSecret: (_namespace, name) => {
          calls.reads++;
          return Promise.resolve(secrets.read(keyOf(name)));
        },
        createSecret: async (secret) => {
          secretNames.add(secret.metadata?.name ?? '');
          if (secrets.read(keyOf(secret.metadata?.name ?? '')) !== undefined) return 'exists';
          return await secrets.create(secret);
        },
        replaceSecret: secrets.replace,
        deleteSecret: (secret) => {
          calls.deletes++;
          secrets.remove(keyOf(secret.metadata?.name ?? ''));
          return Promise.resolve();
        },
        annotateService: (service, annotations) => {
          calls.annotated++;
          world.add(annotated(service, annotations));
          return Promise.resolve();
        },
        onRemoval: 'retain',
        get openshift() {
          return world.rules.openshift;
        },
        authority: () => world.authority,
        leaves: world.leaves,
        pacer: { take: () => true, forget: () => undefined },
        clockProblem: () => undefined,
        generateKeyPair: (algorithm) => {
          calls.keys++;
          return generateKeyPair(algorithm);
        },
        randomSerial,
        record: events.record,
        observe: (result, reason) => void observed.push(`${result} ${reason}`),
        now: () => world.now,
        log: silent,
        ...change,
      }),
  };
  return world;
}

function claimed(service: Service, rules: RequestRules) {
  const claim = claimOf(service, rules);
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

/** A Service that asks for the Secret `db-tls`, unless `annotations` says otherwise. */
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
