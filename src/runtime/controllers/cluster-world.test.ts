import { addAbortSignal, PassThrough } from 'node:stream';
import { expect, test, vi } from 'vitest';
import { selectorOf } from '../../admission/handlers/reader.ts';
import { keyOf, type KubeObject } from '../../json/kube-object.ts';
import { compileController } from '../../controllers/compile-controller.ts';
import { defineController, type ControllerDefinition } from '../../controllers/controller.ts';
import { ownerMark } from '../../controllers/owned-objects.ts';
import { createCluster, silent } from '../../../test/support/runtime/fixtures.ts';
import { createListedContext } from '../../../test/support/runtime/listed-rest.ts';
import { systemClock } from '../../kube/clock.ts';
import type { Rest } from '../../kube/rest.ts';
import { surviveStrayErrors } from '../handlers/stray-errors.ts';
import { createClusterWorld, createOwnWrites, watchKinds, writeKey } from './cluster-world.ts';
import { rememberingYes, startControllers } from './start-controllers.ts';

const kind = { group: '', version: 'v1', resource: 'configmaps', kind: 'ConfigMap', namespaced: true };
const at = (resourceVersion: string, metadata: object = {}): KubeObject => ({
  metadata: { name: 'a', labels: { 'gatehouse.dev/owner': 'm' }, resourceVersion, ...metadata },
});
const key = 'configmaps a';

test('a state that the controller wrote is its own, until it has changed', () => {
  const writes = createOwnWrites();
  writes.wrote(key, at('5'));
  expect(writes.causeOf(key, { kind: 'added', object: at('4') })).toBeUndefined();
  expect(writes.causeOf(key, { kind: 'added', object: at('5') })).toBe('patch');
  expect(writes.causeOf(key, { kind: 'deleted', object: at('5') })).toBeUndefined();
  writes.applied(key, { kind, object: at('6') });
  expect(writes.causeOf(key, { kind: 'changed', object: at('6'), previous: at('5') })).toBe('apply');
});

test('a write over a version that the pass has not seen is news', () => {
  const writes = createOwnWrites();
  writes.wrote(key, at('5'), false);
  expect(writes.causeOf(key, { kind: 'changed', object: at('5'), previous: at('3') })).toBeUndefined();
  expect(writes.isSeen(key, at('4'))).toBe(false);
});

test('what was applied is listed by its owner, until a store has it', () => {
  const writes = createOwnWrites();
  writes.applied(key, { kind, object: at('5') });
  expect(writes.unseen('m').map(([found]) => found)).toEqual([key]);
  expect(writes.unseen('other')).toEqual([]);
  expect(writes.isSeen(key, undefined)).toBe(false);
  expect(writes.isSeen(key, at('4'))).toBe(false);
  expect(writes.isSeen(key, at('5'))).toBe(true);
  expect(writes.unseen('m')).toEqual([]);
});

test.each<[string, (writes: ReturnType<typeof createOwnWrites>) => void]>([
  ['of a write that a store has', (writes) => writes.saw(key, { kind: 'added', object: at('5') })],
  ['of an object that is gone', (writes) => writes.saw(key, { kind: 'deleted', object: at('5') })],
  [
    'of an object that the controller deleted',
    (writes) => {
      writes.removed(key);
      writes.saw(key, { kind: 'deleted', object: at('5') });
    },
  ],
])('memory is released %s', (_what, happen) => {
  const writes = createOwnWrites();
  writes.applied(key, { kind, object: at('5') });
  happen(writes);
  expect(writes.size()).toBe(0);
  expect(writes.unseen('m')).toEqual([]);
});

const teams = { ...kind, group: 'example.com', version: 'v1', resource: 'teams', kind: 'Team' };
const secret = { ...kind, resource: 'secrets', kind: 'Secret' };
const rule = ({ group, version, resource }: typeof kind) => ({
  apiGroups: [group] as const,
  apiVersions: [version] as const,
  resources: [resource] as const,
});
const controller = compileController(
  'teams',
  defineController({ name: 'teams', watch: rule(teams), owns: [rule(kind)], reconcile: () => undefined }),
);
const mark = ownerMark(controller, 'shop/a');
const owned = (name: string, owner: string): KubeObject => ({
  metadata: { namespace: 'shop', name, resourceVersion: '1', labels: { 'gatehouse.dev/owner': owner } },
});

