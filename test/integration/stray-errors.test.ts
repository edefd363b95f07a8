/** Which errors end a process that runs handlers. It is a child process with Node's own error handling. */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';

const run = promisify(execFile);
const MODULE = join(import.meta.dirname, '..', '..', 'src', 'runtime', 'handlers', 'stray-errors.ts');

/** Runs `body` in a child process that survives stray errors of handlers, and prints each error as JSON. */
async function processWith(body: string): Promise<{ out: string; code: number; error: string }> {
  const script = `
    import { setTimeout as sleep } from 'node:timers/promises';
    import { inHandler, surviveStrayErrors } from ${JSON.stringify(MODULE)};
    const stopping = new AbortController();
    const onStray = (handler, error) => console.log(JSON.stringify([handler, error.message]));
    surviveStrayErrors('/handlers/', onStray, stopping.signal);
    const raise = (stack) => { const error = new Error('lost'); error.stack = stack; return error; };
    ${body}
    await sleep(50);
    console.log('alive');`;
  try {
    const { stdout } = await run(process.execPath, ['--input-type=module', '-e', script]);
    return { out: stdout, code: 0, error: '' };
  } catch (thrown) {
    const { stdout, stderr, code } = thrown as { stdout: string; stderr: string; code: number }; // documented by Node
    return { out: stdout, code, error: stderr };
  }
}

test.each([
  ['a promise without an await', `inHandler('a', () => void Promise.reject(new Error('x')));`, ['a', 'x']],
  [
    'a promise that is rejected with a number',
    `inHandler('a', () => void Promise.reject(7));`,
    ['a', 'threw 7, which is not an Error and lacks a stack'],
  ],
  ['a timer', `inHandler('a', () => setTimeout(() => { throw new Error('x'); }, 1));`, ['a', 'x']],
  [
    'code without an async context',
    `void Promise.reject(raise('Error: lost\\n  at f (file:///handlers/a.ts:1:2)'));`,
    [null, 'lost'],
  ],
])('an error from %s of a handler is reported, and the process continues', async (_what, body, told) => {
  const { out, code } = await processWith(body);
  expect(code).toBe(0);
  expect(out.split('\n')).toEqual([JSON.stringify(told), 'alive', '']);
});

test.each([
  ['a rejected promise', `void Promise.reject(new Error('ours'));`],
  ['an exception', `setTimeout(() => { throw new Error('ours'); }, 1);`],
])('%s of Gatehouse itself still ends the process, with its stack', async (_what, body) => {
  const { out, code, error } = await processWith(body);
  expect({ out, code }).toEqual({ out: '', code: 1 });
  expect(error).toMatch(/uncaught exception: Error: ours\n +at /);
});

test('errors end the process after the shutdown has begun', async () => {
  const { code } = await processWith(
    `stopping.abort(); inHandler('a', () => void Promise.reject(new Error('x')));`,
  );
  expect(code).toBe(1);
});
