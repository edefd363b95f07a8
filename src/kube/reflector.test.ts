import { expect, onTestFinished, test } from 'vitest';
import {
  sendJson,
  startServer,
  status,
  until,
  type FakeServer,
  type Handler,
} from '../../test/support/kube/fake-api-server.ts';
import type { KubeObject } from '../json/kube-object.ts';
import type { Resource } from './object.ts';
import { createReflector, type Change, type ReflectorOptions } from './reflector.ts';
import { createStore } from './store.ts';
import type { ServerResponse } from 'node:http';

const servers: Resource = {
  group: 'infra.example.com',
  version: 'v1',
  resource: 'servers',
  kind: 'Server',
  namespaced: true,
};

interface Item extends KubeObject {
  readonly spec?: { readonly n: number };
}

const item = (name: string, version: number, n = 0, uid = `uid-${name}`): Item => ({
  metadata: { name, namespace: 'a', uid, resourceVersion: String(version) },
  spec: { n },
});

const listOf = (version: number, ...items: Item[]): object => ({
  metadata: { resourceVersion: String(version) },
  items,
});

const event = (type: string, object: object): string => `${JSON.stringify({ type, object })}\n`;
const bookmark = (version: number): string =>
  event('BOOKMARK', { metadata: { resourceVersion: String(version) } });

const quiet = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
};

interface Script {
  /** Answers the nth list. */
  readonly list: (n: number, response: ServerResponse, url: URL) => void;
  /** Answers the nth watch. */
  readonly watch?: (n: number, response: ServerResponse, url: URL) => void;
  /** The resourceVersion of the nth probe, the small read before a watch continues. Default: no rollback. */
  readonly probe?: (n: number) => number;
}

function scripted({
  list,
  watch,
  probe = () => 1_000_000,
}: Script): Handler & { readonly lists: () => number; readonly watches: () => number } {
  const count = { list: 0, watch: 0, probe: 0 };
  const handler: Handler = ({ url }, response) => {
    if (url.searchParams.get('watch') === 'true') {
      response.writeHead(200);
      response.flushHeaders();
      const n = count.watch++;
      watch?.(n, response, url);
    } else if (url.pathname === '/version') sendJson(response, {});
    else if (url.searchParams.get('limit') === '1') {
      sendJson(response, listOf(probe(count.probe++)));
    } else {
      list(count.list++, response, url);
    }
  };
  return Object.assign(handler, { lists: () => count.list, watches: () => count.watch });
}

/** The last one answers all further lists. A Status is a failure. */
const inTurn =
  (...lists: readonly object[]): Script['list'] =>
  (n, response) => {
    const answer = lists[n] ?? lists.at(-1) ?? {};
    sendJson(response, answer, 'code' in answer ? Number(answer.code) : 200);
  };

const FORBIDDEN = status(403, 'Forbidden');

/** The nth watch gets the nth text and stays open; further ones are silent. */
const writing =
  (...texts: readonly string[]): NonNullable<Script['watch']> =>
  (n, response) => {
    response.write(texts[n] ?? '\n');
  };

interface Running {
  readonly changes: string[];
  readonly store: ReturnType<typeof createStore<Item>>;
  readonly reflector: ReturnType<typeof createReflector<Item>>;
  readonly warnings: string[];
  readonly stop: () => Promise<void>;
}

function start(server: FakeServer, options: Partial<ReflectorOptions<Item>> = {}): Running {
  const store = createStore<Item>();
  const changes: string[] = [];
  const warnings: string[] = [];
  const tell = (key: string, change: Change<Item>): void => {
    const of = change.object.metadata;
    changes.push(`${change.kind} ${key} ${of?.resourceVersion ?? ''}`);
  };
  const reflector = createReflector<Item>({
    rest: server.rest({ random: () => 0 }),
    resource: servers,
    store,
    onChange: tell,
    log: { ...quiet, warn: (_fields, message) => warnings.push(message) },
    timing: { backoff: { baseMs: 2, maxMs: 8 }, stableMs: 50 },
    ...options,
  });
  const controller = new AbortController();
  const running = reflector.run(controller.signal);
  const stop = async (): Promise<void> => {
    controller.abort();
    await running;
  };
  onTestFinished(stop);
  return { changes, store, reflector, warnings, stop };
}

