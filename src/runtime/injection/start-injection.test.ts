import { pino } from 'pino';
import { describe, expect, onTestFinished, test, vi } from 'vitest';

import { resolveConfig } from '../../config/config.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import { createClient } from '../../kube/client.ts';
import { caBundle } from '../../pki/authority/bundle.ts';
import { admitSources } from '../../pki/injection/source.ts';
import { createMetrics } from '../../server/metrics/metrics.ts';
import { sendJson, startServer, status } from '../../../test/support/kube/fake-api-server.ts';
import { firstAuthority } from '../../../test/support/pki/fixtures.ts';
import { containing, createEvents } from '../../../test/support/runtime/fixtures.ts';
import type { LeaderContext } from '../controller.ts';
import { CLUSTER_TRUST_BUNDLES } from '../resources.ts';
import { createListeners } from '../listeners.ts';
import { startInjection } from './start-injection.ts';

vi.mock('../../pki/injection/source.ts', { spy: true });

const authority = await firstAuthority(new Date());

/** @param codes how the API server answers a list, by resource; otherwise the list is empty */
async function startWith(
  codes: Readonly<Record<string, number>>,
  trustBundles?: readonly KubeObject[],
  resolveKind: (kind: { readonly version: string }) => Promise<unknown> = () =>
    Promise.resolve(trustBundles && CLUSTER_TRUST_BUNDLES[0]),
  objects: Readonly<Record<string, readonly KubeObject[]>> = {},
  forget: (resource: unknown) => void = () => undefined,
) {
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  const server = await startServer(({ url }, response) => {
    const [version = '', resource = ''] = url.pathname.split('/').slice(-2);
    const code = codes[resource] ?? codes[version];
    if (code !== undefined) sendJson(response, status(code, code === 403 ? 'Forbidden' : 'NotFound'), code);
    else if (url.searchParams.get('watch') === 'true') response.writeHead(200).flushHeaders();
    else {
      const items = resource === 'clustertrustbundles' ? trustBundles : objects[resource];
      sendJson(response, { metadata: { resourceVersion: '10' }, items: items ?? [] });
    }
  });
  const rest = server.rest();
  // The parts of the context that injection uses.
  const context = {
    ...{ rest, client: createClient(rest), rollbacks: createListeners<[]>(), metrics: createMetrics() },
    discovery: { resolveKind, forget },
    ...{ config: resolveConfig({}, {}), log: pino({ level: 'silent' }), record: createEvents().record },
  } as unknown as LeaderContext;
  const hooks = { onEvidence: () => undefined, onUnreadable: () => undefined };
  const injection = startInjection(
    context,
    () => authority,
    () => undefined,
    hooks,
    stop.signal,
  );
  const lagging = () => injection.targetsWithout(authority.generations[0]?.id ?? '');
  await expect.poll(lagging, { timeout: 5_000 }).toBeDefined();
  const later = vi.spyOn(performance, 'now').mockReturnValue(performance.now() + 10_000);
  const unreadable = injection.unreadable();
  later.mockRestore();
  return { lagging: lagging(), unreadable, injection };
}

const OWN = 'ConfigMap gatehouse-system/gatehouse-cabundle';

test('a kind that the API server does not serve has no targets', async () => {
  const { lagging, unreadable } = await startWith({ apiservices: 404 });
  expect(lagging).toEqual({ vetoing: [OWN], delaying: [] });
  expect(unreadable).toEqual([]);
});

test('a kind that may not be listed counts as a target, and is reported', async () => {
  const { lagging, unreadable } = await startWith({ apiservices: 403, configmaps: 403 });
  expect(lagging).toEqual({
    vetoing: ['all apiservices, which cannot be listed', OWN],
    delaying: ['all configmaps, which cannot be listed'],
  });
  expect(unreadable).toMatchObject([
    { kind: 'APIService', canVeto: true },
    { kind: 'ConfigMap', canVeto: false, problem: containing('Forbidden') },
  ]);
});

test('one pass admits the sources of all targets of a first list', async () => {
  const annotations = { 'gatehouse.dev/inject-cabundle-from': 'vault/ca' };
  const items = Array.from({ length: 40 }, (_, index) => ({
    metadata: { name: `hooks-${index}`, resourceVersion: '9', annotations },
  }));
  vi.mocked(admitSources).mockClear();
  await startWith({}, undefined, undefined, { validatingwebhookconfigurations: items });
  await expect.poll(() => vi.mocked(admitSources).mock.calls.length).toBeGreaterThan(0);
  expect(vi.mocked(admitSources).mock.calls.length).toBeLessThanOrEqual(2);
});

describe('the ClusterTrustBundle', () => {
  const published = (trustBundle: string, name = 'gatehouse.dev:ca:bundle'): KubeObject =>
    ({ metadata: { name, resourceVersion: '9' }, spec: { trustBundle } }) as KubeObject;

  test('holds up a rotation until it has the new root', async () => {
    const { lagging } = await startWith({}, [published('')]);
    expect(lagging?.vetoing).toEqual([OWN, 'ClusterTrustBundle gatehouse.dev:ca:bundle']);
    const current = await startWith({}, [published(caBundle(authority, new Date()))]);
    expect(current.lagging).toEqual({ vetoing: [OWN], delaying: [] });
  });

  test('has no veto until it is published: the API server may refuse it forever', async () => {
    const { lagging } = await startWith({}, []);
    expect(lagging).toEqual({ vetoing: [OWN], delaying: ['ClusterTrustBundle gatehouse.dev:ca:bundle'] });
  });

  test('that may not be listed only delays a rotation, and is reported', async () => {
    const { lagging, unreadable } = await startWith({ clustertrustbundles: 403 }, []);
    expect(lagging).toEqual({
      vetoing: [OWN],
      delaying: ['all clustertrustbundles, which cannot be listed'],
    });
    expect(unreadable).toMatchObject([{ kind: 'ClusterTrustBundle', canVeto: false }]);
  });

  test('that cannot be discovered only delays a rotation after a minute, and is reported', async () => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const refused = async () => {
      setImmediate(() => {
        if (vi.isFakeTimers()) vi.advanceTimersByTime(10_000);
      });
      return await Promise.reject(new Error('the proxy refuses it'));
    };
    const { lagging, unreadable } = await startWith({}, [], refused);
    expect(lagging?.vetoing).toEqual([OWN]);
    expect(lagging?.delaying).toContain('all clustertrustbundles, which cannot be listed');
    const kind = { kind: 'ClusterTrustBundle', canVeto: false, problem: 'the proxy refuses it' };
    expect(unreadable).toEqual([kind]);
  });

  test('is published in another version when the API server no longer serves the first one', async () => {
    const forgotten: unknown[] = [];
    const resolveKind = ({ version }: { readonly version: string }) =>
      Promise.resolve(CLUSTER_TRUST_BUNDLES[version === 'v1' && forgotten.length > 0 ? 0 : 1]);
    const forget = (resource: unknown) => void forgotten.push(resource);
    const { injection, ...first } = await startWith({ v1beta1: 404 }, [], resolveKind, {}, forget);
    expect(first.lagging?.delaying).toEqual([]);
    const lagging = () => injection.targetsWithout(authority.generations[0]?.id ?? '')?.delaying;
    await expect.poll(lagging, { timeout: 5_000 }).toEqual(['ClusterTrustBundle gatehouse.dev:ca:bundle']);
    expect(forgotten).toEqual([CLUSTER_TRUST_BUNDLES[1]]);
  });
});
