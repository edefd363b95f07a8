import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';

import { ROWS } from './dashboard-panels.ts';
import { renderDashboard } from './render-dashboard.ts';

const FILE = join(import.meta.dirname, '..', 'deploy', 'monitoring', 'dashboard.json');

test('deploy/monitoring/dashboard.json is up to date with the panels; otherwise run `npm run generate`', () => {
  expect(readFileSync(FILE, 'utf8')).toBe(renderDashboard());
});

test('every query selects only the chosen job, and its legend names the labels of its lines', () => {
  const queries = ROWS.flatMap(({ panels }) => panels).flatMap((panel) => Object.entries(panel.queries));
  for (const [legend, expr] of queries) {
    expect(expr).toContain('job=~"$job"');
    for (const [, label = ''] of legend.matchAll(/\{\{(\w+)\}\}/g))
      expect(expr, legend).toMatch(new RegExp(`by \\([^)]*\\b${label}\\b`));
  }
});