test('a list fills the store, and a watch updates it', async () => {
  const script = scripted({
    list: inTurn(listOf(10, item('one', 5), item('two', 6))),
    watch: writing(
      event('MODIFIED', item('one', 11)) +
        event('ADDED', item('three', 12)) +
        event('DELETED', item('two', 13)) +
        bookmark(20),
    ),
  });
  const server = await startServer(script);
  const { changes, store, reflector } = start(server);
  expect(reflector.hasSynced()).toBe(false);
  await reflector.whenSynced(AbortSignal.timeout(1_000));
  await until(() => changes.length === 5);
  expect(changes).toEqual([
    'added a/one 5',
    'added a/two 6',
    'changed a/one 11',
    'added a/three 12',
    'deleted a/two 6',
  ]);
  expect(store.keys()).toEqual(['a/one', 'a/three']);
  expect(store.get('a/one')).toMatchObject({ apiVersion: 'infra.example.com/v1', kind: 'Server' });
});

test('lists are read from etcd in pages; watches request bookmarks and end after five to ten minutes', async () => {
  const script = scripted({
    list: (n, response, url) => {
      if (n === 0)
        sendJson(response, { metadata: { resourceVersion: '10', continue: 'c1' }, items: [item('one', 5)] });
      else sendJson(response, { ...listOf(10, item('two', 6)), continued: url.searchParams.get('continue') });
    },
  });
  const server = await startServer(script);
  const { store } = start(server, { labelSelector: 'a=b', namespace: 'a', metadataOnly: true });
  await until(() => script.watches() === 1);
  const [first, second, watch] = server.requests.map(({ url }) => new URL(url, server.url).searchParams);
  expect(Object.fromEntries(first ?? [])).toEqual({ labelSelector: 'a=b', limit: '500' });
  expect(second?.get('continue')).toBe('c1');
  expect(watch?.get('resourceVersion')).toBe('10');
  expect(watch?.get('allowWatchBookmarks')).toBe('true');
  expect(watch?.get('labelSelector')).toBe('a=b');
  const seconds = Number(watch?.get('timeoutSeconds'));
  expect(seconds).toBeGreaterThanOrEqual(300);
  expect(seconds).toBeLessThanOrEqual(600);
  expect(server.requests[0]?.headers.join()).toContain('as=PartialObjectMetadataList;g=meta.k8s.io;v=v1');
  expect(server.requests[2]?.headers.join()).toContain('as=PartialObjectMetadata;g=meta.k8s.io;v=v1');
  expect(store.list()).toHaveLength(2);
});

test('a watch that ends resumes at its last version or bookmark, without a list', async () => {
  const since: (string | null)[] = [];
  const script = scripted({
    list: inTurn(listOf(10)),
    watch: (n, response, url) => {
      since.push(url.searchParams.get('resourceVersion'));
      if (n === 0) response.end(event('ADDED', item('one', 11)));
      if (n === 1) response.end(bookmark(40));
    },
  });
  start(await startServer(script));
  await until(() => script.watches() === 3);
  expect(since).toEqual(['10', '11', '40']);
  expect(script.lists()).toBe(1);
});

test('a broken watch resumes at its last version, and no event is repeated', async () => {
  const script = scripted({
    list: inTurn(listOf(10, item('one', 5))),
    watch: (n, response) => {
      if (n === 0) response.write(event('ADDED', item('two', 11)), () => response.destroy());
      // A server may send a known event again.
      if (n === 1) response.write(event('ADDED', item('two', 11)) + event('ADDED', item('three', 12)));
    },
  });
  const { changes } = start(await startServer(script));
  await until(() => changes.length === 3);
  expect(changes).toEqual(['added a/one 5', 'added a/two 11', 'added a/three 12']);
  expect(script.lists()).toBe(1);
});

test.each([
  ['an ERROR event 410', event('ERROR', status(410, 'Expired'))],
  ['an ERROR event 500', event('ERROR', status(500, 'InternalError'))],
])('%s causes a list, and only differences are emitted', async (_what, line) => {
  const script = scripted({
    list: inTurn(
      listOf(10, item('kept', 1), item('changed', 2), item('gone', 3), item('reborn', 4)),
      listOf(30, item('kept', 1), item('changed', 20), item('reborn', 25, 0, 'uid-2'), item('new', 26)),
    ),
    watch: (n, response) => {
      if (n === 0) response.end(line);
    },
  });
  const { changes } = start(await startServer(script));
  await until(() => changes.length >= 9);
  expect(changes.slice(4)).toEqual([
    'deleted a/gone 3',
    'changed a/changed 20',
    'deleted a/reborn 4',
    'added a/reborn 25',
    'added a/new 26',
  ]);
});

test('a 410 response causes a list, and a server that always sends it is not polled in a loop', async () => {
  let watches = 0;
  let lists = 0;
  const server = await startServer(({ url }, response) => {
    if (url.searchParams.has('watch')) {
      watches++;
      sendJson(response, status(410, 'Expired'), 410);
    } else {
      if (url.searchParams.get('limit') !== '1') lists++;
      sendJson(response, listOf(10));
    }
  });
  const { warnings } = start(server, { timing: { backoff: { baseMs: 60_000, maxMs: 60_000 } } });
  await until(() => warnings.length > 0);
  expect([lists, watches]).toEqual([2, 2]);
});

