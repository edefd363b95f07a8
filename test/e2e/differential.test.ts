// suite: shared-plane, sandbox: no (it compiles no policies for the API server), slow
/** A short round of scripts/differential.ts, which the nightly run plays at length. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

const SCRIPT = join(import.meta.dirname, '..', '..', 'scripts', 'differential.ts');

test(
  'webhook and compiled policies judge and change requests alike, even after the end of Gatehouse',
  { timeout: 300_000 },
  async () => {
    const flags = ['--requests', '1', '--kinds', '20', '--each', '40', '--seed', '1'];
    const { stdout } = await promisify(execFile)(process.execPath, [SCRIPT, ...flags]).catch(
      (error: unknown) => error as { readonly stdout: string }, // the exit code is 1 after a difference
    );
    expect(stdout).not.toContain('DIFFERENCE');
    const seen = JSON.parse(/\{"requests":.*/.exec(stdout)?.[0] ?? '{}') as Record<string, number>;
    const { requests = 0, dead = 0, refused = 0, warned = 0, noted = 0, deletions = 0 } = seen;
    expect(dead).toBeGreaterThan(Math.max(100, requests * 0.3)); // older API servers enforce fewer policies
    for (const some of [refused, warned, noted, deletions]) expect(some).toBeGreaterThan(requests * 0.05);
  },
);
