/**
 * The pages that tests check, and the parts of them that tests run. The language of a code block selects the check:
 *
 * - `console`: commands after `$ `, run in order with the rules of scripts/tour-steps.ts.
 * - `yaml`: whole manifests. The test applies them, and policies must become ready. With a file name in the first line
 *   (`# policies/servers.yaml – text`), the test only writes the file, for commands of the page.
 * - `yaml fragment`: a part of a manifest or an output. It must parse; fields of Gatehouse's kinds must exist.
 * - `ts`: compiled with the other `ts` blocks of the page, as the file in its first line (`// handlers/servers.ts`).
 * - `json`: must parse.
 * - `sh`, `bash`: only with the note `not run`.
 *
 * Notes are HTML comments:
 * - `<!-- not run: why -->` before a block: the test only parses the block.
 * - `<!-- before: commands -->`: the test runs them at this place of the page; they must succeed.
 * - `<!-- sandbox: npm start -- flags -->`: starts the sandbox of the page. Default: `npm start -- --no-tour`.
 *
 * Each page has its own sandbox, and starts in a folder that looks like the root of the repository.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';

import { partsOf, type Block, type Part } from '../../scripts/markdown.ts';
import { stepsIn, type Step } from '../../scripts/tour-steps.ts';

export const ROOT = join(import.meta.dirname, '..', '..');

export interface Page {
  readonly path: string;
  readonly markdown: string;
}

export type Action =
  | { readonly kind: 'prepare'; readonly line: number; readonly command: string }
  | { readonly kind: 'step'; readonly line: number; readonly step: Step }
  | { readonly kind: 'write'; readonly line: number; readonly file: string; readonly text: string }
  | { readonly kind: 'apply'; readonly line: number; readonly text: string }
  | { readonly kind: 'complain'; readonly line: number; readonly complaint: string }
  | { readonly kind: 'skip'; readonly line: number; readonly block: Block; readonly reason: string };

export type Script = ReturnType<typeof scriptOf>;

const OTHER_PAGES = ['README.md', 'CHANGELOG.md', 'CONTRIBUTING.md', 'SECURITY.md', 'ARCHITECTURE.md'];

export function pages(): readonly Page[] {
  const docs = readdirSync(join(ROOT, 'docs'), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && entry.name.endsWith('.md'))
    .map((entry) => relative(ROOT, join(entry.parentPath, entry.name)));
  const there = new Set(readdirSync(ROOT));
  return [...OTHER_PAGES.filter((path) => there.has(path)), ...docs.toSorted()].map((path) => ({
    path,
    markdown: readFileSync(join(ROOT, path), 'utf8'),
  }));
}

export function scriptOf({ markdown }: Page) {
  let sandbox: readonly string[] = ['--no-tour'];
  let skipping: string | undefined;
  const actions: Action[] = [];
  for (const part of partsOf(markdown)) {
    if (part.kind === 'note') {
      if (part.key === 'not run') skipping = part.text;
      else if (part.key === 'sandbox') sandbox = sandboxFlags(part.text);
      else actions.push(noted(part));
    } else if (skipping === undefined) {
      actions.push(...actionsOf(part));
    } else {
      actions.push({ kind: 'skip', line: part.line, block: part, reason: skipping });
      skipping = undefined;
    }
  }
  return { sandbox, actions };
}

const sandboxFlags = (command: string): readonly string[] =>
  command
    .replace(/^npm start *(-- )?/, '')
    .split(' ')
    .filter((flag) => flag !== '');

const noted = ({ key, text, line }: Extract<Part, { readonly kind: 'note' }>): Action =>
  key === 'before'
    ? { kind: 'prepare', line, command: text }
    : { kind: 'complain', line, complaint: `a note "${key}" means nothing: see test/support/doc-pages.ts` };

const NOT_RUN = 'make it a console block with what it prints, or say why not: <!-- not run: … -->';

function actionsOf(block: Block): readonly Action[] {
  const { language, marks, text, line } = block;
  switch (language) {
    case 'console':
      return stepsIn(text).map((step) => ({ kind: 'step', line, step }));
    case 'yaml': {
      if (marks.includes('fragment')) return [];
      const file = fileNameOf(text);
      return file === undefined ? [{ kind: 'apply', line, text }] : [{ kind: 'write', line, file, text }];
    }
    case 'ts':
      return [{ kind: 'write', line, file: fileNameOf(text) ?? `line-${line}.ts`, text }];
    case 'json': {
      const file = fileNameOf(text);
      return file === undefined ? [] : [{ kind: 'write', line, file, text }];
    }
    case 'sh':
    case 'bash':
      return [{ kind: 'complain', line, complaint: NOT_RUN }];
    default:
      return [];
  }
}

/** The file name in the first line of a block: `# policy.yaml`, `// handlers/servers.ts – for Node 24`. */
function fileNameOf(text: string): string | undefined {
  return /^(?:#|\/\/) (?<file>[\w./-]+\.(?:yaml|yml|ts|json))(?: [–-] .*)?\n/.exec(text)?.groups?.file;
}
