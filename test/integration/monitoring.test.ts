/** Alerts and panels use only exported metrics: otherwise they show nothing, and users would not notice. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';

import { createMetrics } from '../../src/server/metrics/metrics.ts';

interface Rule {
  readonly alert: string;
  readonly expr: string;
}
interface Dashboard {
  readonly panels: readonly {
    readonly title: string;
    readonly targets?: readonly { readonly expr: string; readonly legendFormat: string }[];
  }[];
  readonly templating: { readonly list: readonly { readonly query: string | { readonly query: string } }[] };
}

const ROOT = join(import.meta.dirname, '..', '..');
const MONITORING = join(ROOT, 'deploy', 'monitoring');

const { spec } = parse(readFileSync(join(MONITORING, 'prometheus-rule.yaml'), 'utf8')) as {
  readonly spec: { readonly groups: readonly { readonly rules: readonly Rule[] }[] };
};
const rules = spec.groups.flatMap((group) => group.rules);

const dashboard = JSON.parse(readFileSync(join(MONITORING, 'dashboard.json'), 'utf8')) as Dashboard;
const queries = dashboard.panels.flatMap(({ title, targets = [] }) =>
  targets.map(({ expr }) => ({ title, expr })),
);

const exported = new Set(
  [...(await createMetrics().text()).matchAll(/^# TYPE (\S+) (\S+)$/gm)].flatMap(([, name = '', type]) =>
    type === 'histogram' ? [`${name}_bucket`, `${name}_count`, `${name}_sum`] : [name],
  ),
);

const WORDS = /^(?:and|or|unless|by|without|on|ignoring|group_left|group_right|bool|offset|inf|nan)$/i;

function metricsIn(expr: string): readonly string[] {
  const bare = expr
    .replaceAll(/"[^"]*"|'[^']*'/g, '')
    .replaceAll(/\{[^}]*\}|\[[^\]]*\]/g, ' ')
    .replaceAll(/\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^)]*\)/g, ' ');
  return [...bare.matchAll(/(?<![\w:.])[a-zA-Z_:][\w:]*(?!\s*\()(?![\w:])/g)]
    .map(([name]) => name)
    .filter((name) => !WORDS.test(name));
}

const missing = (expr: string) => metricsIn(expr).filter((name) => !exported.has(name));

test.each([...rules.map(({ alert, expr }) => ({ title: alert, expr })), ...queries])(
  '"$title" queries exported metrics: $expr',
  ({ expr }) => {
    expect(metricsIn(expr).length).toBeGreaterThan(0);
    expect(missing(expr)).toEqual([]);
  },
);

test('every query of the dashboard selects only the chosen job, and its legend names the labels of its lines', () => {
  for (const { expr, legendFormat } of dashboard.panels.flatMap(({ targets = [] }) => targets)) {
    expect(expr).toContain('job=~"$job"');
    for (const [, label = ''] of legendFormat.matchAll(/\{\{(\w+)\}\}/g))
      expect(expr, legendFormat).toMatch(new RegExp(`by \\([^)]*\\b${label}\\b`));
  }
});

test('the dashboard selects jobs with an exported metric', () => {
  const asked = dashboard.templating.list.flatMap(({ query }) =>
    typeof query === 'string' ? [] : [...query.query.matchAll(/^label_values\((\w+), job\)$/g)],
  );
  expect(asked.map(([, name = '']) => exported.has(name))).toEqual([true]);
});

test('every metric of Gatehouse is on the dashboard', () => {
  const shown = new Set(queries.flatMap(({ expr }) => metricsIn(expr)));
  const own = [...exported].filter(
    (name) => name.startsWith('gatehouse_') && !/_(?:sum|count|bucket)$/.test(name),
  );
  expect(own.filter((name) => !shown.has(name))).toEqual([]);
});

const pageOf = (name: string): string => readFileSync(join(ROOT, 'docs', name), 'utf8');

test('docs/trust.md or docs/operating.md says what to do about every alert', () => {
  const pages = pageOf('trust.md') + pageOf('operating.md');
  expect(rules.filter(({ alert }) => !pages.includes(`\`${alert}\``))).toEqual([]);
});
