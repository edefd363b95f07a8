// suite: processes
/**
 * Every command and manifest of the README and of docs/ works as its page says. test/support/doc-pages.ts has the
 * rules.
 */
import { describe, expect, test } from 'vitest';

import { pages, scriptOf } from '../support/doc-pages.ts';
import { runPage } from '../support/doc-run.ts';
import { startReader } from '../support/doc-shell.ts';
import { typeErrors } from '../support/doc-types.ts';
import { HAS_KUBECTL } from '../support/kubectl.ts';

/** In milliseconds: a page starts a sandbox and runs at most a few dozen commands. */
const PATIENCE_MS = 300_000;

describe.runIf(HAS_KUBECTL)('the commands of each page work as shown', { timeout: PATIENCE_MS }, () => {
  /** Selects pages by a regular expression over their paths, for authors of a page. */
  const only = process.env.GATEHOUSE_PAGE;
  const wanted = pages()
    .map((page) => ({ ...page, script: scriptOf(page) }))
    .filter(({ script }) => script.actions.length > 0)
    .filter(({ path }) => only === undefined || new RegExp(only).test(path));

  test.each(wanted)('$path', async ({ path, script }) => {
    for (const action of script.actions) {
      if (action.kind === 'skip') console.info(`${path}:${action.line}: not run: ${action.reason}`);
    }
    const reader = await startReader(script.sandbox);
    try {
      expect((await runPage(script, reader.shell)).join('\n\n')).toBe('');
    } finally {
      await reader.stop();
    }
  });
});

test.runIf(HAS_KUBECTL)(
  'a page with a command that fails is reported',
  { timeout: PATIENCE_MS },
  async () => {
    const markdown = [
      '<!-- before: exit 7 -->',
      '```yaml\na: 1\n```',
      '```yaml\napiVersion: v1\nkind: ConfigMap\nmetadata: { name: a, namespace: default }\nnothing: {}\n```',
      '```yaml\n# unused.yaml\na: 1\n```',
      '```console\n$ echo one\ntwo\n$ false\n…\n```',
      '<!-- not run: it is wrong -->\n```sh\nif then\n```',
    ].join('\n');
    const script = scriptOf({ path: 'docs/one.md', markdown });
    const reader = await startReader(script.sandbox);
    try {
      const complaints = await runPage(script, reader.shell);
      expect(complaints).toEqual([
        expect.stringContaining('no command of this page uses unused.yaml'),
        expect.stringContaining('fails with 7'),
        expect.stringContaining('this is no whole manifest'),
        expect.stringContaining('.nothing: field not declared in schema'),
        expect.stringContaining('says:\none\n'),
        expect.stringContaining('$ false'),
        expect.stringContaining('bash -n'),
      ]);
    } finally {
      await reader.stop();
    }
  },
);

test('TypeScript of the pages compiles against the package', { timeout: PATIENCE_MS }, async () => {
  expect(await typeErrors(pages())).toBe('');
  const wrong = "```ts\n// a/b.ts\nimport { nothing } from '@gatehouse-dev/gatehouse';\n```\n";
  expect(await typeErrors([{ path: 'docs/one.md', markdown: wrong }])).toContain(
    'pages/docs/one.md/a/b.ts(2,10)',
  );
});