test('the world of a controller lists the objects of one owner from its stores, and reads other kinds live', async () => {
  const { client, objects } = createCluster();
  const discovery = {
    resolve: ({ resource }: { readonly resource?: string }) =>
      Promise.resolve(resource === 'secrets' ? secret : undefined),
  };
  const { context, lists, signal } = createListedContext({ client, discovery });
  lists.set('/apis/example.com/v1/teams', [{ metadata: { namespace: 'shop', name: 'a' } }]);
  lists.set('/api/v1/configmaps', [owned('mine', mark), owned('other', 'x')]);
  const writes = createOwnWrites();
  const kinds = [teams, kind] as const;
  const passes: string[] = [];
  const memory = { sources: [], isStarted: () => true, writes, settled: new Map() };
  const stores = watchKinds(context, controller, kinds, memory, (one) => passes.push(one), signal);
  await stores.whenSynced(signal);
  const world = createClusterWorld(
    { ...context, clock: systemClock, metric: () => undefined },
    controller,
    kinds,
    stores,
    { writes, unreadable: [] },
  );
  expect((await world.owned(mark)).map(({ object }) => object.metadata?.name)).toEqual(['mine']);
  expect(passes).toContain('shop/a');
  // A store that has the creation, but not the second write with the proof, and one that has a later write of others.
  for (const [written, seen] of [
    ['2', '2'],
    ['0', '1'],
  ] as const) {
    const { metadata } = owned('mine', mark);
    const object = { metadata: { ...metadata, resourceVersion: written } };
    writes.applied(writeKey(kind, 'shop/mine'), { kind, object });
    const all = await world.owned(mark);
    expect(all.map((one) => one.object.metadata?.resourceVersion)).toEqual([seen]);
  }
  objects(secret).add({ metadata: { namespace: 'shop', name: 's' } });
  const wanted = { ...secret, metadataOnly: false };
  expect(await world.get(wanted, { namespace: 'shop', name: 's' }, signal)).toBeDefined();
});

test('only what was not permitted or not answered is asked again', async () => {
  const asked: string[] = [];
  let fails = true;
  const may = rememberingYes(({ verb }) => {
    asked.push(verb);
    if (verb === 'list' && fails) return Promise.reject(new Error('connection refused'));
    return Promise.resolve(verb !== 'watch');
  });
  const ask = (verb: string) => may({ verb, group: '', resource: 'secrets' });
  await expect(ask('list')).rejects.toThrow('connection refused');
  expect([await ask('get'), await ask('watch')]).toEqual([true, false]);
  fails = false;
  expect([await ask('get'), await ask('list'), await ask('watch')]).toEqual([true, true, false]);
  expect(asked).toEqual(['list', 'get', 'watch', 'list', 'watch']);
});

test('the end of the process is no error of a controller that waits for its kind', async () => {
  const stop = new AbortController();
  const { context } = createListedContext({ log: { child: () => silent } });
  const { stopped } = startControllers(context, [controller], stop.signal);
  stop.abort();
  expect(await stopped).toEqual([undefined]);
});

/** A controller of Teams, with what its stores list, what its API server has, and what its watches report. */
async function startScene(
  definition: Partial<ControllerDefinition>,
  listed: Readonly<Record<string, readonly KubeObject[]>> = {},
) {
  const compiled = compileController(
    'teams',
    defineController({ name: 'teams', watch: rule(teams), reconcile: () => undefined, ...definition }),
  );
  const { client, objects } = createCluster();
  const logged: string[] = [];
  const warn = ({ err }: { readonly err: Error }, message: string) =>
    logged.push(`${message}: ${err.message}`);
  const log = { ...silent, warn };
  const { context, lists, signal } = createListedContext({ client, log });
  for (const [path, items] of Object.entries(listed)) lists.set(path, items);
  const events = new PassThrough({ objectMode: true });
  const stream: Rest['stream'] = async function* ({ path, signal: ended = signal }) {
    if (path === '/api/v1/secrets') yield* addAbortSignal(ended, events);
    else await new Promise((resolve) => ended.addEventListener('abort', resolve));
  };
  const writes = createOwnWrites();
  const kinds = [teams, ...compiled.owns.map(() => kind)] as const;
  const sources = compiled.watches.map((source) => ({
    kind: source.kind.resource === 'secrets' ? secret : kind,
    source,
  }));
  const passes: string[] = [];
  const memory = { sources, isStarted: () => true, writes, settled: new Map() };
  const told = { ...context, rest: { ...context.rest, stream } };
  const stores = watchKinds(told, compiled, kinds, memory, (one) => passes.push(one), signal);
  await stores.whenSynced(signal);
  passes.length = 0;
  const world = createClusterWorld(
    { ...context, clock: systemClock, metric: () => undefined },
    compiled,
    kinds,
    stores,
    { writes, unreadable: [] },
  );
  return { objects, logged, passes, signal, world, tell: (event: object) => events.write(event) };
}

