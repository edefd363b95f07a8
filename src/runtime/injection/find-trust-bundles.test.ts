import { pino } from 'pino';
import { expect, test } from 'vitest';

import { systemClock } from '../../kube/clock.ts';
import type { Resource } from '../../kube/object.ts';
import { findTrustBundles } from './find-trust-bundles.ts';

const kind = { group: 'certificates.k8s.io', kind: 'ClusterTrustBundle' };
const served = (version: string): Resource => ({
  ...kind,
  version,
  resource: 'clustertrustbundles',
  namespaced: false,
});

/** @param answers one set of served versions for each search; an Error: discovery fails */
async function find(...answers: readonly (readonly string[] | Error)[]) {
  let searches = -1;
  let absent = 0;
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
  const onAbsent = () => void (absent += 1);
  const { signal } = new AbortController();
  const { version } = await findTrustBundles(context, onAbsent, signal, { ...systemClock, after });
  return { version, absent, waits };
}

test.each([
  [['v1', 'v1beta1'], 'v1'],
  [['v1beta1', 'v1'], 'v1'],
  [['v1beta1', 'v1alpha1'], 'v1beta1'],
])('of the versions %j, %s is used', async (versions, version) => {
  expect(await find(versions)).toEqual({ version, absent: 0, waits: [] });
});

test('an API server that does not serve the kind, or only in v1alpha1, is asked again every ten minutes', async () => {
  const minutes = 60_000;
  expect(await find([], ['v1alpha1'], ['v1'])).toEqual({
    version: 'v1',
    absent: 1,
    waits: [10 * minutes, 10 * minutes],
  });
});

test('a failed discovery is no answer, and is repeated soon', async () => {
  expect(await find(new Error('etcd is away'), ['v1beta1'])).toEqual({
    version: 'v1beta1',
    absent: 0,
    waits: [10_000],
  });
});
