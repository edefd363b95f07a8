import { expect, test } from 'vitest';
import { createEvents, silent } from '../../../test/support/runtime/fixtures.ts';
import { reportIgnoredAnnotations } from './start-injection.ts';

test('Events report at most a hundred Secrets whose annotations are ignored', async () => {
  const events = createEvents();
  const stop = new AbortController();
  const secret = (name: string, annotation: string) => ({
    kind: 'Secret',
    metadata: { namespace: 'shop', name, annotations: { [annotation]: 'true' } },
  });
  const items = [
    secret('fine', 'gatehouse.dev/allow-direct-injection'),
    ...Array.from({ length: 120 }, (_, index) => secret(`ca-${index}`, 'gatehouse.dev/inject-cabundle')),
  ];
  let pages = 0;
  const client = {
    pages: async function* () {
      for (; pages < 2; pages++)
        yield await Promise.resolve({ items: items.slice(pages * 70, pages * 70 + 70) });
    },
  };
  const context = { client, config: { without: [] }, record: events.record, log: silent } as never;
  const running = reportIgnoredAnnotations(context, stop.signal);
  await expect.poll(() => events.all.length).toBe(100);
  expect(events.all[0]).toMatchObject({
    regarding: { kind: 'Secret', namespace: 'shop', name: 'ca-0' },
    reason: 'AnnotationIgnored',
  });
  stop.abort();
  await expect(running).rejects.toThrow();
});
