/** The API server is away when a process starts, or while one runs that logs everything. test/cluster/diagnosis.test.ts restarts a real one. */
import { createServer, type Server, type ServerResponse } from 'node:http';
import { readFileSync } from 'node:fs';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { expect, onTestFinished, test } from 'vitest';

import { createConnection } from '../../src/kube/connection.ts';
import { createElection } from '../../src/kube/lease/lease.ts';
import * as kinds from '../../src/kube/well-known.ts';
import { connect } from '../../src/runtime/context.ts';
import { AWAIT_CHANGE, startController } from '../../src/runtime/controller.ts';
import { createLog } from '../../src/runtime/log.ts';
import { watch } from '../../src/runtime/watch.ts';
import { createMetrics } from '../../src/server/metrics/metrics.ts';
import { testFolder } from '../support/folder.ts';
import { sendJson } from '../support/kube/fake-api-server.ts';
import { eventually } from '../support/processes.ts';

const WATCHED = [
  kinds.secrets,
  kinds.services,
  kinds.configMaps,
  kinds.namespaces,
  kinds.pods,
  kinds.deployments,
  kinds.endpointSlices,
  kinds.customResourceDefinitions,
];

/** An API server without objects, which can go away and come back. */
function createFakeServer() {
  const open = new Set<ServerResponse>();
  let server: Server | undefined;
  let port = 0;
  let lease = JSON.stringify({ metadata: { namespace: 'a', name: 'one', resourceVersion: '5' }, spec: {} });
  const answer = (method: string, url: URL, body: string, response: ServerResponse) => {
    if (url.pathname === '/version') {
      sendJson(response, { major: '1', minor: '37', gitVersion: 'v1.37.2' });
    } else if (url.searchParams.get('watch') === 'true') {
      response.writeHead(200, { 'content-type': 'application/json' }).flushHeaders();
      open.add(response);
      response.on('close', () => open.delete(response));
    } else if (url.pathname.endsWith('/leases/one')) {
      if (method === 'PUT') lease = body;
      sendJson(response, JSON.parse(lease));
    } else if (method === 'GET') sendJson(response, { metadata: { resourceVersion: '70' }, items: [] });
    else sendJson(response, {}, 201);
  };
  const start = async () => {
    const next = createServer((request, response) => {
      void text(request).then((body) => {
        answer(request.method ?? '', new URL(request.url ?? '', 'http://fake'), body, response);
      });
    });
    await new Promise<void>((resolve) => next.listen(port, '127.0.0.1', resolve));
    port = (next.address() as AddressInfo).port; // it listens on a TCP port
    server = next;
  };
  const stop = async () => {
    server?.closeAllConnections();
    await new Promise((resolve) => server?.close(resolve));
  };
  return {
    start,
    stop,
    url: () => `http://127.0.0.1:${port}`,
    watches: () => open.size,
  };
}

const folder = testFolder('outage');

function logTo(level: string) {
  const file = join(folder, 'log');
  return {
    log: createLog(level, 'one', file),
    lines: () =>
      readFileSync(file, 'utf8')
        .split('\n')
        .filter((line) => line !== '')
        .map((line) => JSON.parse(line) as { readonly level: string; readonly msg: string }), // as pino writes them
  };
}

/** A process with watches, a lease and a controller that reads all the time. */
async function startProcess(url: string, log: ReturnType<typeof createLog>) {
  const ended = new AbortController();
  const connection = createConnection({ server: url }, () => Promise.resolve({ headers: {}, tls: {} }));
  const config = { namespaces: undefined } as Parameters<typeof connect>[1]['config']; // connect reads nothing else
  const parts = { config, identity: 'one', metrics: createMetrics(), tracing: undefined, log };
  const { context, urgent } = await connect(connection, parts, ended.signal);
  for (const resource of WATCHED) watch(context, { resource }, ended.signal);
  const reading = startController(
    context,
    {
      name: 'reading',
      reconcile: async (key, signal) => {
        await context.client.list(kinds.pods, { signal });
        setTimeout(() => reading.add(key), 50);
        return AWAIT_CHANGE;
      },
    },
    ended.signal,
  );
  reading.add('a');
  const times = { durationMs: 3_000, renewDeadlineMs: 2_000, retryMs: 500 };
  const lease = { client: urgent, namespace: 'a', name: 'one', identity: 'one', log, ...times };
  const onStart = (signal: AbortSignal) =>
    new Promise<void>((resolve) => {
      signal.addEventListener('abort', () => resolve());
    });
  const led = createElection(lease).run(onStart, ended.signal);
  onTestFinished(async () => {
    ended.abort(new Error('the test is over'));
    await Promise.allSettled([led, reading.stopped]);
    await connection.close();
  });
}

test('a process that starts before the API server logs one warning', async () => {
  const server = createFakeServer();
  await server.start(); // for a free port
  await server.stop();
  const { log, lines } = logTo('info');
  const started = startProcess(server.url(), log);
  await sleep(4_500); // three attempts
  await server.start();
  onTestFinished(server.stop);
  await started;
  await eventually('it leads', () => lines().some(({ msg }) => msg === 'leading'));
  expect(lines().map(({ level, msg }) => `${level}: ${msg}`)).toEqual([
    'warn: cannot reach the API server',
    'info: the API server answers again',
    'info: connected',
    'info: leading',
  ]);
});

test('for debugging, every failure is in the log', async () => {
  const server = createFakeServer();
  await server.start();
  onTestFinished(server.stop);
  const { log, lines } = logTo('debug');
  await startProcess(server.url(), log);
  await eventually('all watches are open', () => server.watches() === WATCHED.length);
  await server.stop();
  await eventually(
    'each watch has failed',
    () => lines().filter(({ msg }) => msg === 'could not list or watch').length >= WATCHED.length,
  );
  await server.start();
  const failures = lines().filter(({ msg }) => msg === 'could not list or watch');
  expect(new Set(failures.map(({ level }) => level))).toEqual(new Set(['debug']));
});
