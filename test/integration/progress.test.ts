// suite: processes
/** Progress output of slow commands: shown on a terminal, and hidden from programs. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';

import type { RestoreWindow } from '../../src/api/restore-window.ts';
import {
  applyExamples,
  createNamespace,
  established,
  RESTORE_WINDOWS,
  SERVERS,
  startCluster,
  type Cluster,
} from '../support/cluster.ts';
import type { AuditEvent } from '../support/control-plane.ts';
import { testFolder } from '../support/folder.ts';
import { server } from '../support/objects.ts';
import { eventually } from '../support/processes.ts';
import { runReview } from '../support/review-command.ts';
import { atTerminal, HAS_TERMINAL } from '../support/terminal.ts';

const ROOT = join(import.meta.dirname, '..', '..');
const CLEARED = '\r\u001b[K';

const isOfRestore = ({ userAgent, objectRef }: AuditEvent): boolean =>
  userAgent?.includes('(restore)') === true && objectRef?.name === 'drill';

describe.skipIf(!HAS_TERMINAL)('on a terminal', () => {
  let cluster: Cluster;
  const folder = testFolder('progress');

  beforeAll(async () => {
    vi.stubEnv('GATEHOUSE_TEST_API', 'sandbox'); // this test covers only the command, so any API server will do
    cluster = await startCluster();
    await cluster.applyFolder('base/crds');
    await established(cluster, 'admissionpolicies.gatehouse.dev');
    await established(cluster, 'restorewindows.gatehouse.dev');
    await applyExamples(cluster);
    await createNamespace(cluster, 'shop');
    for (let n = 0; n < 3; n++) await cluster.admin.create(SERVERS, server('shop', `lost-${n}`, 'gone'));
  });
  afterAll(async () => {
    await cluster.stop();
    vi.unstubAllEnvs();
  });

  const gatehouse = (...args: readonly string[]) =>
    [
      ...[process.execPath, join(ROOT, 'src', 'main.ts'), ...args],
      ...['--kubeconfig', cluster.plane.kubeconfig('admin')],
    ].join(' ');

  test('a review of a cluster shows its progress, and clears it before the result', async () => {
    const out = join(folder, 'review.json');
    const { code, screen } = await atTerminal(`${gatehouse('review', '--cluster', '-o', 'json')} > ${out}`, {
      env: { NO_COLOR: undefined },
    });
    expect(code).toBe(1);
    expect(screen).toContain('0%  0 of 3 objects  servers.infra.example.com');
    expect(screen).toContain('\u001b[32m');
    expect(screen.endsWith(CLEARED)).toBe(true);
    expect(JSON.parse(readFileSync(out, 'utf8'))).toBeTypeOf('object');
  });

  test('a pipe receives no progress', async () => {
    const { stderr } = await runReview(['--cluster', '--kubeconfig', cluster.plane.kubeconfig('admin')]);
    expect(stderr).toBe('');
  });

  test('Ctrl-C clears the progress, and ends the process with that signal', async () => {
    const program = `
      import { withProgress } from '${join(ROOT, 'src', 'cli', 'terminal', 'progress.ts')}';
      await withProgress(async (line) => {
        line.show({ what: 'servers', done: 1, total: 2 });
        setTimeout(() => process.kill(process.pid, 'SIGINT'), 50);
        await new Promise((done) => setTimeout(done, 20_000));
      });`;
    const { code, screen } = await atTerminal(
      `exec ${process.execPath} --input-type=module -e "${program.replaceAll('\n', ' ')}"`,
    );
    expect(screen).toContain('1 of 2 objects  servers');
    expect(screen.endsWith(CLEARED)).toBe(true);
    expect(code).toBe(130);
  });

  test('restore status --watch shows the sweep of a window, and its report at the end', async () => {
    const ref = { name: 'drill' };
    const expiresAt = new Date(Date.now() + 3_600_000).toISOString();
    const window: RestoreWindow = { metadata: ref, spec: { principals: [{ user: 'velero' }], expiresAt } };
    await cluster.admin.create(RESTORE_WINDOWS, window);
    const say = async (status: RestoreWindow['status']) => {
      const live = await cluster.admin.get<RestoreWindow>(RESTORE_WINDOWS, ref);
      await cluster.admin.replaceStatus(RESTORE_WINDOWS, { ...window, ...live, ...(status && { status }) });
    };
    const times = { startedAt: '2026-11-21T12:00:00Z', finishedAt: '2026-11-21T12:01:00Z' };
    await say({
      phase: 'Settling',
      currentSweep: {
        startedAt: times.startedAt,
        objectsScanned: 500,
        objectsTotal: 2_000,
        resource: 'servers',
      },
    });
    const plain = await atTerminal(gatehouse('restore', 'status', 'drill'));
    expect(plain.screen).toContain(
      'sweep now   500 of about 2000 objects since 2026-11-21T12:00:00Z, at servers',
    );

    const looks = () => cluster.plane.auditLog().filter(isOfRestore).length;
    const before = looks();
    const watching = atTerminal(gatehouse('restore', 'status', 'drill', '--watch'));
    await eventually('the command reads the window twice', () => looks() > before + 1);
    await say({ phase: 'Completed', lastSweep: { ...times, objectsScanned: 2_000, interim: false } });
    const { code, screen } = await watching;
    expect(screen).toContain('25%  500 of 2,000 objects  servers');
    expect(screen).toContain(`${CLEARED}RestoreWindow drill: Completed`);
    expect(code).toBe(0);
  });
});
