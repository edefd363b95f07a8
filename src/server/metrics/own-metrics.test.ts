import { expect, test } from 'vitest';

import { createMetrics } from './metrics.ts';

const SEEN = { seen_total: { type: 'counter', help: 'Seen.', labels: ['name'] } } as const;
const start = () => {
  const metrics = createMetrics();
  const warnings: string[] = [];
  const log = { warn: (_fields: object, message: string) => warnings.push(message) } as never;
  const controller = (name: string, own: object = SEEN) => {
    const passes = metrics.userController(name, { concurrency: 1, metrics: own as never });
    const add = (label: string) =>
      passes.own({ name: 'seen_total', verb: 'add', value: 1, labels: { name: label } }, log);
    const remove = (label: string) =>
      passes.own({ name: 'seen_total', verb: 'remove', value: 0, labels: { name: label } }, log);
    return { ...passes, add, remove };
  };
  const lines = async () =>
    (await metrics.text()).split('\n').filter((line) => line.startsWith('seen_total{'));
  return { controller, lines, warnings };
};

test('two controllers share a metric; the series of one end with it', async () => {
  const { controller, lines } = start();
  const [a, b] = [controller('a'), controller('b')];
  a.add('x');
  a.add('x');
  b.add('x');
  expect(await lines()).toEqual([
    'seen_total{name="x",controller="a"} 2',
    'seen_total{name="x",controller="b"} 1',
  ]);
  a.endOwn();
  expect(await lines()).toEqual(['seen_total{name="x",controller="b"} 1']);
});

test('a metric with another shape in another controller is refused', () => {
  const { controller } = start();
  controller('a');
  expect(() => controller('b', { seen_total: { type: 'gauge', help: 'Seen.' } })).toThrow(
    'the metric seen_total has another type, other labels or buckets in another controller',
  );
});

test('beyond 1,000 series, one line is logged; a removed series makes room', async () => {
  const { controller, lines, warnings } = start();
  const one = controller('a');
  for (let index = 0; index < 1_005; index += 1) one.add(String(index));
  expect(await lines()).toHaveLength(1_000);
  expect(warnings).toEqual(['a metric has 1000 series: further ones are dropped']);
  one.remove('3');
  one.add('new');
  expect((await lines()).filter((line) => line.includes('"new"'))).toHaveLength(1);
});
