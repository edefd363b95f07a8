import { beforeEach, expect, test } from 'vitest';

import { toSecretData } from '../pki/authority-secret.ts';
import type { Authority } from '../pki/authority.ts';
import { base64, firstAuthority } from '../pki/fixtures.ts';
import { generateKeyPair, randomSerial } from '../pki/keys.ts';
import type { Secret } from '../pki/secret.ts';
import { createAuthorityReconciler } from './authority.ts';
import { createObjects, NEVER, OWN_NAMESPACE, silent, untilDone, type Objects } from './fixtures.ts';

const now = new Date('2026-11-21T12:00:00Z');
const KEY = `${OWN_NAMESPACE}/gatehouse-authority`;

let secrets: Objects<Secret>;
let keysMade: number;

beforeEach(() => {
  secrets = createObjects();
  keysMade = 0;
});

/** One replica that leads: its reconcile, and every authority that it went on with. */
function leader() {
  const used: Authority[] = [];
  const reconcile = createAuthorityReconciler({
    namespace: OWN_NAMESPACE,
    readSecret: (name) => Promise.resolve(secrets.read(`${OWN_NAMESPACE}/${name}`)),
    createSecret: secrets.create,
    generateKeyPair: (algorithm) => {
      keysMade++;
      return generateKeyPair(algorithm);
    },
    randomSerial,
    onAuthority: (authority) => used.push(authority),
    now: () => now,
    log: silent,
  });
  return { reconcile, used };
}

const idOf = (authority: Authority | undefined) => authority?.generations[0]?.id;

test('the first pass makes the authority, in a Secret that no backup takes along', async () => {
  const { reconcile, used } = leader();
  expect(await reconcile('gatehouse-authority', NEVER)).toEqual({ kind: 'await-change' });
  expect(secrets.read(KEY)).toMatchObject({
    type: 'gatehouse.dev/authority',
    metadata: { labels: { 'velero.io/exclude-from-backup': 'true' } },
  });
  expect(used).toHaveLength(1);
});

test('running twice makes one authority, and hands out the stored one', async () => {
  const { reconcile, used } = leader();
  await reconcile('gatehouse-authority', NEVER);
  await reconcile('gatehouse-authority', NEVER);
  expect(secrets.writes()).toBe(1);
  expect(used[1]).toEqual(used[0]);
});

test('two leaders at once end with one authority, and the slower never uses its own', async () => {
  const [first, second] = [leader(), leader()];
  const outcomes = await Promise.allSettled([
    first.reconcile('gatehouse-authority', NEVER),
    second.reconcile('gatehouse-authority', NEVER),
  ]);
  expect(keysMade).toBe(2);
  const conflicts = outcomes.filter(({ status }) => status === 'rejected');
  expect(conflicts).toMatchObject([{ reason: { code: 409 } }]);

  await Promise.all([first, second].map(({ reconcile }) => untilDone(reconcile, 'gatehouse-authority')));
  const ids = new Set([...first.used, ...second.used].map(idOf));
  expect(ids.size).toBe(1);
});

test.each<[string, (data: Record<string, string>) => Record<string, string> | undefined]>([
  ['has no data', () => undefined],
  ['was emptied', () => ({})],
  [
    'has lost a key',
    (data) => Object.fromEntries(Object.entries(data).filter(([name]) => !name.endsWith('.key'))),
  ],
  ['holds garbage', (data) => ({ ...data, 'generations.json': base64('[{"id":') })],
])('an authority whose Secret %s is reported and never replaced', async (_how, breakIt) => {
  const data = breakIt({ ...toSecretData(await firstAuthority(now)) });
  secrets.add({
    metadata: { namespace: OWN_NAMESPACE, name: 'gatehouse-authority' },
    ...(data === undefined ? {} : { data }),
  });
  const { reconcile, used } = leader();
  await expect(reconcile('gatehouse-authority', NEVER)).rejects.toThrow(/is broken.*Restore the secret/);
  await expect(reconcile('gatehouse-authority', NEVER)).rejects.toThrow(/is broken/);
  expect(secrets.writes()).toBe(0);
  expect(used).toEqual([]);
});

test('an authority that cannot be read is not taken for absent', async () => {
  const { reconcile } = leader();
  const failing = createAuthorityReconciler({
    namespace: OWN_NAMESPACE,
    readSecret: () => Promise.reject(new Error('the API server is away')),
    createSecret: secrets.create,
    generateKeyPair,
    randomSerial,
    onAuthority: () => undefined,
    now: () => now,
    log: silent,
  });
  await expect(failing('gatehouse-authority', NEVER)).rejects.toThrow('away');
  expect(secrets.writes()).toBe(0);
  await reconcile('gatehouse-authority', NEVER);
  expect(secrets.writes()).toBe(1);
});

test.each([
  ['before', 2],
  ['after', 1],
] as const)('a leader killed %s its write leaves one authority behind', async (when, keys) => {
  secrets.interrupt(when);
  const killed = leader();
  await expect(killed.reconcile('gatehouse-authority', NEVER)).rejects.toThrow('connection broke');
  expect(killed.used).toEqual([]);

  const next = leader();
  await next.reconcile('gatehouse-authority', NEVER);
  await next.reconcile('gatehouse-authority', NEVER);
  expect(keysMade).toBe(keys);
  expect(new Set(next.used.map(idOf)).size).toBe(1);
});
