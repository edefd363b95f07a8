import { pino } from 'pino';
import { expect, test } from 'vitest';

import { systemClock } from '../../kube/clock.ts';
import type { Resource } from '../../kube/object.ts';
import { findTrustBundles } from './start-injection.ts';
import type { Listing } from './target-store.ts';

const kind = { group: 'certificates.k8s.io', kind: 'ClusterTrustBundle' };
const served = (version: string): Resource => ({
  ...kind,
  version,
  resource: 'clustertrustbundles',
  namespaced: false,
});

/** The versions that one search finds; an Error: discovery fails. */
type Answer = readonly string[] | Error;

async function find(...answers: readonly Answer[]) {
  let searches = -1;
  const states: string[] = [];
  const waits: number[] = [];
  const discovery = {
    // Like the real one: the wanted version, or else the first one that is served.
    resolveKind: ({ version }: { readonly version: string }) => {
      if (version === 'v1') searches += 1;
      const versions = answers[searches] ?? [];
      if (versions instanceof Error) return Promise.reject(versions);
      const found = versions.includes(version) ? version : versions[0];
      return Promise.resolve(found === undefined ? undefined : served(found));
    },
  };
  const after = (ms: number, call: () => void) => {
    waits.push(ms);
    queueMicrotask(call);
    return () => undefined;
  };
  const context = { discovery, log: pino({ level: 'silent' }) } as unknown as Parameters<
    typeof findTrustBundles
  >[0];
  const onSearch = ({ kind }: Listing) => void states.push(kind);
  const { signal } = new AbortController();
  const { version } = await findTrustBundles(context, onSearch, signal, { ...systemClock, after });
  return { version, states, waits };
}

test.each([
  [['v1', 'v1beta1'], 'v1'],
  [['v1beta1', 'v1'], 'v1'],
  [['v1beta1', 'v1alpha1'], 'v1beta1'],
  [['v1alpha1'], 'v1alpha1'],
])('of the versions %j, %s is used', async (versions, version) => {
  expect(await find(versions)).toEqual({ version, states: [], waits: [] });
});

const TEN_MINUTES = 10 * 60_000;

test.each<[string, readonly Answer[], object]>([
  [
    'an API server that does not serve the kind is asked again every ten minutes',
    [[], [], ['v1']],
    { version: 'v1', states: ['not-served'], waits: [TEN_MINUTES, TEN_MINUTES] },
  ],
  [
    'a failed discovery is no answer, and is repeated soon',
    [new Error('etcd is away'), ['v1beta1']],
    { version: 'v1beta1', states: [], waits: [10_000] },
  ],
])('%s', async (_what, answers, expected) => {
  expect(await find(...answers)).toEqual(expected);
});

test('a discovery that keeps failing is reported once after a minute, and the search goes on', async () => {
  const failures = Array.from({ length: 10 }, () => new Error('forbidden'));
  const { version, states } = await find(...failures, [], ['v1']);
  expect(version).toBe('v1');
  expect(states).toEqual(['failed', 'not-served']);
});