test.each<[string, Partial<ControllerDefinition>]>([
  ['the kind in watch', { watches: [{ kind: 'teams.example.com', map: () => [] }] }],
  ['a kind in owns', { owns: [rule(kind)], watches: [{ kind: 'configmaps', map: () => [] }] }],
])(
  'the store of %s can be behind the event of a source, so its kind is read live',
  async (_what, definition) => {
    const old = { metadata: { namespace: 'shop', name: 'a', resourceVersion: '1', labels: { is: 'old' } } };
    const listed = { '/apis/example.com/v1/teams': [old], '/api/v1/configmaps': [old] };
    const { objects, signal, world } = await startScene(definition, listed);
    const wanted = { ...(definition.owns === undefined ? teams : kind), metadataOnly: false };
    objects(wanted).add({ metadata: { ...old.metadata, labels: { is: 'new' } } });
    const found = { metadata: { labels: { is: 'new' } } };
    expect(await world.get(wanted, old.metadata, signal)).toMatchObject(found);
    const query = { namespace: 'shop', selector: selectorOf(undefined), index: [] };
    expect(await world.list(wanted, query, signal)).toMatchObject([found]);
  },
);

test('an index that fails for one object, or returns a text, does not fail a live list', async () => {
  const size = ({ metadata }: KubeObject) => {
    if (metadata?.name === 'bad') throw new Error('no size');
    return metadata?.name === 'text' ? ('large' as never) : ['large'];
  };
  const watches = [{ kind: 'teams.example.com', map: () => [] }]; // so the kind is read live
  const { objects, signal, world } = await startScene({ watches, indexes: { size: size } });
  for (const name of ['bad', 'good', 'text']) objects(teams).add({ metadata: { namespace: 'shop', name } });
  const query = { namespace: 'shop', selector: selectorOf(undefined), index: [['size', 'large']] } as const;
  const found = await world.list({ ...teams, metadataOnly: false }, query, signal);
  expect(found.map(({ metadata }) => metadata?.name)).toEqual(['good']);
});

const stored = (name: string, resourceVersion: string, data = 'x') => ({
  metadata: { namespace: 'shop', name, resourceVersion, uid: name },
  data,
});
const team = { metadata: { namespace: 'shop', name: 'a', resourceVersion: '1' } };
const TEAMS = '/apis/example.com/v1/teams';

test('`map`, `when` and indexes that fail at each event have one log line a minute each', async () => {
  const seen: string[] = [];
  const fail = (what: string) => (object: object) => {
    seen.push(keyOf(object));
    throw new Error(what);
  };
  const watches = [{ kind: 'secrets', when: fail('no when'), map: fail('no map') }];
  const indexes = { size: fail('no size') };
  const teamsInStore = [team, { metadata: { ...team.metadata, name: 'b' } }];
  const { logged, passes, tell } = await startScene({ watches, indexes }, { [TEAMS]: teamsInStore });
  for (const version of ['2', '3', '4']) tell({ type: 'MODIFIED', object: stored('s', version, version) });
  tell({ type: 'ADDED', object: stored('last', '5') });
  await expect.poll(() => seen).toContain('shop/last');
  expect(passes).toEqual(['shop/a', 'shop/b']);
  expect(logged).toEqual([
    'an index of the controller failed, so it lacks an object: no size',
    'a function "map" failed, so each object gets a pass: no map',
    'a function "when" failed, so the change causes a pass: no when',
  ]);
});

test('a stray error of `map`, `when` or an index is attributed to the controller, even after an await', async () => {
  const strays: string[] = [];
  const on = vi.spyOn(process, 'on').mockReturnValue(process);
  const end = new AbortController();
  surviveStrayErrors('/nowhere/', (name, { message }) => strays.push(`${name} ${message}`), end.signal);
  const [, onRejection] = on.mock.calls.find(([event]) => String(event) === 'unhandledRejection') ?? [];
  on.mockRestore();
  end.abort();
  const stray = (what: string) => onRejection?.(new Error(what));
  const map = async () => {
    await Promise.resolve();
    stray('map');
  };
  const when = () => {
    stray('when');
    return true;
  };
  const size = () => {
    stray('index');
    return [];
  };
  const watches = [{ kind: 'secrets', when, map: map as never }];
  const own = { watches, indexes: { size }, when };
  const { tell } = await startScene(own, { [TEAMS]: [team] });
  for (const version of ['2', '3']) tell({ type: 'MODIFIED', object: stored('s', version, version) });
  await expect.poll(() => strays.filter((one) => one.endsWith(' map')), { timeout: 5_000 }).toHaveLength(2);
  expect(strays.toSorted()).toEqual(['teams index', 'teams map', 'teams map', 'teams when']);
});
