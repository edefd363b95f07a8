import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';

import { startSandbox } from './sandbox.ts';
import { openPersistence } from './server/persistence/persistence.ts';
import { createStorage } from './machinery/storage/storage.ts';

test('a sandbox that cannot start releases its data folder', async () => {
  const dataFolder = mkdtempSync(join(tmpdir(), 'sandbox-'));
  onTestFinished(() => {
    rmSync(dataFolder, { recursive: true });
  });
  const tls = { cert: 'no certificate', key: 'no key' };
  await expect(startSandbox({ dataFolder, tls, users: new Map() })).rejects.toThrow();
  const { initial, attach } = openPersistence(dataFolder);
  attach(createStorage({ initial })).close();
});
