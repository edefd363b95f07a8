import { beforeEach, expect, test } from 'vitest';

import { after, HOUR, MINUTE, SECOND } from '../../pki/durations.ts';
import { firstAuthority, rotated } from '../../../test/support/pki/fixtures.ts';
import {
  createWorld,
  serviceNamed,
  type ServingCertsWorld,
} from '../../../test/support/runtime/serving-certs.ts';

const start = new Date('2026-11-21T12:00:00Z');
const authority = await firstAuthority(start);
let world: ServingCertsWorld;

beforeEach(async () => {
  world = createWorld(authority, start);
  world.add(serviceNamed('db'));
  await world.run('db');
});

/** Another client changes the Secret whenever it is whole, once a second. Follows the requeues meanwhile. */
async function revert(times: number, how: () => void): Promise<void> {
  for (let n = 0; n < times; n++) {
    how();
    const result = await world.run('db');
    const next = after(world.now, SECOND);
    world.now = result.kind === 'requeue' && result.at < next ? result.at : next;
  }
}
let edits = 0;
const empty = () => {
  world.secrets.patch('prod/db-tls', { data: null });
};

test.each<[string, () => void]>([
  ['empties it', empty],
  [
    'deletes it',
    () => {
      world.secrets.remove('prod/db-tls');
    },
  ],
  [
    'edits its Service too, so that each content is new',
    () => {
      world.add(
        serviceNamed('db', { 'gatehouse.dev/serving-cert-duration': `${edits++ % 2 === 0 ? 36 : 48}h` }),
      );
      empty();
    },
  ],
  [
    'removes its owner',
    () => {
      world.secrets.patch('prod/db-tls', { metadata: { ownerReferences: [] } });
    },
  ],
])(
  'a client that %s 200 times in 200 s causes at most 20 writes, and an Event names the problem',
  async (_what, how) => {
    await revert(200, how);
    expect(world.secrets.writes()).toBeLessThan(20);
    expect(world.contended.count()).toBe(1);
    const contended = world.events.all.filter(({ reason }) => reason === 'SecretContended');
    const kinds = contended.map(({ type, regarding }) => `${type} ${regarding.kind}`);
    expect(new Set(kinds)).toContain('Warning Service');
    expect(contended.length).toBeLessThanOrEqual(2); // on the Service and on the Secret
  },
);

test('a Service that is deleted and created again 200 times causes at most 20 writes', async () => {
  for (let n = 0; n < 200; n++) {
    world.services.clear();
    world.secrets.remove('prod/db-tls');
    await world.run('db');
    const { metadata } = serviceNamed('db');
    world.add({ metadata: { ...metadata, uid: `uid ${n}` } });
    await world.run('db');
    world.now = after(world.now, SECOND);
  }
  expect(world.secrets.writes()).toBeLessThan(20);
});

test('a Service that is created again after some minutes has its Secret at once', async () => {
  await revert(60, empty);
  world.services.clear();
  await world.run('db');
  world.now = after(world.now, HOUR);
  world.add(serviceNamed('db'));
  const before = world.secrets.writes();
  await world.run('db');
  expect(world.secrets.writes()).toBe(before + 1);
  expect(world.contended.count()).toBe(0);
});

test('a Secret that stays whole for some minutes is no longer contended', async () => {
  await revert(60, empty);
  for (let n = 0; n < 10 && world.contended.count() > 0; n++) {
    const result = await world.run('db');
    if (result.kind !== 'requeue') throw new Error(`expected a requeue, not ${result.kind}`);
    if (world.contended.count() > 0) expect(result.at <= after(world.now, 10 * MINUTE)).toBe(true);
    world.now = result.at;
  }
  expect(world.contended.count()).toBe(0);
  empty();
  const before = world.secrets.writes();
  await world.run('db');
  expect(world.secrets.writes()).toBe(before + 1);
});

test('a new signer is written at once to a contended Secret', async () => {
  await revert(60, empty);
  world.now = after(world.now, HOUR);
  await world.run('db');
  await revert(30, empty);
  const before = world.secrets.writes();
  world.authority = await rotated(authority, world.now);
  await world.run('db');
  expect(world.secrets.writes()).toBe(before + 1);
});
