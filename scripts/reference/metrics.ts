/** All metrics, as a documentation page. */
import { METRICS } from '../../src/server/metrics/catalog.ts';
import { cell, code, table, type File } from './page.ts';

export function metricsPage(): File {
  const rows = Object.values(METRICS).map(({ name, type, labelNames, help }) => [
    code(name),
    type,
    labelNames.map(code).join(', ') || '–',
    cell(help),
  ]);
  const text = [
    'Each replica serves `/metrics` on the operations port (8080). Only the leader reports some metrics, so aggregate with `max`.',
    'Times are seconds, and dates are seconds since 1970. The process also reports `process_*` and `nodejs_*`.',
  ].join(' ');
  return {
    file: 'metrics.md',
    title: 'Metrics',
    text: `${text}\n\n${table(['name', 'type', 'labels', 'meaning'], rows)}`,
  };
}
