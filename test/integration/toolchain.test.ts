/** Checks of the toolchain: the Node version that the scripts run on, and the import rules between folders. */
import { execFile } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { promisify } from 'node:util';
import { ESLint } from 'eslint';
import { describe, expect, test } from 'vitest';

const run = promisify(execFile);
const root = join(import.meta.dirname, '..', '..');

/** The environment of a shell on this machine, without the variables that npm and npx add for the project's tools. */
function ownEnvironment(): NodeJS.ProcessEnv {
  const path = (process.env.PATH ?? '').split(delimiter).filter((folder) => !folder.includes('node_modules'));
  const others = Object.entries(process.env).filter(
    ([name]) => !/^npm_/i.test(name) && name !== 'NODE_OPTIONS',
  );
  return { ...Object.fromEntries(others), PATH: path.join(delimiter) };
}

test('npm scripts run on the Node version of package.json, on any machine', async () => {
  const { devDependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    devDependencies: { node: string };
  };
  const { stdout } = await run('npm', ['exec', '--offline', '--call', 'node -p process.version'], {
    cwd: root,
    env: ownEnvironment(),
  });
  expect(stdout.trim()).toBe(`v${devDependencies.node}`);
});

describe('the import rules', () => {
  // Only the rules on imports and globals: without types, linting a file takes milliseconds.
  const eslint = new ESLint({
    cwd: root,
    ruleFilter: ({ ruleId }) => ruleId.startsWith('no-restricted-'),
    overrideConfig: { languageOptions: { parserOptions: { project: null } } },
  });

  async function complaints(room: string, code: string): Promise<readonly string[]> {
    const [result] = await eslint.lintText(`${code}\n`, { filePath: join(root, 'src', room, 'example.ts') });
    return (result?.messages ?? []).map(({ ruleId, message }) => ruleId ?? message);
  }

  test.each([
    ['api', '../admission/review/review.ts'],
    ['api', 'node:fs'],
    ['admission', '../kube/client.ts'],
    ['admission', 'node:fs'],
    ['admission/policy', '../../kube/client.ts'],
    ['pki', '../kube/client.ts'],
    ['restore', '../pki/x509/keys.ts'],
    ['kube', '../api/policy-match.ts'],
    ['config', '../json/kube-object.ts'],
    ['json', '../api/policy-match.ts'],
    ['cel', '../admission/review/review.ts'],
    ['admission', 're2js'],
    ['runtime', '../cli/serve.ts'],
    ['runtime', '../sandbox/sandbox.ts'],
    ['runtime', 'undici'],
    ['server', '../kube/client.ts'],
    ['server', '../../test/support/heap.ts'],
    ['cli', 'fastify'],
    ['cli/inspect', '../../../scripts/tour.ts'],
    ['cli/inspect', '../../sandbox/sandbox.ts'],
    ['server', '../sandbox/sandbox.ts'],
    ['kube', '../sandbox/sandbox.ts'],
    ['sandbox/http', '../../kube/client.ts'],
    ['machinery', '../sandbox/pipeline/context.ts'],
    ['machinery/webhooks', 'node:https'],
    ['cli/inspect', '../../machinery/api-object.ts'],
    ['cli/review', '../../sandbox/sandbox.ts'],
  ])('%s/ cannot import %s', async (room, name) => {
    expect(await complaints(room, `import { x } from '${name}';`)).toEqual(['no-restricted-imports']);
    expect(await complaints(room, `import type { x } from '${name}';`)).toEqual(['no-restricted-imports']);
  });

  test.each([
    ['setTimeout(f, 1);', 'no-restricted-globals'],
    ['process.exit();', 'no-restricted-globals'],
    ['void fetch(url);', 'no-restricted-globals'],
    ['Date.now();', 'no-restricted-properties'],
    ['Math.random();', 'no-restricted-properties'],
  ])('the pure folders cannot use %s', async (code, rule) => {
    for (const room of ['json', 'cel', 'api', 'machinery', 'admission', 'pki', 'restore'])
      expect(await complaints(room, code)).toEqual([rule]);
  });
});
