import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { expect, onTestFinished, test, vi } from 'vitest';

import { followChanges } from './sandbox.ts';

test('a change during a reload causes another reload', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-handlers-'));
  onTestFinished(() => {
    rmSync(folder, { recursive: true });
  });
  const write = (text: string) => {
    writeFileSync(join(folder, 'names.ts'), text);
  };
  write('first');

  const followed: string[] = [];
  const stop = new AbortController();
  const following = followChanges(folder, stop.signal, async (file) => {
    followed.push(file);
    if (followed.length > 1) return;
    write('third');
    await sleep(100); // the watcher reports the change during this call
  });
  write('second');
  await vi.waitFor(
    () => {
      expect(followed).toEqual(['names.ts', 'names.ts']);
    },
    { timeout: 10_000 },
  );
  stop.abort();
  await following;
});
