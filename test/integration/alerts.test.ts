/** An alert on a metric that nobody exports never fires, and nobody notices. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { parse } from 'yaml';

import { createMetrics } from '../../src/server/metrics.ts';

interface Rule {
  readonly alert: string;
  readonly expr: string;
  readonly labels: { readonly severity: string };
}

const FILE = join(import.meta.dirname, '..', '..', 'deploy', 'alerts', 'prometheus-rule.yaml');
const { spec } = parse(readFileSync(FILE, 'utf8')) as { spec: { groups: { rules: Rule[] }[] } };
const rules = spec.groups.flatMap((group) => group.rules);

const exported = new Set(
  [...(await createMetrics().text()).matchAll(/^# TYPE (\S+) (\S+)$/gm)].flatMap(([, name = '', type]) =>
    type === 'histogram' ? [`${name}_bucket`, `${name}_count`, `${name}_sum`] : [name],
  ),
);

test.each(rules)('$alert asks for metrics that are exported', ({ expr }) => {
  const asked = expr.match(/\b(?:gatehouse|leader_election)_\w+/g) ?? [];
  expect(asked.length).toBeGreaterThan(0);
  expect(asked.filter((name) => !exported.has(name))).toEqual([]);
});

test('every alert has what to do about it in docs/trust.md', () => {
  const page = readFileSync(join(import.meta.dirname, '..', '..', 'docs', 'trust.md'), 'utf8');
  expect(rules.filter(({ alert }) => !page.includes(`\`${alert}\``))).toEqual([]);
});
