/**
 * How quick the sandbox is, over HTTPS and with 10,000 objects: `npm run bench:sandbox`, with `-- --check` to fail when it is
 * too slow. It runs in a process of its own, and what counts is a second of that process's CPU time: how much one core can
 * do, also on a machine that has other work.
 */
import { randomBytes } from 'node:crypto';
import { setTimeout } from 'node:timers/promises';
import { parseArgs } from 'node:util';

import { isJsonArray, isJsonObject, type JsonObject, type JsonValue } from '../../src/admission/json.ts';
import { createSandboxTls } from '../../src/commands/sandbox/tls.ts';
import { toJson } from '../../src/sandbox/api-object.ts';
import { createClient, times } from './client.ts';
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
/** How many writes of each other sort. */
const WRITES = 5_000;
const PAGE = 500;
const WATCHES = 100;
const WATCHED_WRITES = 1_000;
/** Creates in a second of CPU time that `--check` asks for. */
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
const firstRevision = revisionOf(await client.get(CONFIG_MAPS));
for (const name of namespaces) await client.send('POST', '/api/v1/namespaces', { metadata: { name } });

const creates = await measure('ConfigMaps created', OBJECTS, () => createConfigMaps(0, OBJECTS));
const full = await server.memory();
const pages = await measure(`objects listed in pages of ${PAGE}`, OBJECTS, listPages);
let listed: readonly JsonObject[] = [];
const rows: Measured[] = [
  creates,
  pages,
  { ...pages, what: `pages of ${PAGE}`, count: OBJECTS / PAGE },
  await measure('objects listed in one answer', OBJECTS, async () => {
    listed = itemsOf(await client.get(CONFIG_MAPS));
  }),
  await measure('events replayed to a watch from the first resourceVersion', OBJECTS, async () => {
    const read = await client.watch(`${CONFIG_MAPS}?watch=1&resourceVersion=${firstRevision}`);
    await read(OBJECTS);
  }),
  await measure('updates (PUT with resourceVersion)', WRITES, () =>
    times(WRITES, (index) => update(listed[index] ?? {})),
  ),
  await measure('merge patches', WRITES, () =>
    times(WRITES, (index) => patch(index, 'merge-patch', { data: { text: `patched ${index}` } })),
  ),
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
  console.error(
    `too slow: ${whole(rate)} creates in a second of CPU time, and ${whole(FLOOR)} are asked for`,
  );
  process.exitCode = 1;
}

async function measure(what: string, count: number, work: () => Promise<void>): Promise<Measured> {
  const cpuBefore = await server.cpuTime();
  const start = performance.now();
  await work();
  const milliseconds = performance.now() - start;
  return { what, count, milliseconds, cpu: (await server.cpuTime()) - cpuBefore };
}

function createConfigMaps(from: number, count: number): Promise<void> {
  return times(count, (index) => client.send('POST', pathOf(from + index), toJson(configMap(from + index))));
}

async function listPages(): Promise<void> {
  let next = '';
  do {
    const page = await client.get(`${CONFIG_MAPS}?limit=${PAGE}&continue=${encodeURIComponent(next)}`);
    next = textIn(metadataOf(page), 'continue');
  } while (next !== '');
}

function update(object: JsonObject): Promise<string> {
  const metadata = metadataOf(object);
  const path = `/api/v1/namespaces/${textIn(metadata, 'namespace')}/configmaps/${textIn(metadata, 'name')}`;
  return client.send('PUT', path, { ...object, data: { text: 'updated' } });
}

function patch(index: number, language: string, change: JsonObject): Promise<string> {
  const path = `${pathOf(index)}/settings-${index}?fieldManager=${language}`;
  return client.send('PATCH', path, change, `application/${language}+json`);
}

function apply(index: number): Promise<string> {
  const path = `${pathOf(index)}/settings-${index}?fieldManager=apply`;
  const change = {
    apiVersion: 'v1',
    kind: 'ConfigMap',
    metadata: { labels: { applied: 'true' } },
    data: { applied: `${index} `.padEnd(760, 'lorem ipsum ') },
  };
  return client.send('PATCH', path, change, 'application/apply-patch+yaml');
}

/** Custom resources with a schema, defaults and a webhook that is asked about each. */
async function measureWidgets(): Promise<Measured> {
  const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
  const configurations = '/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations';
  await client.send('POST', definitions, widgetDefinition);
  await client.send('POST', configurations, widgetWebhook(webhook.url, tls.ca));
  while (
    !JSON.stringify(await client.get(`${definitions}/${widgetDefinition.metadata.name}`)).includes(
      'Established',
    )
  ) {
    await setTimeout(10);
  }
  return measure('custom resources created, each shown to a webhook', WRITES, () =>
    times(WRITES, (index) => client.send('POST', widgetPath(index), toJson(widget(index)))),
  );
}

/** What watches cost those who write: each sees every event. */
async function measureWatched(): Promise<readonly Measured[]> {
  const now = revisionOf(await client.get(`${CONFIG_MAPS}?limit=1`));
  const path = `${CONFIG_MAPS}?watch=1&resourceVersion=${now}`;
  const reads = await Promise.all(Array.from({ length: WATCHES }, () => client.watch(path)));
  const writes = await measure(`ConfigMaps created with ${WATCHES} watches`, WATCHED_WRITES, async () => {
    const read = reads.map((readEvents) => readEvents(WATCHED_WRITES));
    await createConfigMaps(OBJECTS, WATCHED_WRITES);
    await Promise.all(read);
  });
  return [
    writes,
    { ...writes, what: `events delivered to ${WATCHES} watches`, count: WATCHES * WATCHED_WRITES },
  ];
}

function pathOf(index: number): string {
  return `/api/v1/namespaces/${namespaceOf(index)}/configmaps`;
}

function itemsOf(list: JsonValue): readonly JsonObject[] {
  const items = isJsonObject(list) ? list.items : undefined;
  if (!isJsonArray(items)) throw new Error('the answer is no list');
  return items.filter(isJsonObject);
}

function metadataOf(object: JsonValue): JsonObject {
  const metadata = isJsonObject(object) ? object.metadata : undefined;
  return isJsonObject(metadata) ? metadata : {};
}

function textIn(object: JsonObject, key: string): string {
  const value = object[key];
  return typeof value === 'string' ? value : '';
}

function revisionOf(list: JsonValue): string {
  return textIn(metadataOf(list), 'resourceVersion');
}
