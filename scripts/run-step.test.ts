import { expect, test } from 'vitest';

import { isAsSaid, runCommand, runStep } from './run-step.ts';

const shell = { cwd: import.meta.dirname, env: { PATH: process.env.PATH } };

test('bash runs a command, and its output contains stdout and stderr', async () => {
  expect(await runCommand('echo one; echo two >&2; exit 3', shell)).toEqual({
    code: 3,
    printed: 'one\ntwo\n',
  });
});

test('a step without expected output must succeed, and other steps may show a failure', async () => {
  const says = async (command: string, expected: string) => {
    const step = { command, expected };
    return isAsSaid(step, await runStep(step, shell));
  };
  expect(await says('echo one; false', '…')).toBe(false);
  expect(await says('echo one', '…')).toBe(true);
  expect(await says('echo one; false', 'one')).toBe(true);
  expect(await says('echo one', '')).toBe(false);
});
