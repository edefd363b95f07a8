import { expect, test } from 'vitest';

import type { AdmissionPolicy } from '../../../api/admission-policy.ts';
import type { RestoreWindow } from '../../../api/restore-window.ts';
import type { ClusterReadings } from '../read-cluster/read-cluster.ts';
import {
  at,
  REPORT_CONTEXT,
  healthy,
  policy,
  PRIVATE_KEY,
  read,
  restoreWindow,
} from '../../../../test/support/cli/readings.ts';
import { POLICIES } from '../../../../test/support/status-scene.ts';
import { statusReport } from '../status/report/status-report.ts';
import { MAX_ROWS } from './parts.ts';
import { statusContent } from './status-page.ts';

const HOUR = 3_600_000;

function contentOf(
  change: Partial<ClusterReadings> = {},
  windows: readonly RestoreWindow[] = [],
  policies: readonly AdmissionPolicy[] = [],
): string {
  return statusContent(statusReport({ ...healthy, ...change }, REPORT_CONTEXT), windows, policies).text;
}

test('the page of a healthy cluster has all parts', () => {
  const text = contentOf();
  expect(text).toContain('Gatehouse is healthy.');
  for (const id of ['authority', 'serving-certs', 'targets', 'policies', 'windows', 'leader']) {
    expect(text).toContain(`<section id="${id}"`);
    expect(text).toContain(`href="#${id}"`);
  }
  expect(text).toMatch(/Generation [0-9a-f]{8} · active/);
  expect(text).toContain('db-tls');
  for (const form of PRIVATE_KEY) expect(text).not.toContain(form);
});

test('text from tenants is escaped', () => {
  const evil = `<img src=x onerror="alert('x')">`;
  const policies = read([policy({ status: 'False', message: `${evil}\nline two` })]);
  const spec = { principals: [{ user: evil }], expiresAt: at(HOUR), reason: evil };
  const text = contentOf({ policies }, [{ ...restoreWindow('Open', at(HOUR)), spec }]);
  expect(text).not.toContain('<img');
  expect(text).toContain('&lt;img src=x onerror=&quot;alert(&#39;x&#39;)&quot;&gt;');
  expect(text).toMatch(/<br \/>\s*line two/);
});

test('a sweep shows its progress, and an open window its remaining time', () => {
  const sweeping = restoreWindow('Settling', at(HOUR));
  const currentSweep = {
    startedAt: at(0),
    objectsScanned: 250,
    objectsTotal: 1_000,
    resource: 'servers.infra.example.com',
  };
  const swept = contentOf({}, [{ ...sweeping, status: { ...sweeping.status, currentSweep } }]);
  expect(swept).toContain('250 of about 1000 objects read, now servers.infra.example.com');
  expect(swept).toContain('width="25.0%"');

  const open = restoreWindow('Open', at(HOUR));
  const text = contentOf({}, [{ ...open, status: { ...open.status, openedAt: at(-HOUR) } }]);
  expect(text).toContain('expires in 60m');
  expect(text).toContain('width="50.0%"');
});

test('one second later the page is the same, so that nothing is sent', () => {
  const contentAfter = (ms: number) => {
    const now = new Date(REPORT_CONTEXT.now.getTime() + ms);
    return statusContent(statusReport(healthy, { ...REPORT_CONTEXT, now }), [], []).text;
  };
  expect(contentAfter(11_000)).toBe(contentAfter(10_000));
});

test('over the row limit, rows with problems come first', () => {
  const many = Array.from({ length: MAX_ROWS + 50 }, (_none, index) => {
    const name = `p${String(index).padStart(4, '0')}`;
    const broken = index === MAX_ROWS + 49 ? { status: 'False' as const, message: 'broken' } : {};
    return { ...policy(broken), metadata: { name, generation: 3 } };
  });
  const text = contentOf({ policies: read(many) });
  expect(text).toContain('and 50 more');
  expect(text).toContain('role="rowheader">p0249</th>');
  expect(text).not.toContain('role="rowheader">p0200</th>');
});

test('references between kinds are a picture, and a table with the violations of each', () => {
  const text = contentOf({}, [], POLICIES);
  for (const kind of ['servers', 'racks', 'datacenters', 'volumes'])
    expect(text.match(new RegExp(`>${kind}\\.infra\\.example\\.com</text`, 'g'))).toHaveLength(1);
  expect(text.match(/class="arc"/g)).toHaveLength(4);
  expect(text).toContain(
    '<title>servers.infra.example.com to datacenters.infra.example.com: 1 reference, 12 violations</title>',
  );
  expect(text.match(/<rect[^>]*class="count"/g)).toHaveLength(1);
  expect(text).toContain('not counted yet');
  expect(contentOf()).toContain('No policy in force has a reference.');
});

test('references come from the version in force', () => {
  const [servers, racks] = POLICIES;
  if (servers === undefined || racks === undefined) throw new Error('the scene has policies');
  const inForce = { generation: 1, spec: racks.spec };
  const text = contentOf({}, [], [{ ...servers, status: { ...servers.status, inForce } }]);
  expect(text).toContain('>racks.infra.example.com</text');
  expect(text).not.toContain('>servers.infra.example.com</text');
});
