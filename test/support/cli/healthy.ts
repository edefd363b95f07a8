/** Readings of a healthy cluster for `gatehouse doctor`; each test changes one of them. */
import { installationOwner } from '../../../src/admission/webhooks/installation-owner.ts';
import { customResourceDefinitions } from '../../../src/api/crds.ts';
import { toSecretData } from '../../../src/pki/authority/secret.ts';
import { caBundle } from '../../../src/pki/authority/authority.ts';
import type {
  Definition,
  InstallationReadings,
  LiveConfiguration,
} from '../../../src/cli/inspect/read-cluster/read-installation.ts';
import { read } from '../../../src/cli/inspect/read-cluster/reading.ts';
import { healthy as cluster } from './readings.ts';
import { base64, firstAuthority, serverOf } from '../pki/fixtures.ts';

export const NOW = new Date('2026-11-22T12:00:00Z');
export const ago = (minutes: number): string => new Date(NOW.getTime() - minutes * 60_000).toISOString();

export const authority = await firstAuthority(NOW);
export const bundle = caBundle(authority, NOW);
export const foreignBundle = caBundle(await firstAuthority(NOW), NOW);
const { chain } = await serverOf(authority, NOW);

export const configuration = (pem: string, change: object = {}): LiveConfiguration => ({
  metadata: { name: 'gatehouse', ownerReferences: [installationOwner('r')] },
  webhooks: [
    {
      name: 'own-opening.mutate.gatehouse.dev',
      clientConfig: { service: {}, caBundle: base64(pem) },
      failurePolicy: 'Fail',
    },
  ],
  ...change,
});

export const published = (pem: string): InstallationReadings['caBundle'] => read({ data: { 'ca.crt': pem } });

export const deploymentWith = (
  args: readonly string[],
  env: readonly { readonly name: string }[] = [],
  readyReplicas = 2,
  { replicas = 2, ...status }: Readonly<Record<string, unknown>> & { readonly replicas?: number } = {},
) => ({
  spec: { replicas, template: { spec: { containers: [{ args, env }] } } },
  status: { readyReplicas, updatedReplicas: 2, ...status },
});

export const definitions: ReadonlyMap<string, Definition> = new Map(
  customResourceDefinitions().map(({ manifest }) => {
    const definition = manifest as Definition; // `api/crds.ts` generates this type
    const established = { type: 'Established', status: 'True', message: '' } as const;
    return [definition.metadata?.name ?? '', { ...definition, status: { conditions: [established] } }];
  }),
);

export const account = (
  serviceAccount: string,
  readings: Partial<InstallationReadings['accounts'][number]> = {},
): InstallationReadings['accounts'][number] => ({
  serviceAccount,
  access: read({ checked: 90, missing: [] }),
  governed: read({ checked: 2, missing: [] }),
  ...readings,
});

export const healthy: InstallationReadings = {
  ...cluster,
  now: NOW,
  version: { major: 1, minor: 36, gitVersion: 'v1.36.2' },
  skewMs: 400,
  namespace: 'gatehouse-system',
  definitions: read(definitions),
  controllers: 'gatehouse-controllers',
  accounts: ['gatehouse-webhook', 'gatehouse-controllers'].map((name) => account(name)),
  restarts: read({ checked: 1, missing: [] }),
  service: read({ spec: { type: 'ClusterIP', ports: [{ port: 443, targetPort: 'webhooks' }] } }),
  slices: read([
    { endpoints: [{ addresses: ['10.0.0.1'], conditions: { ready: true } }], ports: [{ port: 8443 }] },
  ]),
  deployments: read(
    new Map([
      ['gatehouse-webhook', deploymentWith(['webhook', '--client-ca=/ca.crt'])],
      ['gatehouse-controllers', deploymentWith(['controllers'])],
    ]),
  ),
  mutating: read(configuration(bundle)),
  validating: read(configuration(bundle)),
  probe: read({ kind: 'reached' }),
  caBundle: published(bundle),
  authority: read({ data: toSecretData(authority) }),
  servingSecrets: read([]),
  targets: [],
  chain: read(chain),
  converted: read([]),
  finalized: [],
  lease: read({ spec: { holderIdentity: 'one', leaseDurationSeconds: 15, renewTime: ago(0.1) } }),
  managed: [read([{ kind: 'MutatingWebhookConfiguration', metadata: { name: 'gatehouse' } }])],
  policies: read([]),
  conversions: read([]),
  detectors: read([]),
  exceptions: read([]),
  windows: read([]),
};
