import { ApiError, containing, NEVER, silent } from '../../../test/support/runtime/fixtures.ts';
import { expect, test, vi } from 'vitest';
import type { KubeObject } from '../../json/kube-object.ts';
import { caBundle } from '../../pki/authority/authority.ts';
import { distributionOf, type DistributionSource } from '../../pki/injection/distribution.ts';
import { firstAuthority } from '../../../test/support/pki/fixtures.ts';
import { createCopyReconciler, type CopyContext, type CopyTrust, type Order } from './distribute.ts';

const pem = caBundle(await firstAuthority(new Date()), new Date());

const MARK = 'gatehouse.dev/distributed-bundle';
const annotations = { 'gatehouse.dev/distribute-to': '' };
const SOURCE: DistributionSource = {
  metadata: { namespace: 'gatehouse-system', name: 'trust', annotations },
};
const copy = (text: string, place = 'shop/trust'): DistributionSource => ({
  metadata: {
    namespace: 'shop',
    name: 'trust',
    uid: 'u',
    resourceVersion: '7',
    labels: { [MARK]: 'true' },
    annotations: { [MARK]: place },
  },
  data: { 'ca.crt': text },
});

interface Scene {
  /** The ConfigMap in the namespace shop. */
  readonly live?: DistributionSource;
  /** The namespaces that the store has. */
  readonly stored?: readonly string[];
  readonly isSynced?: boolean;
  /** The namespaces that a live list finds. */
  readonly selected?: readonly string[];
  /** In the API server. */
  readonly source?: DistributionSource | undefined;
  /** In the store. */
  readonly known?: DistributionSource | undefined;
  readonly refused?: boolean;
}

/** Reconciles shop/trust, and returns the writes, the Events and what the copy trusts. */
async function run(
  { live, stored = ['shop'], selected = stored, isSynced = true, refused = false, ...scene }: Scene,
  times = 1,
) {
  const source = 'source' in scene ? scene.source : SOURCE;
  const known = 'known' in scene ? scene.known : SOURCE;
  const writes: unknown[] = [];
  const events: string[] = [];
  let trust: CopyTrust | undefined;
  const write = (verb: string) => (_resource: unknown, object: DistributionSource) => {
    if (refused) return Promise.reject(new ApiError(403, 'no'));
    writes.push([verb, object.data?.['ca.crt'], object.metadata?.resourceVersion]);
    return Promise.resolve(object);
  };
  const named = (name: string): KubeObject => ({ metadata: { name } });
  const distribution = distributionOf(known);
  const namespaceStore = { get: (name: string) => (stored.includes(name) ? named(name) : undefined) };
  const watched = { store: namespaceStore, hasSynced: () => isSynced };
  const wanted = distribution.kind === 'wanted' ? watched : undefined;
  const order = { source: known, distribution, selected: wanted };
  const reconcile = createCopyReconciler({
    client: {
      get: (_resource: unknown, { namespace }: { namespace: string }) =>
        Promise.resolve(namespace === 'shop' ? live : source),
      listAll: () => Promise.resolve({ items: selected.map(named) }),
      create: write('create'),
      replace: write('replace'),
      delete: (_resource: unknown, _ref: unknown, { preconditions }: { preconditions: object }) => {
        writes.push(['delete', preconditions]);
        return Promise.resolve('deleted');
      },
    } as unknown as CopyContext['client'],
    config: { namespace: 'gatehouse-system' },
    order: () => (distribution.kind === 'none' ? undefined : (order as unknown as Order)),
    bundle: () => pem,
    report: (_source, reason) => void events.push(reason),
    onTrust: (_key, now) => void (trust = now),
    log: silent,
  });
  let failure: unknown;
  for (let time = 0; time < times; time++)
    await reconcile('shop/trust', NEVER).catch((error: unknown) => (failure = error));
  return { writes, events, trust, failure };
}

test.each([
  ['a missing copy is created', {}, [['create', pem, undefined]], []],
  ['an outdated copy is replaced', { live: copy('old') }, [['replace', pem, '7']], ['BundleRepaired']],
  ['a current copy stays', { live: copy(pem) }, [], []],
])('%s', async (_what, scene, writes, events) => {
  expect(await run(scene)).toEqual({ writes, events, trust: 'current', failure: undefined });
});

test.each<[string, () => DistributionSource]>([
  ['lacks a mark', () => ({ metadata: { namespace: 'shop', name: 'trust' }, data: { 'ca.crt': 'theirs' } })],
  ['a user copied from another namespace', () => copy('theirs', 'mail/trust')],
])('a ConfigMap that %s is neither overwritten nor deleted', async (_what, live) => {
  const { writes, events, trust } = await run({ live: live() });
  expect([writes, events, trust]).toEqual([[], ['ForeignConfigMap'], undefined]);
  expect((await run({ live: live(), stored: [] })).writes).toEqual([]);
});

test('a copy is deleted only after a live read has confirmed that it is not wanted', async () => {
  const live = copy(pem);
  const deletion = ['delete', { uid: 'u', resourceVersion: '7' }];
  expect((await run({ live, stored: [] })).writes).toEqual([deletion]);
  expect((await run({ live, known: undefined, source: undefined })).writes).toEqual([deletion]);
  expect((await run({ live, stored: [], selected: ['shop'] })).writes).toEqual([]);
  expect((await run({ live, known: undefined })).writes).toEqual([]);
  expect((await run({ live, stored: [], isSynced: false })).writes).toEqual([]);
});

test('a copy that another client keeps editing is restored ten times, and then with delays', async () => {
  vi.useFakeTimers({ shouldAdvanceTime: true, advanceTimeDelta: 100 });
  const { writes } = await run({ live: copy('theirs') }, 20);
  vi.useRealTimers();
  expect(writes.length).toBeGreaterThanOrEqual(10);
  expect(writes.length).toBeLessThan(15);
});

test('a refused write is retried, and the copy counts as stale', async () => {
  const { failure, trust, events } = await run({ live: copy('old'), refused: true });
  const message = containing('Permit it, or look for the quota or admission policy');
  expect(failure).toMatchObject({ message });
  expect({ trust, events }).toEqual({ trust: 'stale', events: [] }); // the refusal is not confirmed yet
});
