import { expect, test } from 'vitest';

import { createMetrics } from './metrics.ts';

const notAfter = new Date('2028-01-01T00:00:00Z');

test('service-ca e2e service-ca-metrics: the leader tells the phase of the authority and when its generations end, and only what holds now', async () => {
  const metrics = createMetrics();
  metrics.authority({
    phase: 'publishing',
    broken: undefined,
    generations: [{ id: '11111111', state: 'pending', notAfter }],
  });
  metrics.authority({
    phase: 'broken',
    broken: 'Unreadable',
    generations: [{ id: '22222222', state: 'active', notAfter }],
  });
  const text = await metrics.text();
  expect(text).toContain(
    'gatehouse_serving_ca_not_after_seconds{generation="22222222",state="active"} 1830297600',
  );
  expect(text).toContain('gatehouse_authority_broken{reason="Unreadable"} 1');
  expect(text).toContain('gatehouse_rotation_phase{phase="broken"} 1');
  expect(text).not.toMatch(/11111111|publishing/);
});

test('a replica that does not lead tells nothing of the authority', async () => {
  const metrics = createMetrics();
  metrics.authority({
    phase: 'steady',
    broken: undefined,
    generations: [{ id: 'a', state: 'active', notAfter }],
  });
  metrics.authorityUnknown();
  expect(await metrics.text()).not.toMatch(/gatehouse_rotation_phase(_seconds)?\{|not_after_seconds\{/);
});

test('the skew of the clock is asked at each scrape', async () => {
  const metrics = createMetrics();
  metrics.clockSkew(() => -1_500);
  expect(await metrics.text()).toContain('gatehouse_clock_skew_seconds -1.5');
});
