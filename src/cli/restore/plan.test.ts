import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test, vi } from 'vitest';

import { planRestore } from './plan.ts';

const cluster = {
  ...{ server: 'https://cluster.example.com', version: { gitVersion: 'v1.36.2', major: 1, minor: 36 } },
  client: { listAll: () => Promise.reject(new Error('nothing is served')) },
  discovery: { servedIn: () => Promise.resolve([]) },
};

test('plan ends after all of the runbook is written: the process exits then', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-plan-'));
  mkdirSync(join(folder, 'metadata'));
  writeFileSync(join(folder, 'metadata', 'version'), '1.1.0');
  let isWritten = false;
  const write = vi.spyOn(process.stdout, 'write').mockImplementation((_text: unknown, done: unknown) => {
    setImmediate(() => {
      isWritten = true;
      (done as () => void)(); // the callback of `print`
    });
    return false;
  });
  onTestFinished(() => {
    write.mockRestore();
    rmSync(folder, { recursive: true });
  });
  await planRestore(cluster, folder, {
    ...{ veleroNamespace: 'velero', includeNamespaces: [], namespaceMappings: [] },
    existingResourcePolicy: 'none',
  });
  expect(isWritten).toBe(true);
});
