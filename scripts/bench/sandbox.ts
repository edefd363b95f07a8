/**
 * Measures the sandbox over HTTPS with 10,000 objects: `npm run bench:sandbox`. With `-- --check` it fails when the
 * sandbox is too slow. The sandbox runs in its own process. The unit is operations per second of its CPU time, so other
 * load on the machine matters little.
 */
import { randomBytes } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { createSandboxTls } from '../../src/cli/sandbox/tls.ts';
import type { ApiObject } from '../../src/sandbox/machinery/api-object.ts';
import { createClient, times, type List } from './client.ts';
import {
  configMap,
  namespaceOf,
  namespaces,
  widget,
  widgetDefinition,
  widgetPath,
  widgetWebhook,
} from './objects.ts';
import { startServerProcess } from './server-process.ts';
import { mebibytes, perSecond, printTable, whole } from './table.ts';
import { startWebhook } from './webhook.ts';

const OBJECTS = 10_000;
/** The number of writes of each other type. */
const WRITES = 5_000;
const PAGE = 500;
const WATCHES = 100;
const WATCHED_WRITES = 1_000;
/** The minimum number of creations per second of CPU time with `--check`. */
const FLOOR = 1_000;

const CONFIG_MAPS = '/api/v1/configmaps';

interface Measured {
  readonly what: string;
  readonly count: number;
  readonly milliseconds: number;
  readonly cpu: number;
}

const { values: flags } = parseArgs({ options: { check: { type: 'boolean', default: false } } });

const tls = await createSandboxTls(new Date());
const token = randomBytes(16).toString('hex');
const server = await startServerProcess(tls, token);
const webhook = await startWebhook(tls);
const client = createClient(server.port, tls.ca, token);

const empty = await server.memory();
const { resourceVersion: firstRevision } = (await client.list(CONFIG_MAPS)).metadata;
for (const name of namespaces) await client.send('POST', '/api/v1/namespaces', { metadata: { name } });

const creates = await measure('ConfigMaps created', OBJECTS, () =>
  times(OBJECTS, (index) => createConfigMap(index)),
);
const full = await server.memory();
const pages = await measure(`objects listed in pages of ${PAGE}`, OBJECTS, listPages);
let listed: readonly ApiObject[] = [];
const rows: Measured[] = [
  creates,
  pages,
  { ...pages, what: `pages of ${PAGE}`, count: OBJECTS / PAGE },
  await measure('objects listed in one answer', OBJECTS, async () => {
    listed = (await client.list(CONFIG_MAPS)).items;
  }),
  await measure('events replayed to a watch from the first resourceVersion', OBJECTS, async () => {
    const read = await client.watch(`${CONFIG_MAPS}?watch=1&resourceVersion=${firstRevision}`);
    await read(OBJECTS);
  }),
  await measure('updates (PUT with resourceVersion)', WRITES, () =>
    times(WRITES, (index) => update(listed[index])),
  ),
  await measure('merge patches', WRITES, () => times(WRITES, mergePatch)),
  await measure('server-side applies', WRITES, () => times(WRITES, apply)),
  await measureWidgets(),
  ...(await measureWatched()),
];

await client.close();
webhook.stop();
await server.stop();

printTable([
  ['', 'count', 'ms', 'a second', 'a second of CPU'],
  ...rows.map(({ what, count, milliseconds, cpu }) => [
    what,
    whole(count),
    whole(milliseconds),
    whole(perSecond(count, milliseconds)),
    whole(perSecond(count, cpu)),
  ]),
]);
console.log(
  `memory: ${mebibytes(empty.rss)} and ${mebibytes(empty.heap)} of it heap when empty, ` +
    `${mebibytes(full.rss)} and ${mebibytes(full.heap)} with ${whole(OBJECTS)} objects`,
);

const rate = perSecond(creates.count, creates.cpu);
if (flags.check && rate < FLOOR) {
  console.error(`too slow: ${whole(rate)} creates per second of CPU time instead of ${whole(FLOOR)}`);
  process.exitCode = 1;
}

async function measure(what: string, count: number, work: () => Promise<void>): Promise<Measured> {
  const cpuBefore = await server.cpuTime();
  const start = performance.now();
  await work();
  const milliseconds = performance.now() - start;
  return { what, count, milliseconds, cpu: (await server.cpuTime()) - cpuBefore };
}

function createConfigMap(index: number): Promise<string> {
  return client.send('POST', pathOf(index), configMap(index));
}

async function listPages(): Promise<void> {
  let seen = 0;
  let next: string | undefined = '';
  while (next !== undefined) {
    const page: List = await client.list(`${CONFIG_MAPS}?limit=${PAGE}&continue=${encodeURIComponent(next)}`);
    seen += page.items.length;
    next = page.metadata.continue;
  }
  if (seen !== OBJECTS) throw new Error(`the pages contain ${seen} objects`);
}

function update(object: ApiObject | undefined): Promise<string> {
  const { namespace = '', name = '' } = object?.metadata ?? {};
  const path = `/api/v1/namespaces/${namespace}/configmaps/${name}`;
  return client.send('PUT', path, { ...object, data: { text: 'updated' } });
}

function mergePatch(index: number): Promise<string> {
  const change = { data: { text: `patched ${index}` } };
  return client.send(
    'PATCH',
    `${pathOf(index)}/settings-${index}?fieldManager=patch`,
    change,
    'application/merge-patch+json',
  );
}

/** Sends JSON, as kubectl and client-go do. */
function apply(index: number): Promise<string> {
  const change = {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { labels: { applied: 'true' } },
    data: { applied: `${index} `.padEnd(760, 'lorem ipsum ') },
  };
  return client.send(
    'PATCH',
    `${pathOf(index)}/settings-${index}?fieldManager=apply`,
    change,
    'application/apply-patch+yaml',
  );
}

/** Custom resources with a schema, defaults, and a webhook call for each write. */
async function measureWidgets(): Promise<Measured> {
  const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
  const configurations = '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations';
  await client.send('POST', definitions, widgetDefinition);
  await client.send('POST', configurations, widgetWebhook(webhook.url, tls.ca));
  while (!(await isServed(widgetPath(0)))) await setTimeout(10);

  const measured = await measure('custom resources created, each shown to a webhook', WRITES, () =>
    times(WRITES, (index) => client.send('POST', widgetPath(index), widget(index))),
  );
  if (webhook.asked() !== WRITES) throw new Error(`the webhook was called ${webhook.asked()} times`);
  return measured;
}

function isServed(path: string): Promise<boolean> {
  return client.list(path).then(
    () => true,
    () => false,
  );
}

/** Measures how much watches slow down writes. Each watch receives every event. */
async function measureWatched(): Promise<readonly Measured[]> {
  const { resourceVersion } = (await client.list(`${CONFIG_MAPS}?limit=1`)).metadata;
  const path = `${CONFIG_MAPS}?watch=1&resourceVersion=${resourceVersion}`;
  const reads = await Promise.all(Array.from({ length: WATCHES }, () => client.watch(path)));
  const writes = await measure(`ConfigMaps created with ${WATCHES} watches`, WATCHED_WRITES, async () => {
    const writes = times(WATCHED_WRITES, (index) => createConfigMap(OBJECTS + index));
    await Promise.all([writes, ...reads.map((read) => read(WATCHED_WRITES))]);
  });
  return [
    writes,
    { ...writes, what: `events delivered to ${WATCHES} watches`, count: WATCHES * WATCHED_WRITES },
  ];
}

function pathOf(index: number): string {
  return `/api/v1/namespaces/${namespaceOf(index)}/configmaps`;
}