test('a 410 before another failure and one after it are no repetition', async () => {
  const script = scripted({
    list: inTurn(listOf(10), FORBIDDEN, listOf(12)),
    watch: (n, response) => {
      if (n < 2) response.end(event('ERROR', status(410, 'Expired')));
    },
  });
  const { warnings } = start(await startServer(script), { timing: { stableMs: 60_000 } });
  await until(() => script.watches() === 3);
  expect([script.lists(), warnings.length]).toEqual([4, 1]);
});

test('an expired page causes a list without pages', async () => {
  const limits: (string | null)[] = [];
  const script = scripted({
    list: (n, response, url) => {
      limits.push(url.searchParams.get('limit'));
      if (n === 0)
        sendJson(response, { metadata: { resourceVersion: '10', continue: 'c1' }, items: [item('one', 5)] });
      else if (n === 1) sendJson(response, status(410, 'Expired'), 410);
      else sendJson(response, listOf(12, item('one', 5)));
    },
  });
  const { changes } = start(await startServer(script));
  await until(() => script.watches() === 1);
  expect(limits).toEqual(['500', '500', null]);
  expect(changes).toEqual(['added a/one 5']);
});

test('a silent watch is aborted and restarted', async () => {
  const script = scripted({
    list: inTurn(listOf(10)),
    watch: writing(bookmark(20), event('ADDED', item('one', 21))),
  });
  const { changes } = start(await startServer(script), {
    timing: { silenceMs: 30, stableMs: 10, backoff: { baseMs: 2, maxMs: 8 } },
  });
  await until(() => changes.length === 1);
  expect(script.lists()).toBe(1);
});

test('a watch that is silent before its first bookmark ends without a failure, and the read before the next one finds a frozen server', async () => {
  const script = scripted({
    list: inTurn(listOf(10)),
    watch: (n, response) => {
      if (n === 1) response.write(event('ADDED', item('one', 21)));
    },
  });
  let isFrozen = false;
  const handler: Handler = (request, response, n) => {
    if (!isFrozen || request.url.searchParams.get('limit') !== '1') script(request, response, n);
  };
  const server = await startServer(handler);
  const { changes, reflector, warnings } = start(server, {
    rest: server.rest({ random: () => 0, timeoutMs: 100 }),
    timing: { silenceMs: 1_100, stableMs: 10, backoff: { baseMs: 2, maxMs: 8 } },
  });
  await until(() => changes.length === 1);
  expect([script.lists(), warnings, reflector.failure()]).toEqual([1, [], undefined]);
  isFrozen = true;
  await until(() => reflector.failure() !== undefined);
});

test('a cluster that was rolled back is listed again, and every object is emitted', async () => {
  const script = scripted({
    list: inTurn(
      listOf(100, item('one', 50, 1), item('two', 90)),
      listOf(60, item('one', 50, 2)), // the same name and resourceVersion as before the rollback, but another state
    ),
    watch: (n, response) => {
      if (n === 0) response.destroy();
    },
    probe: () => 60,
  });
  const { changes, store } = start(await startServer(script));
  await until(() => changes.length === 4);
  expect(changes.slice(2)).toEqual(['deleted a/two 90', 'changed a/one 50']);
  expect(store.get('a/one')?.spec?.n).toBe(2);
});

test('one object is listed again after a disconnect: a rollback may have changed it at an earlier revision', async () => {
  const script = scripted({
    list: inTurn(listOf(100, item('one', 90, 1)), listOf(130, item('one', 70, 2))),
    watch: (n, response) => {
      if (n === 0) response.destroy();
    },
  });
  const options = { fieldSelector: 'metadata.name=one' };
  const { changes } = start(await startServer(script), options);
  await until(() => changes.length === 2);
  expect(changes).toEqual(['added a/one 90', 'changed a/one 70']);
});

test('an event or bookmark older than the last one is ignored', async () => {
  const script = scripted({
    list: inTurn(listOf(100), listOf(101, item('two', 101))),
    watch: writing(event('ADDED', item('one', 99)), bookmark(9)),
  });
  const { changes } = start(await startServer(script));
  await until(() => script.lists() === 3);
  expect(changes).toEqual(['added a/two 101']);
});

test('invalid data on the wire is survived', async () => {
  const script = scripted({
    list: inTurn(listOf(10)),
    watch: (n, response) => {
      const lines = ['{"type":', '[]\n', event('SURPRISE', {}), '\n\n'];
      if (n < lines.length) response.end(lines[n]);
      else response.write(event('ADDED', item('one', 11)));
    },
  });
  const { changes } = start(await startServer(script));
  await until(() => changes.length === 1);
});

