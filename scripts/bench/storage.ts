/** How quick the sandbox's storage is with 10,000 objects: `node --expose-gc scripts/bench/storage.ts`. */
import type { ApiObject } from '../../src/sandbox/api-object.ts';
import { parseLabelSelector } from '../../src/sandbox/selectors.ts';
import { createStorage } from '../../src/sandbox/storage/storage.ts';
import type { Place, Storage } from '../../src/sandbox/storage/stored.ts';

const OBJECTS = 10_000;
const PAGE = 500;
const PLACE: Place = { group: '', resource: 'configmaps' };

const started = heapUsed();
const storage = createStorage({ history: 2 * OBJECTS });

const rows = [
  ['', 'count', 'ms', 'a second'],
  measure('objects created', () => {
    for (let index = 0; index < OBJECTS; index += 1) storage.create(PLACE, configMap(index));
    return OBJECTS;
  }),
];
const heap = heapUsed() - started;
rows.push(
  measure('objects updated', () => {
    for (const object of storage.list(PLACE).items) {
      storage.replace(PLACE, { ...object }, object.metadata.resourceVersion ?? '');
    }
    return OBJECTS;
  }),
  measure(`objects listed in pages of ${PAGE}`, () => listPages(storage)),
  measure('the same, with a write after each page', () =>
    listPages(storage, () => storage.create(PLACE, configMap(storage.revision()))),
  ),
  measure('objects put to a label selector', () => {
    const selects = parseLabelSelector('app in (a,b),index!=7');
    storage.list(PLACE, { accepts: ({ metadata }) => selects(metadata.labels) });
    return storage.count(PLACE);
  }),
  measure('events replayed to a watch', () => {
    let events = 0;
    storage.watch(PLACE, 1, () => (events += 1))();
    return events;
  }),
);

for (const [what = '', ...figures] of rows) {
  console.log(what.padEnd(40) + figures.map((figure) => figure.padStart(12)).join(''));
}
console.log(`heap for the objects and their history: ${(heap / 2 ** 20).toFixed(1)} MiB`);

function measure(what: string, work: () => number): string[] {
  const start = performance.now();
  const count = work();
  const milliseconds = performance.now() - start;
  return [what, String(count), milliseconds.toFixed(1), String(Math.round((count / milliseconds) * 1_000))];
}

function listPages(from: Storage, between: () => void = () => undefined): number {
  let count = 0;
  let continueToken: string | undefined = '';
  while (continueToken !== undefined) {
    const page = from.list(PLACE, { limit: PAGE, continueToken });
    count += page.items.length;
    continueToken = page.continueToken;
    between();
  }
  return count;
}

/** About 600 bytes as JSON, spread over 20 namespaces. */
function configMap(index: number): ApiObject {
  const labels = { app: index % 2 === 0 ? 'a' : 'b', index: String(index) };
  return Object.assign(
    { data: { text: `${index} `.repeat(64) } },
    {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { namespace: `team-${index % 20}`, name: `settings-${index}`, uid: `uid-${index}`, labels },
    },
  );
}

/** Bytes in use, after a collection where node was started with `--expose-gc`. */
function heapUsed(): number {
  globalThis.gc?.();
  return process.memoryUsage().heapUsed;
}
