import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { resolveConfig } from '../../config/config.ts';
import type { KubeObject } from '../../json/kube-object.ts';
import { createClient } from '../../kube/client.ts';
import { systemClock } from '../../kube/clock.ts';
import { createMetrics } from '../../server/metrics/metrics.ts';
import { sendJson, startServer, status } from '../../../test/support/kube/fake-api-server.ts';
import { caBundle } from '../../pki/authority/authority.ts';
import type { CertificatePem } from '../../pki/x509/pem.ts';
import { firstAuthority } from '../../../test/support/pki/fixtures.ts';
import { containing, createEvents, silent } from '../../../test/support/runtime/fixtures.ts';
import type { LeaderContext } from '../controller.ts';
import { CLUSTER_TRUST_BUNDLES } from '../resources.ts';
import { createListeners } from '../listeners.ts';
import { createBundleSources } from './bundle-sources.ts';
import { findTrustBundles, reportIgnoredAnnotations, startInjection } from './start-injection.ts';
import type { Listing } from './target-store.ts';

const authority = await firstAuthority(new Date());

/** What `look` sees ten seconds later. */
function later<T>(look: () => T): T {
  const clock = vi.spyOn(performance, 'now').mockReturnValue(performance.now() + 10_000);
  const seen = look();
  clock.mockRestore();
  return seen;
}

/** @param answers of the API server to a list, by resource: the code of an error, or objects; otherwise it is empty */
async function startWith(
  answers: Readonly<Record<string, number | readonly KubeObject[]>>,
  trustBundles?: readonly KubeObject[],
  resolveKind: (kind: { readonly version: string }) => Promise<unknown> = () =>
    Promise.resolve(trustBundles && CLUSTER_TRUST_BUNDLES[0]),
  forget: (resource: unknown) => void = () => undefined,
) {
  const stop = new AbortController();
  onTestFinished(() => stop.abort());
  const server = await startServer(({ url }, response) => {
    const [version = '', resource = ''] = url.pathname.split('/').slice(-2);
    const code = answers[resource] ?? answers[version];
    if (typeof code === 'number')
      sendJson(response, status(code, code === 403 ? 'Forbidden' : 'NotFound'), code);
    else if (url.searchParams.get('watch') === 'true') response.writeHead(200).flushHeaders();
    else {
      const items = code ?? (resource === 'clustertrustbundles' ? (trustBundles ?? []) : []);
      sendJson(response, { metadata: { resourceVersion: '10' }, items });
    }
  });
  const rest = server.rest();
  const events = createEvents();
  let pem: CertificatePem | undefined;
  // The parts of the context that injection uses.
  const context = {
    rest,
    client: createClient(rest),
    rollbacks: createListeners<[]>(),
    metrics: createMetrics(),
    discovery: { resolveKind, forget },
    config: resolveConfig({}, {}),
    log: silent,
    record: events.record,
  } as unknown as LeaderContext;
  const hooks = { onEvidence: () => undefined, onUnreadable: () => undefined };
  const injection = startInjection(
    context,
    () => authority,
    () => pem,
    hooks,
    stop.signal,
  );
  const lagging = () => injection.targetsWithout(authority.generations[0]?.id ?? '');
  await expect.poll(lagging, { timeout: 5_000 }).toBeDefined();
  const unreadable = later(injection.unreadable);
  const setBundle = (bundle: CertificatePem) => (pem = bundle);
  const seen = { events, requests: server.requests };
  return { lagging: lagging(), unreadable, injection, context, signal: stop.signal, setBundle, ...seen };
}

const OWN = 'ConfigMap gatehouse-system/gatehouse-cabundle';

test('a target that waits for the CA bundle gets it with a resync', async () => {
  const { injection, setBundle, requests } = await startWith({}, []);
  const applied = () => requests.flatMap(({ method, url }) => (method === 'PATCH' ? [url] : []));
  expect(applied()).toEqual([]);
  setBundle(caBundle(authority, new Date()));
  injection.resync();
  await expect.poll(applied, { timeout: 5_000 }).toEqual([containing('/clustertrustbundles/')]);
});

test('an Event reports a ConfigMap that does not say correctly what it distributes', async () => {
  const annotations = { 'gatehouse.dev/distribute-to': '', 'gatehouse.dev/bundle-sources': 'other' };
  const configmaps = [{ metadata: { namespace: 'gatehouse-system', name: 'trust', annotations } }];
  const { events } = await startWith({ configmaps });
  const event = { regarding: { kind: 'ConfigMap', name: 'trust' }, reason: 'InvalidDistribution' };
  await expect.poll(() => events.all, { timeout: 5_000 }).toMatchObject([event]);
});

test('a source whose list fails for any reason is unusable after some seconds, and says why', async () => {
  const { context, signal } = await startWith({ secrets: 500 });
  const sources = createBundleSources(
    context,
    () => undefined,
    () => undefined,
    signal,
  );
  const ref = { kind: 'Secret', namespace: 'vault', name: 'ca' } as const;
  sources.keepOnly([{ namespace: undefined, ref }]);
  const request = { kind: 'object', ref, consent: { annotation: 'a', value: 'true' } } as const;
  const message = containing('Secret vault/ca cannot be read: ');
  await expect.poll(() => later(() => sources.bundle(request))).toMatchObject({ kind: 'unusable', message });
});

