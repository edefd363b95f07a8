/** A cluster in which nothing is wrong: tests change one thing of it. */
import { customResourceDefinitions } from '../../../src/api/crds.ts';
import { caBundle } from '../../../src/pki/authority/bundle.ts';
import { base64, firstAuthority, serverOf } from '../pki/fixtures.ts';
import type { Definition, Evidence, LiveConfiguration } from '../../../src/cli/inspect/doctor/evidence.ts';
import { seen } from '../../../src/cli/inspect/doctor/look.ts';

export const NOW = new Date('2026-11-22T12:00:00Z');
export const ago = (minutes: number): string => new Date(NOW.getTime() - minutes * 60_000).toISOString();

export const authority = await firstAuthority(NOW);
/** The CA bundle as Gatehouse publishes it, and one of somebody else. */
export const bundle = caBundle(authority, NOW);
export const foreignBundle = caBundle(await firstAuthority(NOW), NOW);
const { chain } = await serverOf(authority, NOW);

export const configuration = (pem: string, change: object = {}): LiveConfiguration => ({
  metadata: { name: 'gatehouse' },
  webhooks: [
    {
      name: 'own-opening.mutate.gatehouse.dev',
      clientConfig: { service: {}, caBundle: base64(pem) },
      failurePolicy: 'Fail',
    },
  ],
  ...change,
});

/** As the API server shows them, by name. */
export const definitions: ReadonlyMap<string, Definition> = new Map(
  customResourceDefinitions().map(({ manifest }) => {
    const definition = manifest as Definition; // the shape that `api/crds.ts` makes
    const established = { type: 'Established', status: 'True', message: '' } as const;
    return [definition.metadata?.name ?? '', { ...definition, status: { conditions: [established] } }];
  }),
);

export const healthy: Evidence = {
  now: NOW,
  skewMs: 400,
  namespace: 'gatehouse-system',
  serviceAccount: 'gatehouse',
  definitions: seen(definitions),
  access: seen({ asked: 90, refused: [] }),
  governed: seen({ asked: 2, refused: [] }),
  service: seen({ spec: { type: 'ClusterIP', ports: [{ port: 443, targetPort: 'webhooks' }] } }),
  slices: seen([
    { endpoints: [{ addresses: ['10.0.0.1'], conditions: { ready: true } }], ports: [{ port: 8443 }] },
  ]),
  mutating: seen(configuration(bundle)),
  validating: seen(configuration(bundle)),
  probe: seen({ kind: 'answered' }),
  bundle: seen(bundle),
  chain: seen(chain),
  converted: seen([]),
  lease: seen({ spec: { holderIdentity: 'one', leaseDurationSeconds: 15, renewTime: ago(0.1) } }),
  claimed: [seen([{ kind: 'MutatingWebhookConfiguration', metadata: { name: 'gatehouse' } }])],
  policies: seen([]),
  conversions: seen([]),
  detectors: seen([]),
  windows: seen([]),
};
