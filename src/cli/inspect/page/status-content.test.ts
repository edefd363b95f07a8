import { expect, test } from 'vitest';

import type { RestoreWindow } from '../../../api/restore-window.ts';
import type { ClusterReadings } from '../status/read-cluster.ts';
import {
  at,
  CIRCUMSTANCES,
  FORBIDDEN,
  healthy,
  policy,
  read,
  restoreWindow,
} from '../../../../test/support/cli/readings.ts';
import { statusReport } from '../status/report/status-report.ts';
import { MOST_ROWS } from './parts.ts';
import { statusContent } from './status-content.ts';

const HOUR = 3_600_000;

function contentOf(change: Partial<ClusterReadings> = {}, windows: readonly RestoreWindow[] = []): string {
  return statusContent(statusReport({ ...healthy, ...change }, CIRCUMSTANCES), windows).text;
}

test('a cluster in which all is well says so, and has each part on the page', () => {
  const text = contentOf();
  expect(text).toContain('Everything is fine.');
  for (const id of ['authority', 'serving-certs', 'targets', 'policies', 'windows', 'leader']) {
    expect(text).toContain(`<section id="${id}"`);
    expect(text).toContain(`href="#${id}"`);
  }
  expect(text).toMatch(/Generation [0-9a-f]{8} · active/);
  expect(text).toContain('db-tls');
  expect(text).not.toContain('PRIVATE KEY');
});

test('what tenants have written is text', () => {
  const evil = `<img src=x onerror="alert('x')">`;
  const text = contentOf({ policies: read([policy({ status: 'False', message: `${evil}\nline two` })]) }, [
    {
      ...restoreWindow('Open', at(HOUR)),
      spec: { principals: [{ user: evil }], expiresAt: at(HOUR), reason: evil },
    },
  ]);
  expect(text).not.toContain('<img');
  expect(text).toContain('&lt;img src=x onerror=&quot;alert(&#39;x&#39;)&quot;&gt;');
  expect(text).toMatch(/<br \/>\s*line two/);
});

test('the policy has no place for styles and scripts in attributes, and the content has none', () => {
  const text = contentOf({}, [
    restoreWindow('Open', at(HOUR)),
    restoreWindow('CompletedWithViolations', at(0)),
  ]);
  expect(text).not.toMatch(/ style=| on[a-z]+=|<script|<style|javascript:/i);
});

test('a part that may not be read says so in its place, and is not called fine', () => {
  const text = contentOf({ policies: FORBIDDEN, pods: FORBIDDEN });
  expect(text).toContain('you may not read AdmissionPolicies: alice may not');
  expect(text).toContain('Nothing is wrong in what could be read.');
  expect(text).not.toContain('There is none.');
});

test('a window that is swept shows how far it is, and an open one how long it may be', () => {
  const sweeping = restoreWindow('Settling', at(HOUR));
  const currentSweep = {
    ...{ startedAt: at(0), objectsScanned: 250, objectsTotal: 1_000, resource: 'servers.infra.example.com' },
  };
  const swept = contentOf({}, [{ ...sweeping, status: { ...sweeping.status, currentSweep } }]);
  expect(swept).toContain('250 of about 1000 objects read, now servers.infra.example.com');
  expect(swept).toContain('width="25.0%"');

  const open = restoreWindow('Open', at(HOUR));
  const text = contentOf({}, [{ ...open, status: { ...open.status, openedAt: at(-HOUR) } }]);
  expect(text).toContain('expires in 60m');
  expect(text).toContain('width="50.0%"');
});

test('a second later the page is the same: nothing is sent to those who watch', () => {
  const contentAfter = (ms: number) => {
    const now = new Date(CIRCUMSTANCES.now.getTime() + ms);
    return statusContent(statusReport(healthy, { ...CIRCUMSTANCES, now }), []).text;
  };
  expect(contentAfter(11_000)).toBe(contentAfter(10_000));
});

test('of thousands the first are shown, and those with problems before all others', () => {
  const many = Array.from({ length: MOST_ROWS + 50 }, (_none, index) => {
    const name = `p${String(index).padStart(4, '0')}`;
    const isLast = index === MOST_ROWS + 49;
    return {
      ...policy(isLast ? { status: 'False', message: 'broken' } : {}),
      metadata: { name, generation: 3 },
    };
  });
  const text = contentOf({ policies: read(many) });
  expect(text).toContain('and 50 more');
  expect(text).toContain('role="rowheader">p0249</th>');
  expect(text).not.toContain('role="rowheader">p0200</th>');
});