test('a consumer that throws or rejects loses nothing and stops nothing', async () => {
  const script = scripted({
    list: inTurn(listOf(10, item('one', 5))),
    watch: writing(event('ADDED', item('two', 11))),
  });
  const errors: unknown[] = [];
  const seen: string[] = [];
  const log = { ...quiet, error: (fields: object) => errors.push(fields) };
  const onChange = (key: string): unknown => {
    seen.push(key);
    if (key === 'a/one') throw new Error('sync');
    return Promise.reject(new Error('async'));
  };
  start(await startServer(script), { onChange, log });
  await until(() => errors.length === 2);
  expect(seen).toEqual(['a/one', 'a/two']);
});

test('a stop during a list prevents the watch', async () => {
  const held: ServerResponse[] = [];
  const script = scripted({
    list: (_n, response) => {
      held.push(response);
    },
  });
  const { stop, reflector, changes } = start(await startServer(script));
  await until(() => held.length === 1);
  const stopping = stop();
  for (const response of held) sendJson(response, listOf(10, item('one', 5)));
  await stopping;
  await new Promise((resolve) => setTimeout(resolve, 20));
  expect([script.watches(), changes.length, reflector.hasSynced()]).toEqual([0, 0, false]);
});

test('a stop during backoff or a watch takes effect immediately', async () => {
  const failing = start(await startServer(scripted({ list: inTurn(FORBIDDEN) })), {
    timing: { backoff: { baseMs: 60_000, maxMs: 60_000 } },
  });
  await until(() => failing.warnings.length > 0);
  await failing.stop();
  const script = scripted({ list: inTurn(listOf(10)) });
  const watching = start(await startServer(script));
  await until(() => script.watches() === 1);
  await watching.stop();
  await expect(watching.reflector.whenSynced(AbortSignal.abort(new Error('over')))).rejects.toThrow('over');
});

test('managedFields are removed, unless the transform keeps them', async () => {
  const one = item('one', 5);
  const managed = { ...one, metadata: { ...one.metadata, managedFields: [{ manager: 'kubectl' }] } };
  const script = () => scripted({ list: inTurn(listOf(10, managed)) });
  const plain = start(await startServer(script()));
  await plain.reflector.whenSynced(AbortSignal.timeout(1_000));
  expect(JSON.stringify(plain.store.list())).not.toContain('kubectl');
  const keeping = start(await startServer(script()), { transform: (object) => object });
  await keeping.reflector.whenSynced(AbortSignal.timeout(1_000));
  expect(JSON.stringify(keeping.store.list())).toContain('kubectl');
});

test.each([
  ['older than', 7],
  ['newer than', 12], // the rolled-back cluster has written more by then
])(
  'C4: a requested list %s the watch runs even if that looks healthy, and emits unchanged objects too',
  async (_age, version) => {
    const after = [item('one', 5, 1), item('three', 6)];
    const script = scripted({
      // After the rollback: `one` has another state under the same resourceVersion, `two` is gone, `three` is back.
      list: inTurn(listOf(10, item('one', 5), item('two', 9)), listOf(version, ...after)),
      watch: () => undefined, // silent: its resourceVersion is in the future
    });
    const server = await startServer(script);
    const { store, changes, reflector } = start(server);
    await until(() => script.watches() === 1);
    changes.length = 0;
    reflector.relist();
    await until(() => script.watches() === 2);
    expect(changes).toEqual(['deleted a/two 9', 'changed a/one 5', 'added a/three 6']);
    expect(store.get('a/one')?.spec?.n).toBe(1);
    expect(server.requests.at(-1)?.url).toContain(`resourceVersion=${version}`);
  },
);

test('a requested list ends the backoff', async () => {
  const server = await startServer(scripted({ list: inTurn(FORBIDDEN, listOf(10)) }));
  const { reflector, warnings } = start(server, {
    timing: { backoff: { baseMs: 3_600_000, maxMs: 3_600_000 } },
    random: () => 0.5,
  });
  await until(() => warnings.length > 0);
  reflector.relist();
  await until(reflector.hasSynced);
});

test('the failure of the latest attempt is known until an attempt succeeds', async () => {
  const script = scripted({
    list: inTurn(FORBIDDEN, listOf(10)),
    watch: (n, response) => {
      if (n === 0) response.end(bookmark(11));
    },
  });
  const failures: boolean[] = [];
  const server = await startServer(script);
  const { reflector } = start(server, { onFailure: () => failures.push(reflector.failure() !== undefined) });
  await until(() => reflector.hasSynced());
  expect(failures).toEqual([true, false]);
});