test('a source that does not exist is reported once it is known', async () => {
  const { context, signal } = await startWith({});
  const told: boolean[] = [];
  const onChange: Parameters<typeof createBundleSources>[2] = (isAffected) =>
    told.push(isAffected({ kind: 'api-server' }));
  const sources = createBundleSources(context, () => undefined, onChange, signal);
  const ref = { kind: 'Secret', namespace: 'vault', name: 'ca' } as const;
  sources.keepOnly([{ namespace: undefined, ref }]);
  await expect.poll(() => told, { timeout: 5_000 }).toContain(false); // not of all sources
});

test('a kind that cannot be listed counts as a target, and is reported', async () => {
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

describe('the ClusterTrustBundle', () => {
  const UNLISTED = 'all clustertrustbundles, which cannot be listed';

  test('that cannot be listed only delays a rotation, and is reported', async () => {
    const { lagging, unreadable } = await startWith({ clustertrustbundles: 403 }, []);
    expect(lagging).toEqual({ vetoing: [OWN], delaying: [UNLISTED] });
    expect(unreadable).toMatchObject([{ kind: 'ClusterTrustBundle', canVeto: false }]);
  });

  test('that cannot be discovered only delays a rotation after a minute, and is reported', async () => {
    const wait = setTimeout;
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
    onTestFinished(() => void vi.useRealTimers());
    const refused = async () => {
      // The lists are answered first: their timeouts are fake, too.
      wait(() => {
        if (vi.isFakeTimers()) vi.advanceTimersByTime(10_000);
      }, 100);
      return await Promise.reject(new Error('the proxy refuses it'));
    };
    const { lagging, unreadable } = await startWith({}, [], refused);
    expect(lagging?.vetoing).toEqual([OWN]);
    expect(lagging?.delaying).toContain(UNLISTED);
    const kind = { kind: 'ClusterTrustBundle', canVeto: false, problem: 'the proxy refuses it' };
    expect(unreadable).toEqual([kind]);
  });

  test('is published in another version when the API server stops serving the first one', async () => {
    const forgotten: unknown[] = [];
    const resolveKind = ({ version }: { readonly version: string }) =>
      Promise.resolve(CLUSTER_TRUST_BUNDLES[version === 'v1' && forgotten.length > 0 ? 0 : 1]);
    const forget = (resource: unknown) => void forgotten.push(resource);
    const { injection, ...first } = await startWith({ v1beta1: 404 }, [], resolveKind, forget);
    expect(first.lagging?.delaying).toEqual([]);
    const lagging = () => injection.targetsWithout(authority.generations[0]?.id ?? '')?.delaying;
    await expect.poll(lagging, { timeout: 5_000 }).toEqual(['ClusterTrustBundle gatehouse.dev:ca:bundle']);
    expect(forgotten).toEqual([CLUSTER_TRUST_BUNDLES[1]]);
  });
});

const TEN_MINUTES = 10 * 60_000;

/** Each answer: the versions of one search, or an Error if discovery fails. */
test.each<[string, readonly (readonly string[] | Error)[], string, readonly string[], readonly number[]]>([
  ['the newest version is used', [['v1alpha1', 'v1beta1', 'v1']], 'v1', [], []],
  ['an older version is used if there is none', [['v1alpha1']], 'v1alpha1', [], []],
  [
    'an API server without the kind is asked again every ten minutes',
    [[], [], ['v1']],
    'v1',
    ['not-served'],
    [TEN_MINUTES, TEN_MINUTES],
  ],
  ['a failed discovery is repeated soon', [new Error('away'), ['v1beta1']], 'v1beta1', [], [10_000]],
])('of the ClusterTrustBundle: %s', async (_what, answers, version, states, waits) => {
  let searches = -1;
  const found = { states: [] as string[], waits: [] as number[] };
  // Like the real one: the wanted version, or else the first one that is served.
  const resolveKind = ({ version: wanted }: { readonly version: string }) => {
    if (wanted === 'v1') searches += 1;
    const versions = answers[searches] ?? [];
    if (versions instanceof Error) return Promise.reject(versions);
    return Promise.resolve({ version: versions.includes(wanted) ? wanted : versions[0] });
  };
  const after = (ms: number, call: () => void) => {
    found.waits.push(ms);
    queueMicrotask(call);
    return () => undefined;
  };
  const context = { discovery: { resolveKind }, log: silent } as unknown as LeaderContext;
  const onSearch = ({ kind }: Listing) => void found.states.push(kind);
  const { signal } = new AbortController();
  const resource = await findTrustBundles(context, onSearch, signal, { ...systemClock, after });
  expect({ version: resource.version, ...found }).toEqual({ version, states, waits });
});

test('Events report at most a hundred Secrets whose annotations are ignored', async () => {
  const events = createEvents();
  const stop = new AbortController();
  const secret = (name: string, annotation: string) => ({
    kind: 'Secret',
    metadata: { namespace: 'shop', name, annotations: { [annotation]: 'true' } },
  });
  const items = [
    secret('fine', 'gatehouse.dev/allow-direct-injection'),
    ...Array.from({ length: 120 }, (_, index) => secret(`ca-${index}`, 'gatehouse.dev/inject-cabundle')),
  ];
  let pages = 0;
  const client = {
    pages: async function* () {
      for (; pages < 2; pages++)
        yield await Promise.resolve({ items: items.slice(pages * 70, pages * 70 + 70) });
    },
  };
  const context = { client, config: { without: [] }, record: events.record, log: silent } as never;
  const running = reportIgnoredAnnotations(context, stop.signal);
  await expect.poll(() => events.all.length).toBe(100);
  const regarding = { kind: 'Secret', namespace: 'shop', name: 'ca-0' };
  expect(events.all[0]).toMatchObject({ regarding, reason: 'AnnotationIgnored' });
  stop.abort();
  await expect(running).rejects.toThrow();
});
