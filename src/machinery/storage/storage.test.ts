import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { ApiObject } from '../api-object.ts';
import { createStorage, type StorageOptions } from './storage.ts';
import type { ListOptions, Storage, StoredEvent } from './stored.ts';
import { statusOf } from '../../../test/support/sandbox/failures.ts';

const SECRETS = { group: '', resource: 'secrets' };

const secret = (namespace: string, name: string, data: Record<string, string> = {}): ApiObject =>
  Object.assign({ apiVersion: 'v1', kind: 'Secret', metadata: { namespace, name } }, { data });

const keyOf = ({ metadata: { namespace = '', name = '' } }: ApiObject) => `${namespace}/${name}`;
const keysOf = (objects: readonly ApiObject[]) => objects.map(keyOf);
const versionOf = ({ metadata }: ApiObject) => metadata.resourceVersion ?? '';

function filled(count: number, options: StorageOptions = {}): Storage {
  const storage = createStorage(options);
  for (let index = 0; index < count; index += 1) storage.create(SECRETS, secret('prod', `s${index}`));
  return storage;
}

/** All pages of a list; `between` runs after each page. */
function listAll(storage: Storage, options: ListOptions, between: () => void = () => undefined): ApiObject[] {
  const items: ApiObject[] = [];
  let continueToken: string | undefined = '';
  while (continueToken !== undefined) {
    const page = storage.list(SECRETS, { ...options, continueToken });
    items.push(...page.items);
    continueToken = page.continueToken;
    between();
  }
  return items;
}

describe('lists', () => {
  test('a page whose revision is compacted is rejected with a token for the current state', () => {
    const storage = filled(4, { history: 2 });
    const { continueToken = '' } = storage.list(SECRETS, { limit: 1 });
    for (const name of ['s01', 's11', 's21']) storage.create(SECRETS, secret('prod', name));
    const status = statusOf(() => storage.list(SECRETS, { continueToken }));
    expect(status).toMatchObject({
      code: 410,
      reason: 'Expired',
      message: expect.stringContaining('The provided continue parameter is too old') as unknown,
      metadata: { continue: expect.any(String) as unknown },
    });
    const fresh = Object.entries(status.metadata).map(([, token]) => String(token))[0] ?? '';
    const rest = storage.list(SECRETS, { continueToken: fresh });
    expect(keysOf(rest.items)).toEqual(['prod/s01', 'prod/s1', 'prod/s11', 'prod/s2', 'prod/s21', 'prod/s3']);
    expect(rest.revision).toBe(storage.revision());
  });
});

describe('watches', () => {
  const watched = (storage: Storage, from: number) => {
    const events: StoredEvent[] = [];
    const stop = storage.watch(SECRETS, from, (event) => events.push(event));
    return { events, stop };
  };
  const summary = (events: readonly StoredEvent[]) =>
    events.map(({ type, object, revision }) => `${type} ${keyOf(object)} ${revision}`);

  test('a watch from before the history is rejected with the oldest usable revision', () => {
    const storage = filled(10, { history: 4 });
    const status = statusOf(() => watched(storage, 2));
    expect(status).toMatchObject({ code: 410, reason: 'Expired' });
    const oldest = Number(/^too old resource version: 2 \((\d+)\)$/.exec(status.message ?? '')?.[1]);
    expect(summary(watched(storage, oldest).events)).toHaveLength(storage.revision() - oldest);
    expect(statusOf(() => watched(storage, oldest - 1))).toMatchObject({ code: 410 });
  });

  test('a watcher that writes preserves the order of events for all watchers, including new ones', () => {
    const storage = createStorage();
    let late: readonly StoredEvent[] = [];
    storage.watchAll((_place, { object }) => {
      if (object.metadata.name !== 'cause') return;
      storage.create(SECRETS, secret('prod', 'effect'));
      late = watched(storage, 1).events;
    });
    const { events } = watched(storage, 1);
    storage.create(SECRETS, secret('prod', 'cause'));
    storage.create(SECRETS, secret('prod', 'end'));
    const expected = ['ADDED prod/cause 2', 'ADDED prod/effect 3', 'ADDED prod/end 4'];
    expect(summary(events)).toEqual(expected);
    expect(summary(late)).toEqual(expected);
  });
});

describe('any sequence of writes', () => {
  const change = fc.record({
    namespace: fc.constantFrom('a', 'a-b', 'b'),
    name: fc.constantFrom('x', 'y', 'z', 'x-1', 'w'),
    remove: fc.boolean(),
  });
  type Change = typeof change extends fc.Arbitrary<infer T> ? T : never;

  function write(storage: Storage, { namespace, name, remove }: Change): void {
    const old = storage.get(SECRETS, { namespace, name });
    if (old === undefined) storage.create(SECRETS, secret(namespace, name));
    else if (remove) storage.remove(SECRETS, { namespace, name }, versionOf(old));
    else storage.replace(SECRETS, old, versionOf(old));
  }

  test('pages show the state of the first page despite concurrent writes', () => {
    fc.assert(
      fc.property(
        fc.array(change),
        fc.array(change),
        fc.integer({ min: 1, max: 4 }),
        fc.option(fc.constantFrom('a', 'a-b', 'b'), { nil: undefined }),
        (before, during, limit, namespace) => {
          const storage = createStorage();
          for (const one of before) write(storage, one);
          const options = namespace === undefined ? {} : { namespace };
          const expected = storage.list(SECRETS, options).items;
          const left = [...during];
          const items = listAll(storage, { ...options, limit }, () => {
            for (const one of left.splice(0, 3)) write(storage, one);
          });
          expect(items).toEqual(expected);
        },
      ),
    );
  });

  test('a watch from any revision replays up to the current state', () => {
    fc.assert(
      fc.property(fc.array(change), fc.array(change), fc.array(change), (before, past, live) => {
        const storage = createStorage();
        for (const one of before) write(storage, one);
        const state = new Map(storage.list(SECRETS).items.map((object) => [keyOf(object), object]));
        const from = storage.revision();
        for (const one of past) write(storage, one);
        storage.watch(SECRETS, from, ({ type, object, previous }) => {
          expect(state.get(keyOf(object))).toBe(previous);
          if (type === 'DELETED') state.delete(keyOf(object));
          else state.set(keyOf(object), object);
        });
        for (const one of live) write(storage, one);
        const replayed = [...state.values()].sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
        expect(replayed).toEqual(storage.list(SECRETS).items);
      }),
    );
  });
});
