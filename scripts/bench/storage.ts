/** Measures the storage of the sandbox with 10,000 objects: `npm run bench:storage`. */
import { parseLabelSelector } from '../../src/sandbox/machinery/selectors/selectors.ts';
import { createStorage } from '../../src/sandbox/machinery/storage/storage.ts';
import type { Place, Storage } from '../../src/sandbox/machinery/storage/stored.ts';
import { configMap } from './objects.ts';
import { mebibytes, perSecond, printTable, whole } from './table.ts';

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

printTable(rows);
console.log(`memory: ${mebibytes(heap)} of heap for the objects and their history`);

function measure(what: string, work: () => number): readonly string[] {
  const start = performance.now();
  const count = work();
  const milliseconds = performance.now() - start;
  return [what, whole(count), milliseconds.toFixed(1), whole(perSecond(count, milliseconds))];
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

/** Bytes on the heap. Node collects garbage first if it runs with `--expose-gc`. */
function heapUsed(): number {
  globalThis.gc?.();
  return process.memoryUsage().heapUsed;
}
