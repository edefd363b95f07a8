import { beforeEach, describe, expect, test } from 'vitest';

import {
  ApiError,
  createCluster,
  NEVER,
  OWN_NAMESPACE,
  type Cluster,
} from '../../../test/support/runtime/fixtures.ts';
import type { LiveWebhook, LiveWebhookConfiguration } from '../../admission/webhooks/dev-entries.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import type { Resource } from '../../kube/object.ts';
import {
  endpointSlices,
  mutatingWebhookConfigurations,
  services,
  validatingWebhookConfigurations,
} from '../../kube/well-known.ts';
import type { EndpointSlice } from '../endpoints/slices.ts';
import { createFirstInstallation, servingObstacle } from './installation.ts';

const PLACE = { namespace: OWN_NAMESPACE, service: 'gatehouse' };
const TARGET = { namespace: OWN_NAMESPACE, name: 'gatehouse', port: 443 };

let cluster: Cluster;
beforeEach(() => {
  cluster = createCluster();
});

describe('whether a replica can serve', () => {
  const addService = (spec: object) => {
    const service = { metadata: { namespace: OWN_NAMESPACE, name: 'gatehouse' }, spec };
    cluster.objects<KubeObject & { spec: object }>(services).add(service);
  };
  const addSlice = (service: string, ...conditions: readonly { readonly ready?: boolean }[]) => {
    cluster.objects<EndpointSlice>(endpointSlices).add({
      metadata: {
        ...{ namespace: OWN_NAMESPACE, name: `${service}-slice` },
        labels: { 'kubernetes.io/service-name': service },
      },
      endpoints: conditions.map((one) => ({ conditions: one })),
    });
  };
  const obstacle = () => servingObstacle(cluster.client, PLACE, NEVER);

  test('not without the Service, which the message names', async () => {
    expect(await obstacle()).toContain(`Service ${OWN_NAMESPACE}/gatehouse does not exist`);
  });

  test.each([
    ['a Service without selector leads elsewhere', { ports: [] }],
    ['so does an ExternalName', { type: 'ExternalName', selector: { app: 'gatehouse' } }],
  ])('%s', async (_what, spec) => {
    addService(spec);
    expect(await obstacle()).toBeUndefined();
  });

  describe('with a selector', () => {
    beforeEach(() => {
      addService({ type: 'ClusterIP', selector: { app: 'gatehouse' } });
    });

    test.each([
      ['no endpoint', undefined, false],
      ['no ready endpoint', [{ ready: false }], false],
      ['one ready endpoint', [{ ready: false }, { ready: true }], true],
      ['an endpoint whose readiness is unknown, which counts as ready', [{}], true],
    ])('%s', async (_what, conditions, expected) => {
      addSlice('another', { ready: true });
      if (conditions !== undefined) addSlice('gatehouse', ...conditions);
      expect((await obstacle()) === undefined).toBe(expected);
      if (!expected) expect(await obstacle()).toContain('no ready endpoint');
    });

    test('a missing permission is a reason to wait', async () => {
      const listAll = () => Promise.reject(new ApiError(403, 'forbidden'));
      const client = { ...cluster.client, listAll };
      expect(await servingObstacle(client, PLACE, NEVER)).toContain('may not list the EndpointSlices');
    });
  });
});

describe('the first installation', () => {
  let problem: string | undefined;
  let asked: number;
  const gate = () =>
    createFirstInstallation(cluster.client, TARGET, () => {
      asked += 1;
      return Promise.resolve(problem);
    });
  const install = (
    kind: Resource,
    failurePolicy: 'Fail' | 'Ignore',
    clientConfig: object = { service: TARGET },
  ) => {
    const webhooks = [{ name: 'w', failurePolicy, clientConfig }] as unknown as readonly LiveWebhook[]; // the parts that count
    cluster.objects<LiveWebhookConfiguration>(kind).add({ metadata: { name: 'gatehouse' }, webhooks });
  };
  beforeEach(() => {
    problem = 'no replica';
    asked = 0;
  });

  test('waits until a replica can serve, and never again', async () => {
    const waitsFor = gate();
    expect(await waitsFor(NEVER)).toBe('no replica');
    problem = undefined;
    expect(await waitsFor(NEVER)).toBeUndefined();
    problem = 'no replica';
    expect(await waitsFor(NEVER)).toBeUndefined();
    expect(asked).toBe(2);
  });

  test.each([mutatingWebhookConfigurations, validatingWebhookConfigurations])(
    'is over if $kind has an entry that fails closed: entries never wait while replicas are away',
    async (kind) => {
      install(kind, 'Fail');
      expect(await gate()(NEVER)).toBeUndefined();
      expect(asked).toBe(0);
    },
  );

  test.each([
    ['another namespace', { service: { ...TARGET, namespace: 'other' } }],
    ['another Service', { service: { ...TARGET, name: 'other' } }],
    ['another port', { service: { ...TARGET, port: 8443 } }],
    ['a URL', { url: 'https://192.0.2.1' }],
  ])('is not over if the entries lead to %s: they stay until the target serves', async (_what, elsewhere) => {
    install(validatingWebhookConfigurations, 'Fail', elsewhere);
    expect(await gate()(NEVER)).toBe('no replica');
  });

  test('is not over if all entries fail open', async () => {
    install(validatingWebhookConfigurations, 'Ignore');
    expect(await gate()(NEVER)).toBe('no replica');
  });
});
