/** Readings of a healthy cluster for `gatehouse status` and the status page. */
import type { AdmissionPolicy } from '../../../src/api/admission-policy.ts';
import type { RestoreWindow } from '../../../src/api/restore-window.ts';
import { CABUNDLE_CONFIGMAP, INJECT_CABUNDLE } from '../../../src/pki/annotations.ts';
import { toSecretData } from '../../../src/pki/authority/secret.ts';
import { type Authority, caBundle } from '../../../src/pki/authority/authority.ts';
import { after, DAY, HOUR } from '../../../src/pki/durations.ts';
import { base64, firstAuthority, type Server, serverOf } from '../pki/fixtures.ts';
import { type RawTarget, TARGET_KINDS } from '../../../src/pki/injection/target.ts';
import { type StoredSecret, toStoredSecret } from '../../../src/pki/serving-certs/facts.ts';
import type { ClusterReadings } from '../../../src/cli/inspect/read-cluster/read-cluster.ts';
import { read, type Reading } from '../../../src/cli/inspect/read-cluster/reading.ts';

export { read };

export const NOW = new Date('2026-03-01T12:00:00.000Z');
export const at = (milliseconds: number): string => after(NOW, milliseconds).toISOString();
export const REPORT_CONTEXT = {
  server: 'https://api.example.com',
  version: 'v1.36.0',
  namespace: 'gatehouse-system',
  compat: [],
  now: NOW,
} as const;

export const FORBIDDEN: Reading<never> = {
  kind: 'unread',
  reason: 'Forbidden',
  message: 'alice lacks permission',
  permission: { verb: 'get', resource: 'secrets' },
};

/** Created an hour before {@link NOW}, once for all tests: key generation is slow. */
export const authority: Authority = await firstAuthority(after(NOW, -HOUR));
export const stranger: Authority = await firstAuthority(after(NOW, -HOUR));
export const serving: Server = await serverOf(authority, after(NOW, -HOUR));
export const bundle = caBundle(authority, NOW);

export function servingSecret(name: string, server: Server): StoredSecret {
  return toStoredSecret({
    metadata: {
      namespace: 'prod',
      name,
      annotations: {
        'gatehouse.dev/serving-cert-service': 'db',
        'gatehouse.dev/serving-cert-service-uid': 'some-uid',
        'gatehouse.dev/serving-cert-secret': `prod/${name}`,
      },
    },
    type: 'kubernetes.io/tls',
    data: { 'tls.crt': base64(server.chain), 'tls.key': base64(server.privateKey) },
  });
}

export function webhookConfiguration(name: string, change: Partial<RawTarget> = {}): RawTarget {
  return {
    metadata: { name, annotations: { [INJECT_CABUNDLE]: 'true' } },
    webhooks: [{ name: 'one.example.com', clientConfig: { service: {}, caBundle: base64(bundle) } }],
    ...change,
  };
}

export const validating = (...objects: readonly RawTarget[]): Pick<ClusterReadings, 'targets'> => ({
  targets: [{ kind: TARGET_KINDS.validating, objects: read(objects) }],
});

type Conditions = NonNullable<NonNullable<AdmissionPolicy['status']>['conditions']>;

export function policy(ready: Partial<Conditions[number]> = {}): AdmissionPolicy {
  const condition = (type: string): Conditions[number] => ({
    type,
    status: 'True',
    reason: 'Fine',
    message: 'fine',
    observedGeneration: 3,
    lastTransitionTime: at(-HOUR),
  });
  return {
    metadata: { name: 'servers', generation: 3 },
    // The report does not use the rules.
    spec: { enforcement: 'Warn' } as unknown as AdmissionPolicy['spec'],
    status: {
      violations: { total: 4, checkedAt: at(-HOUR) },
      conditions: [{ ...condition('Ready'), ...ready }, condition('WebhooksInstalled')],
    },
  };
}

export function restoreWindow(
  phase: NonNullable<RestoreWindow['status']>['phase'],
  expiresAt: string,
): RestoreWindow {
  return {
    metadata: { name: 'drill', creationTimestamp: at(-2 * HOUR) },
    spec: { principals: [{ user: 'velero' }], expiresAt },
    status: { ...(phase === undefined ? {} : { phase }), violations: { total: 2, items: [] } },
  };
}

export const healthy: ClusterReadings = {
  restrictions: { without: [], namespaces: undefined, compat: [] },
  compat: [],
  misplaced: [],
  lease: read({
    spec: {
      holderIdentity: 'gatehouse-a',
      acquireTime: at(-DAY),
      renewTime: at(-2_000),
      leaseDurationSeconds: 15,
    },
  }),
  pods: read([
    {
      metadata: { name: 'gatehouse-a' },
      status: { conditions: [{ type: 'Ready', status: 'True' }], containerStatuses: [{ restartCount: 1 }] },
    },
  ]),
  authority: read({ data: toSecretData(authority) }),
  servedCerts: read(undefined),
  userControllers: read(undefined),
  caBundle: read({
    metadata: { namespace: 'gatehouse-system', name: CABUNDLE_CONFIGMAP },
    data: { 'ca.crt': bundle },
  }),
  propagationWaitMs: 600_000,
  servingSecrets: read([servingSecret('db-tls', serving)]),
  services: read([]),
  ...validating(webhookConfiguration('third-party')),
  sources: new Map(),
  policies: read([policy()]),
  windows: read([restoreWindow('Open', at(HOUR)), restoreWindow('Completed', at(-HOUR))]),
};

/** Part of each private key in PEM: as text, and in the three forms that base64 gives it. */
export const PRIVATE_KEY: readonly string[] = [
  'PRIVATE KEY',
  ...['', 'x', 'xx'].map((before) => Buffer.from(`${before}PRIVATE KEY`).toString('base64').slice(4, 12)),
];
